package server

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/options"
	"github.com/drover-project/drover/server/store"
)

// startAlone runs a server with an embedded etcd until it serves or ends, stops it, and
// returns the error that it ended with.
func startAlone(t *testing.T, dir string, newAuthority bool) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	serves := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, options.Options{
			DataDir: dir, Listen: "127.0.0.1:0", AssetsDir: t.TempDir(), BootstrapPassword: "a long first password", Certificate: options.Certificate{NewAuthority: newAuthority},
			Store: store.Options{UnsafeNoFsync: true}, Process: options.Process{
				Environ: func(string) string { return "" }, Out: io.Discard, Now: time.Now, Logger: slog.New(signalling{slog.DiscardHandler, "serving", serves}),
			},
		})
	}()
	select {
	case err := <-ended:
		return err
	case <-serves:
	}
	cancel()
	return <-ended
}

// signalling is a log that closes a channel when a message comes.
type signalling struct {
	slog.Handler
	message string
	seen    chan struct{}
}

func (s signalling) Enabled(context.Context, slog.Level) bool { return true }

func (s signalling) Handle(_ context.Context, r slog.Record) error {
	if r.Message == s.message {
		close(s.seen)
	}
	return nil
}

func (s signalling) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s signalling) WithGroup(string) slog.Handler      { return s }

// Hosts have pinned the authority, so that another one must never come by itself.
func TestALostAuthorityIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls", "ca.crt"), filepath.Join(dir, "tls", "ca.key")
	if err := startAlone(t, dir, false); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(when, sentence string) {
		t.Helper()
		if err := startAlone(t, dir, false); err == nil || !strings.Contains(err.Error(), sentence) || !strings.Contains(err.Error(), "--new-authority") {
			t.Errorf("%s: %v", when, err)
		}
	}
	remove := func(file string) {
		t.Helper()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	remove(certFile)
	refused("certificate lost", "ca.key exists without "+certFile)
	remove(keyFile)
	refused("both lost", "is missing in "+filepath.Dir(certFile)+": restore its ca.crt and ca.key")
	if err := startAlone(t, dir, true); err != nil {
		t.Fatal("with --new-authority:", err)
	}
	second, err := os.ReadFile(certFile)
	if err != nil || string(second) == string(first) {
		t.Errorf("with --new-authority there is no new authority: %v", err)
	}
	if err := startAlone(t, dir, false); err != nil {
		t.Error("the new authority is not known:", err)
	}
	if err := startAlone(t, dir, true); err != nil {
		t.Error("--new-authority with the known one:", err)
	}
	if again, err := os.ReadFile(certFile); err != nil || string(again) != string(second) {
		t.Errorf("--new-authority replaced an authority that is there: %v", err)
	}
	other := t.TempDir()
	if err := startAlone(t, other, false); err != nil {
		t.Fatal(err)
	}
	remove(certFile)
	remove(keyFile)
	for _, file := range []string{certFile, keyFile} {
		raw, err := os.ReadFile(filepath.Join(other, "tls", filepath.Base(file)))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused("that of another server", "is not the one of this server")
}
