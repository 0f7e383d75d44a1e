package loglevel_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/daemon/loglevel"
)

func TestAskAndSet(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "log.sock")
	level := &slog.LevelVar{}
	for range 2 { // the second life finds the socket of the first
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- loglevel.Serve(ctx, socket, level) }()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			if text, err := loglevel.Ask(t.Context(), socket, "info"); err == nil && text == "OK" {
				break
			} else if time.Now().After(end) {
				t.Fatal(text, err)
			}
		}
		if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		for _, name := range []string{"trace", "debug", "warn", "error", "info"} {
			if text, err := loglevel.Ask(t.Context(), socket, name); err != nil || text != "OK" {
				t.Errorf("set %s: %q, %v", name, text, err)
			}
			if text, err := loglevel.Ask(t.Context(), socket, ""); err != nil || text != name {
				t.Errorf("after %s: %q, %v", name, text, err)
			}
		}
		if _, err := loglevel.Ask(t.Context(), socket, "loud"); err == nil || !strings.Contains(err.Error(), `"loud"`) {
			t.Error(err)
		}
		if level.Level() != slog.LevelInfo {
			t.Error(level)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if _, err := loglevel.Ask(t.Context(), socket, ""); err == nil || !strings.Contains(err.Error(), "does it run?") {
		t.Error(err)
	}
}

func TestPlaceIsTaken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log.sock")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := loglevel.Serve(t.Context(), file, &slog.LevelVar{}); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Error(err)
	}
}
