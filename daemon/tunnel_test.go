package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"testing"

	"github.com/drover-project/drover/tunnel"
)

func TestHopeless(t *testing.T) {
	for err, want := range map[error]bool{
		&tunnel.StuckError{Cause: errors.New("no file descriptors left")}:                                  true,
		fmt.Errorf("tunnel: %w", &tunnel.StuckError{Cause: errors.New("x")}):                               true,
		&tunnel.StuckError{Cause: &tunnel.HandshakeError{Status: 403, Text: "no tunnels in this version"}}: false,
		errors.New("something else"): false,
	} {
		if hopeless(err) != want {
			t.Errorf("%v: hopeless is not %t", err, want)
		}
	}
	if hopeless(nil) {
		t.Error("an agent that is stopped is taken for a hopeless one")
	}
}

func TestSIGHUPRefreshesTheTunnel(t *testing.T) {
	signals, refreshed := make(chan os.Signal), make(chan struct{})
	a := &agent{Options: Options{Refresh: signals, Logger: slog.New(slog.DiscardHandler)}}
	a.connection.Store(&connection{refresh: func() { close(refreshed) }})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { _ = a.heed(ctx); close(ended) }()
	signals <- syscall.SIGHUP
	<-refreshed
	cancel()
	<-ended
}
