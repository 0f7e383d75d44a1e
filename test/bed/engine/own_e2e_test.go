//go:build e2e

package engine

// Our own engine, really started; needs root.

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestOwnEngineIsStoppedByItsLastUser starts an engine apart from the one other tests may share.
func TestOwnEngineIsStoppedByItsLastUser(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	o := withDefaults(Options{CacheDir: t.TempDir(), RunPrefix: "/run/drover-own-" + newRunID(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(func() { removeRunFiles(t, o.RunPrefix) })

	first, err := startOwn(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	second, err := startOwn(ctx, o)
	if err != nil {
		t.Fatal(err, first.release(ctx))
	}
	view := &Engine{host: first.socket()}

	if err := first.release(ctx); err != nil {
		t.Fatal(err)
	}
	if !second.answers(ctx, view) {
		t.Fatalf("the engine stopped while somebody used it; its log:\n%s", tail(first.logPath()))
	}
	if err := second.release(ctx); err != nil {
		t.Fatal(err)
	}
	if second.answers(ctx, view) {
		t.Error("the engine still answers after its last user released it")
	}
	if _, err := os.Stat(first.pidFile()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pid file stays: %v", err)
	}
}

func TestOwnEngineSaysWhyItCannotStart(t *testing.T) {
	cache := t.TempDir()
	if err := os.WriteFile(cache+"/docker", nil, 0o600); err != nil { // where a directory should be
		t.Fatal(err)
	}
	o := withDefaults(Options{CacheDir: cache, RunPrefix: "/run/drover-own-" + newRunID(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(func() { removeRunFiles(t, o.RunPrefix) })
	_, err := startOwn(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), cache+"/docker") {
		t.Errorf("error %v, want one with the engine's own last words", err)
	}
}

func TestLeftoversOfKilledRunsAreRemoved(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	o := withDefaults(Options{CacheDir: t.TempDir(), RunPrefix: "/run/drover-own-" + newRunID(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(func() { removeRunFiles(t, o.RunPrefix) })

	killed, err := startOwn(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	run := &Engine{Log: o.Log, host: killed.socket(), run: newRunID(), own: killed}
	if run.network, err = run.makeNetwork(ctx); err != nil {
		t.Fatal(err, killed.release(ctx))
	}
	// The rules of a run of this engine, and those of a run of another engine on the same machine.
	other := &Engine{Log: o.Log, run: run.run, network: run.network, own: &ownDaemon{prefix: o.RunPrefix + "-other", iptables: killed.iptables}}
	for _, e := range []*Engine{run, other} {
		if err := e.addRules(ctx); err != nil {
			t.Fatal(err, killed.release(ctx))
		}
	}
	if err := killed.lease.Unlock(); err != nil { // all that the kernel does for a process that is killed
		t.Fatal(err)
	}

	next, err := startOwn(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	networks, err := run.Docker(ctx, "network", "ls", "--quiet", "--filter", "label="+labelKey)
	if err != nil || networks != "" {
		t.Errorf("networks left: %q (error %v)", networks, err)
	}
	left, others := marked(ctx, t, killed.iptables, killed.ruleMark()), marked(ctx, t, killed.iptables, other.own.ruleMark())
	if left != 0 || killed.iptables != "" && others != len(other.rules()) {
		t.Errorf("%d rules left of this engine and %d of the other", left, others)
	}
	if err := errors.Join(other.own.removeRules(ctx, other.own.ruleMark()), next.release(ctx)); err != nil {
		t.Fatal(err)
	}
}

// TestRuntimeIsBuiltByManyAtOnce stands for hosts of several test processes that start at the same moment.
func TestRuntimeIsBuiltByManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	errs := make(chan error)
	for range 4 {
		go func() {
			path, err := buildDropCap(t.Context(), dir)
			if err == nil {
				_, err = exec.LookPath(path)
			}
			errs <- err
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// marked counts the rules with a mark.
func marked(ctx context.Context, t *testing.T, binary, mark string) (n int) {
	t.Helper()
	if binary == "" {
		return 0
	}
	for _, table := range []string{"nat", "filter"} {
		listing, err := iptables(ctx, binary, "--wait", "-t", table, "-S")
		if err != nil {
			t.Fatal(err)
		}
		n += len(markedRules(listing, mark))
	}
	return n
}

// removeRunFiles removes what an engine leaves below /run, where the tests' temporary directories are not: a socket's
// path must be short.
func removeRunFiles(t *testing.T, prefix string) {
	for _, suffix := range []string{"", ".sock", ".pid", ".gate", ".lease", ".json", ".ip_forward", "-bin"} {
		if err := os.RemoveAll(prefix + suffix); err != nil {
			t.Error(err)
		}
	}
}
