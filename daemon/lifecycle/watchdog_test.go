package lifecycle

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatchdog: systemd hears from the agent as long as every part that can be asked turns.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var signs atomic.Int64
		var hangs [2]atomic.Bool
		var logged strings.Builder
		l := &Life{
			Watchdog: 30 * time.Second,
			Notify: func(state string) error {
				if state == "WATCHDOG=1" {
					signs.Add(1)
				}
				return nil
			},
			Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		}
		l.Parts = []Part{
			{Name: "drop directory", Alive: func(context.Context) bool { return !hangs[0].Load() }},
			{Name: "plan Secret", Alive: func(context.Context) bool { return !hangs[1].Load() }},
			{Name: "tunnel"},
		}
		ctx, cancel := context.WithCancel(t.Context())
		go l.watchdog(ctx)
		time.Sleep(61 * time.Second)
		if n := signs.Load(); n != 7 {
			t.Errorf("%d signs of life in a minute, want one in ten seconds", n)
		}
		for i, name := range []string{"drop directory", "plan Secret"} {
			hangs[i].Store(true)
			before := signs.Load()
			time.Sleep(time.Minute)
			if signs.Load() != before {
				t.Errorf("signs of life although %s hangs", name)
			}
			if got := l.silent(ctx); !slices.Equal(got, []string{name}) {
				t.Errorf("silent are %q", got)
			}
			hangs[i].Store(false)
			time.Sleep(time.Minute)
			if signs.Load() == before {
				t.Errorf("no signs of life although %s goes on", name)
			}
		}
		cancel()
		synctest.Wait()
		if !strings.Contains(logged.String(), "plan Secret") {
			t.Errorf("log: %s", logged.String())
		}
	})
}
