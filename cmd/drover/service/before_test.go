package service

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/durable"
)

func TestKeepBefore(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "etcd", "member", "db")
	content := func(text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start := func(version string) error { return keepBefore(dir, version, slog.New(slog.DiscardHandler)) }
	copies := func(want map[string]string) {
		t.Helper()
		got := map[string]string{}
		entries, _ := os.ReadDir(filepath.Join(dir, beforeDir))
		for _, e := range entries {
			b, err := os.ReadFile(filepath.Join(dir, beforeDir, e.Name(), "etcd", "member", "db"))
			if err != nil {
				t.Fatal(err)
			}
			got[e.Name()] = string(b)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("copies (-want +got):\n%s", diff)
		}
	}
	started := func() { // what a server leaves
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		version, content string
		want             map[string]string
	}{
		{"v1", "", map[string]string{}},               // the first start has no store
		{"v1", "one", map[string]string{}},            // nor is the same release another
		{"v2", "one", map[string]string{"v1": "one"}}, // its first start
		{"v2", "two", map[string]string{"v1": "one"}}, // its second one, also where the first failed
		{"v1", "two", map[string]string{"v1": "one", "v2": "two"}},
		{"v2", "three", map[string]string{"v1": "three", "v2": "two"}}, // again, with what there is now
		{"v3", "four", map[string]string{"v1": "three", "v2": "four"}},
		{"v4", "five", map[string]string{"v2": "four", "v3": "five"}},
	} {
		if c.content != "" {
			content(c.content)
		}
		if err := start(c.version); err != nil {
			t.Fatalf("%s: %v", c.version, err)
		}
		copies(c.want)
		started()
		for i, name := range []string{"v1", "v2", "v3"} { // in the order of their releases, regardless of the clock's grain
			at := time.Now().Add(time.Duration(i-10) * time.Minute)
			_ = os.Chtimes(filepath.Join(dir, beforeDir, name), at, at)
		}
	}
	// A server that runs is left alone: the start that follows says that it runs.
	lock, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := durable.TryLock(lock); err != nil {
		t.Fatal(err)
	}
	if err := start("v5"); err != nil {
		t.Errorf("beside a server that runs: %v", err)
	}
	copies(map[string]string{"v2": "four", "v3": "five"})
	if err := os.WriteFile(filepath.Join(dir, versionFile), []byte("../../etc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := start("v6"); err == nil || !strings.Contains(err.Error(), "is not the name of a release") {
		t.Errorf("a path for a release: %v", err)
	}
	none := filepath.Join(dir, "none")
	if err := keepBefore(none, "v1", slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("a data directory that is not there yet: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(none, versionFile)); err != nil || string(text) != "v1\n" {
		t.Errorf("the first start wrote down %q, %v", text, err)
	}
	// In a directory of others, also one that has an etcd, nothing is written: the store refuses it.
	foreign := t.TempDir()
	if err := os.MkdirAll(filepath.Join(foreign, "etcd", "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := keepBefore(foreign, "v1", slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("a directory of others: %v", err)
	}
	if entries, err := os.ReadDir(foreign); err != nil || len(entries) != 1 {
		t.Errorf("in a directory of others there is %v (%v)", entries, err)
	}
}
