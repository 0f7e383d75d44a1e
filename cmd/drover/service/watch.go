package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/drover-project/drover/plans/backoff"
)

// localURL is the file of the data directory with the address at which the server answers on this host.
const localURL = "local-url"

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
		// The server may take a third of the time for an answer, and one that was lost on the way is asked for again.
		client := &http.Client{Timeout: within / 3, Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // #nosec G402 -- this process itself is asked whether it answers, and told nothing
		}}
		for {
			if answers(ctx, client, dataDir) == nil {
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

// answers asks the server whether it lives. An error is that it does not answer, or not yet.
func answers(ctx context.Context, client *http.Client, dataDir string) error {
	address, err := os.ReadFile(filepath.Join(dataDir, localURL))
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(string(address))+"/ping", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers its own request with %s", answer.Status)
	}
	return nil
}
