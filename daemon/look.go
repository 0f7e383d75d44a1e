// Looking at what a plan would do, as the agent of this host would do it.

package daemon

import (
	"context"
	"errors"
	"io/fs"

	"github.com/drover-project/drover/daemon/config"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// Look says what the plan would do to this host, with the configuration that the
// environment (env is os.Getenv) leads to, or the usual one where no agent is installed. The errors are those of reading the configuration, and of
// apply.Look.
func Look(ctx context.Context, env func(string) string, p *plans.Plan, checksum string) (apply.Preview, error) {
	path := config.Find(env)
	c, err := config.LoadAgent(path)
	if errors.Is(err, fs.ErrNotExist) {
		c, err = config.Usual(path), nil
	}
	if err != nil {
		return apply.Preview{}, err
	}
	return apply.Look(ctx, apply.Options{LedgerDir: c.LedgerDirectory(), Redirects: redirects(c.Dir)}, apply.Delivery{Plan: p, Checksum: checksum})
}
