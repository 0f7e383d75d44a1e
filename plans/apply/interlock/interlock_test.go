package interlock_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/apply/interlock"
)

func TestTheLastOneOutTakesTheFileAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "interlock")
	k := interlock.New(dir, time.Now)
	if err := k.Clear(); err != nil {
		t.Fatal(err)
	}
	active := filepath.Join(dir, "applyinator-active")
	there := func() bool { _, err := os.Stat(active); return err == nil }
	for range 2 {
		if ok, err := k.Enter(); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if err := k.Leave(); err != nil || !there() {
		t.Fatalf("gone while somebody is in: %v", err)
	}
	// An installer that came meanwhile lets no other plan begin, and those that have begun finish.
	if err := os.WriteFile(filepath.Join(dir, "restart-pending"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if ok, err := k.Enter(); ok || err != nil || !there() {
		t.Errorf("let in: %v, %v; file there: %v", ok, err, there())
	}
	if err := k.Leave(); err != nil || there() {
		t.Errorf("still there: %v", err)
	}
}

func TestAnInstallerThatWasKilledHoldsNobodyUp(t *testing.T) {
	dir := t.TempDir()
	pending := filepath.Join(dir, "restart-pending")
	installer := exec.Command("sleep", "1000")
	if err := installer.Start(); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	k := interlock.New(dir, func() time.Time { return now })
	enter := func(want bool) {
		t.Helper()
		if ok, err := k.Enter(); ok != want || err != nil {
			t.Errorf("let in: %v, %v; want %v", ok, err, want)
		}
	}
	owner := fmt.Sprintf("pid %d\n", installer.Process.Pid)
	if err := os.WriteFile(pending, []byte(owner), 0o644); err != nil {
		t.Fatal(err)
	}
	enter(false)
	if b, err := os.ReadFile(pending); err != nil || string(b) != "Sat Nov 21 12:00:00 UTC 2026\n"+owner {
		t.Errorf("noted %q, %v", b, err)
	}
	now = now.Add(time.Minute)
	enter(false)
	if err := installer.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = installer.Wait() // it was killed
	enter(true)
	if _, err := os.Stat(pending); err == nil {
		t.Error("the mark is still there")
	}
	if err := k.Leave(); err != nil {
		t.Error(err)
	}
}

func TestNoDirectoryIsNoInterlock(t *testing.T) {
	k := interlock.New("", time.Now)
	if ok, err := k.Enter(); !ok || err != nil {
		t.Error(ok, err)
	}
	if err := k.Leave(); err != nil {
		t.Error(err)
	}
}
