package interlock_test

import (
	"os"
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
	// An installer that came meanwhile lets nobody else in, and those who are in finish.
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

func TestNoDirectoryIsNoInterlock(t *testing.T) {
	k := interlock.New("", time.Now)
	if ok, err := k.Enter(); !ok || err != nil {
		t.Error(ok, err)
	}
	if err := k.Leave(); err != nil {
		t.Error(err)
	}
}
