package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConnectionInfoThatChanges is used without a restart; one that cannot be used is not, and
// an instruction that runs meanwhile is neither lost nor repeated.
func TestConnectionInfoThatChanges(t *testing.T) {
	t.Parallel()
	first, second := newManagement(t), newManagement(t)
	dir, other := t.TempDir(), t.TempDir()
	config := first.install(t, dir)
	second.install(t, other)
	file, gate := filepath.Join(dir, "connection.json"), filepath.Join(dir, "gate")
	p := sentinelOf(t, config)
	first.deliver(`{"instructions":[{"name":"a","command":"sh","args":["-c","echo ran >> ` + dir + `/runs; while test -d ` + dir + ` && ! test -e ` + gate + `; do sleep 0.02; done"]}]}`)
	waitUntil(t, "the instruction runs", func() bool { _, err := os.Stat(filepath.Join(dir, "runs")); return err == nil })

	put := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(file+".tmp", b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".tmp", file); err != nil {
			t.Fatal(err)
		}
	}
	put([]byte(`{"kubeConfig":`))
	waitUntil(t, "what cannot be used is logged", func() bool { return strings.Contains(p.out.String(), "the old one stays in use") })
	// The same server with a token of the same name: what runs goes on below the new connection.
	same, err := os.ReadFile(filepath.Join(other, "connection.json"))
	if err != nil {
		t.Fatal(err)
	}
	first.install(t, other)
	again, err := os.ReadFile(filepath.Join(other, "connection.json"))
	if err != nil {
		t.Fatal(err)
	}
	put(append(again, '\n'))
	waitUntil(t, "it connects anew", func() bool { return strings.Count(p.out.String(), "connecting anew") == 1 })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the outcome is reported", func() bool { return first.value("plan-state") == "succeeded" })
	if b, err := os.ReadFile(filepath.Join(dir, "runs")); err != nil || string(b) != "ran\n" {
		t.Errorf("the instruction ran as %q, %v", b, err)
	}

	put(same) // the other server
	waitUntil(t, "it connects to the other server", func() bool { return strings.Count(p.out.String(), "connecting anew") == 2 })
	second.deliver(`{"instructions":[{"name":"b","command":"true"}]}`)
	waitUntil(t, "the other server's plan is applied", func() bool { return second.value("plan-state") == "succeeded" })
	waitUntil(t, "the tunnel is open there", func() bool { _, ok := second.tunnels.Connected("m1"); return ok })
}
