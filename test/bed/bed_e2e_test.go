//go:build e2e

package bed_test

// The whole bed, with a stand-in for a server: this test binary.

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/bed/process"
)

// listenVariable makes this test binary a server on the address it holds.
const listenVariable = "DROVER_TEST_LISTEN"

func TestMain(m *testing.M) {
	if address := os.Getenv(listenVariable); address != "" {
		fmt.Println(http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, "hello", r.URL.Query().Get("from"))
			fmt.Println("greeted", r.URL.Query().Get("from"))
		})))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestBed runs a host that calls a server again and again, kills the server, reboots the host, and ends with all gone.
func TestBed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir := t.TempDir()
	b, err := bed.Start(ctx, bed.Options{Dir: dir, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	address, err := b.FreeAddress(ctx)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := process.Options{Path: self, Env: []string{listenVariable + "=" + address}, ReadyURL: "http://" + address + "/?from=harness"}

	first := run(ctx, t, b, server)
	h, err := b.Host(ctx, host.Options{Name: "caller"})
	if err != nil {
		t.Fatal(err)
	}
	unit := fmt.Sprintf("[Service]\nExecStart=/usr/bin/curl --no-progress-meter --max-time 5 http://%s/?from=%%H\nRestart=always\nRestartSec=100ms\n"+
		"[Unit]\nStartLimitIntervalSec=0\n[Install]\nWantedBy=multi-user.target\n", address)
	if err := h.WriteFile(ctx, "/etc/systemd/system/caller.service", []byte(unit), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Sh(ctx, `systemctl enable --quiet --now caller`); err != nil {
		t.Fatal(err)
	}
	greeted(ctx, t, h, first)

	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	second := run(ctx, t, b, server)
	greeted(ctx, t, h, second)

	if err := h.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	greeted(ctx, t, h, run(ctx, t, b, server)) // it was not running when the host booted

	logs, err := b.Collect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	journal, err := os.ReadFile(filepath.Join(logs, "caller", "journal.txt"))
	if err != nil || !strings.Contains(string(journal), "hello caller") {
		t.Errorf("the collected journal lacks what the unit printed (error %v)", err)
	}
}

func TestBuild(t *testing.T) {
	b, err := bed.Start(t.Context(), bed.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	bin, err := b.Build(t.Context(), "github.com/drover-project/drover/test/bed/engine/runc-dropcap")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(bin, "runc-dropcap")); err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("no binary: %v, %v", info, err)
	}
	if _, err := b.Build(t.Context(), "github.com/drover-project/drover/test/missing"); err == nil || !strings.Contains(err.Error(), "test/missing") {
		t.Errorf("error %v, want one that names the package", err)
	}
}

func run(ctx context.Context, t *testing.T, b *bed.Bed, o process.Options) *process.Process {
	t.Helper()
	p, err := b.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// greeted waits until the host called the server. The limit is for a host that never does; a busy machine is slow.
func greeted(ctx context.Context, t *testing.T, h *host.Host, p *process.Process) {
	t.Helper()
	waiting, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if _, err := p.WaitLine(waiting, regexp.MustCompile("^greeted caller$")); err != nil {
		journal, _ := h.Sh(ctx, `systemctl status --no-pager caller; journalctl --no-pager -n 50`) // the failure is reported either way
		t.Fatalf("%v; the host says:\n%s", err, journal)
	}
}
