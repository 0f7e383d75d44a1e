// What a person or a tunnel that stays closed asks of the agent as a whole.

package daemon

import (
	"context"
	"errors"

	"github.com/drover-project/drover/tunnel"
)

// heed does what SIGHUP asks for.
func (a *agent) heed(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.Refresh:
		}
		c := a.connection.Load()
		if c == nil || c.refresh == nil {
			a.Logger.Info("there is no tunnel whose server could be looked up")
			continue
		}
		a.Logger.Info("the name of the tunnel's server is looked up")
		c.refresh()
	}
}

// hopeless says of the end of a tunnel whether a new process may do better. A tunnel that the
// server refuses would be refused again: plans come without it.
func hopeless(err error) bool {
	var stuck *tunnel.StuckError
	var refused *tunnel.HandshakeError
	return errors.As(err, &stuck) && !errors.As(stuck.Cause, &refused)
}
