// What systemd is told: that the agent is ready, what it does, and that it lives.

package daemon

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/drover-project/drover/daemon/selfupdate"
	"github.com/drover-project/drover/plans/backoff"
)

// tellEvery is the least distance between two status lines.
const tellEvery = 250 * time.Millisecond

// notify tells systemd and says whether that worked. That it did not is no reason to stop.
func (a *agent) notify(state string) (told bool) {
	if a.Notify == nil {
		return true
	}
	if err := a.Notify(state); err != nil {
		a.Logger.Debug("systemd cannot be told", "state", state, "error", err)
		return false
	}
	return true
}

// The agent counts as idle when nothing has changed for quiet. After settled, what the
// last plan's connections and their buffers held is free as well.
const (
	quiet   = 10 * time.Second
	settled = time.Minute
)

// tell keeps the status line and the record of health up to date. Once nothing has changed
// for a while, the memory that a large plan needed is given back: nothing else would ask
// for it for weeks. Right after an apply would be too early, as the plan is still in hand.
func (a *agent) tell(ctx context.Context) {
	idle, rest := time.AfterFunc(quiet, debug.FreeOSMemory), time.AfterFunc(settled, debug.FreeOSMemory)
	defer idle.Stop()
	defer rest.Stop()
	last := ""
	var health selfupdate.Health
	for {
		health = a.tellHealth(health)
		if line := a.board.line(); line != last && a.notify("STATUS="+line) {
			last = line
		}
		if backoff.Wait(ctx, tellEvery) != nil {
			return
		}
		select {
		case <-a.board.changed:
			idle.Reset(quiet)
			rest.Reset(settled)
		case <-ctx.Done():
			return
		}
	}
}

// watchdog gives signs of life as long as each part that takes plans gives them.
func (a *agent) watchdog(ctx context.Context) {
	for {
		silent := a.silent(ctx)
		if len(silent) == 0 {
			a.notify("WATCHDOG=1")
		} else if ctx.Err() == nil {
			a.Logger.Error("parts of the agent give no sign of life, systemd will start it again", "parts", silent)
		}
		if backoff.Wait(ctx, a.Watchdog/3) != nil {
			return
		}
	}
}

// silent names the parts that give no sign of life.
func (a *agent) silent(ctx context.Context) []string {
	var silent []string
	for _, p := range a.parts {
		if p.alive != nil && !p.alive(ctx) {
			silent = append(silent, p.name)
		}
	}
	return silent
}
