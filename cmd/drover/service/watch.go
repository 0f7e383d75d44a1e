package service

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/drover-project/drover/cmd/drover/check"
	"github.com/drover-project/drover/plans/backoff"
)

// Watch tells systemd's watchdog that the server with a data directory lives, each time that it has answered a request, until the
// function that it returns is called. Without a watchdog it does nothing. A server that hangs says nothing, and systemd starts it again.
func Watch(ctx context.Context, dataDir string, logger *slog.Logger) (stop func()) {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		logger.Warn("the watchdog of systemd cannot be told that the server lives", "error", err)
	}
	if err != nil || within == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			// It may take a third of the time for an answer, and is asked again where one was lost on the way.
			if check.Answers(ctx, dataDir, within/3) {
				_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog) // the next one follows
			}
			if backoff.Wait(ctx, within/6) != nil {
				return
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

// Ended tells systemd why the server has ended, which stands in the status of the unit until it starts again; nil has no reason.
func Ended(err error) {
	if err != nil {
		_, _ = daemon.SdNotify(false, "STATUS="+strings.Join(strings.Fields(err.Error()), " ")) // the error is printed, too
	}
}
