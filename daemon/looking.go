// Letting people look: the status socket, and what stands behind it and the tunnel.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/drover-project/drover/daemon/lifecycle"
	"github.com/drover-project/drover/daemon/status"
	"github.com/drover-project/drover/plans/apply"
)

// observe hands an event to everybody who shows it.
func (a *agent) observe(e apply.Event) {
	a.liveStatus.observe(e)
	a.feed.Observe(e)
	if e.Kind == apply.ApplyEnded || e.Kind == apply.PeriodicEnded {
		a.keepFailures()
	}
}

// looking answers questions for the status and for output.
func (a *agent) looking() http.Handler {
	return status.Handler(a.status, a.feed.Handler())
}

// openStatus takes the socket before anything on the host is touched: two agents with the
// same ledgers would undo each other's work. One with other ledgers, or a socket that
// cannot be made, is no reason not to work: the part tries again as long as the agent runs. A process that an agent had
// begun to start when it was killed holds the lock for a moment longer than the agent.
func (a *agent) openStatus(ctx context.Context) error {
	if a.StatusSocket == "" {
		return nil
	}
	socket, err := status.Listen(a.StatusSocket)
	var busy *status.BusyError
	if errors.As(err, &busy) {
		other, asked := status.NewClient(a.StatusSocket).Status(ctx)
		if asked == nil && other.Ledgers == a.ledgers {
			return fmt.Errorf("another agent (process %d, since %s) works with the configuration %s already; stop it first",
				other.PID, other.Started.Format(time.RFC3339), other.Config)
		}
	}
	if err != nil {
		a.Logger.Warn("status cannot be asked for on this host until its socket can be taken", "error", err)
	}
	handler := a.looking()
	a.parts = append(a.parts, lifecycle.Part{Name: "status socket", Run: func(ctx context.Context) (err error) {
		now := socket
		socket = nil
		if now == nil {
			if now, err = status.Listen(a.StatusSocket); err != nil {
				return err
			}
		}
		return now.Serve(ctx, handler, a.Logger)
	}})
	return nil
}
