package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/clustertree"
)

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why NAME", Short: "Say why a cluster, a fleet or a machine is not active, first cause first, and what to do about it", Args: needs("NAME"),
		Long: `Say why a cluster, a fleet or a machine is not active: what failed, what is lost, what is being done and what
waits for others, in that order, each with what to do about it, the last output of what failed and the end of
the log on its host, where that can be asked. The codes are explained in docs/reference/causes.md.

A cluster or a fleet is meant before a machine of the same name; NAMESPACE/NAME and ids are names, too. The exit code is 0
when nothing is wrong, and 1 otherwise.`,
		Example: "  drover why harbour\n  drover why pier-2",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			return a.why(cmd.Context(), c, args[0])
		},
	}
}

func (a *app) why(ctx context.Context, c *client.Client, name string) error {
	path, err := a.whyPath(ctx, c, name)
	if err != nil {
		return err
	}
	var y apitypes.Why
	if err := c.Get(ctx, path, &y); err != nil {
		return fmt.Errorf("ask why %s is not active: %w", name, err)
	}
	if a.tabular() {
		now := time.Now()
		var text strings.Builder
		clustertree.Why(&text, name, y, func(at time.Time) string { return ago(now, at) })
		fmt.Fprint(a.Out, clustertree.Documented(c.Server(), text.String()))
	} else if err := a.show(y, nil); err != nil {
		return err
	}
	if !y.Well {
		return exitCode(codeFailed)
	}
	return nil
}

// whyPath is where the server answers about the cluster, the fleet or the machine of a name.
func (a *app) whyPath(ctx context.Context, c *client.Client, name string) (string, error) {
	one, err := a.findHome(ctx, c, name)
	if err == nil {
		return one.path() + "/why", nil
	}
	_, none := errors.AsType[*absentError](err)
	if refused, ok := errors.AsType[*client.Error](err); !none && (!ok || refused.Status != http.StatusForbidden) { // who may see no fleets may see machines
		return "", err
	}
	m, err := a.findMachine(ctx, c, name)
	if _, none := errors.AsType[*absentError](err); none {
		return "", absent("there is no cluster, no fleet and no machine %q; `drover clusters ls` and `drover machines ls` show those there are", name)
	}
	return machinePath(m) + "/why", err
}
