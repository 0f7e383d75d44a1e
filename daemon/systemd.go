// The status line that systemd shows of the agent.

package daemon

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/drover-project/drover/daemon/selfupdate"
	"github.com/drover-project/drover/plans/backoff"
)

// statusEvery is the least distance between two status lines.
const statusEvery = 250 * time.Millisecond

// The agent counts as idle when nothing has changed for quiet. After settled, what the
// last plan's connections and their buffers held is free as well.
const (
	quiet   = 10 * time.Second
	settled = time.Minute
)

// showStatus keeps the status line and the record of health up to date. Once nothing has changed
// for a while, the memory that a large plan needed is given back: nothing else would ask
// for it for weeks. Right after an apply would be too early, as the plan is still in hand.
func (a *agent) showStatus(ctx context.Context) error {
	idle, rest := time.AfterFunc(quiet, debug.FreeOSMemory), time.AfterFunc(settled, debug.FreeOSMemory)
	defer idle.Stop()
	defer rest.Stop()
	last := ""
	var health selfupdate.Health
	for {
		health = a.recordHealth(health)
		if line := a.liveStatus.line(); line != last && a.life.Send("STATUS="+line) {
			last = line
		}
		if err := backoff.Wait(ctx, statusEvery); err != nil {
			return err
		}
		select {
		case <-a.liveStatus.changed:
			idle.Reset(quiet)
			rest.Reset(settled)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
