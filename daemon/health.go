// What the agent writes down of itself for an update of it, see package selfupdate.

package daemon

import (
	"os"

	"github.com/drover-project/drover/daemon/selfupdate"
)

// recallUpdate reports an update that was taken back, until a later one succeeds.
func (a *agent) recallUpdate() {
	fault, err := selfupdate.TakenBack(a.updates)
	if err != nil {
		a.Logger.Warn("how the last update ended cannot be read", "error", err)
	}
	if fault == nil {
		return
	}
	a.Logger.Warn("last update of the agent failed", "error", fault)
	a.liveStatus.setFault("self-update", fault)
}

// recordHealth writes down that the agent is up, and again when it has reached its server.
// recorded is what the last call returned, the zero value at first.
func (a *agent) recordHealth(recorded selfupdate.Health) selfupdate.Health {
	h := selfupdate.Health{PID: os.Getpid(), Version: a.Version, Remote: a.connection.Load() != nil, Connected: a.liveStatus.hasReached()}
	var err error
	if h.Boot, err = selfupdate.BootID(); err == nil && h != recorded {
		err = selfupdate.WriteHealth(a.updates, h)
	}
	if err != nil {
		a.Logger.Warn("health cannot be written down, so an update would go back", "error", err)
		return recorded
	}
	return h
}
