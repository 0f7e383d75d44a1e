package lockfile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed/lockfile"
)

func TestModes(t *testing.T) {
	tests := []struct {
		name         string
		held, wanted lockfile.Mode
		free         bool
	}{
		{"two shared", lockfile.Shared, lockfile.Shared, true},
		{"exclusive after shared", lockfile.Shared, lockfile.Exclusive, false},
		{"shared after exclusive", lockfile.Exclusive, lockfile.Shared, false},
		{"two exclusive", lockfile.Exclusive, lockfile.Exclusive, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			first := try(t, path, test.held)
			if first == nil {
				t.Fatal("a fresh lock is taken")
			}
			second := try(t, path, test.wanted)
			if got := second != nil; got != test.free {
				t.Fatalf("second lock taken: %v, want %v", got, test.free)
			}
			unlock(t, first)
			if second == nil && try(t, path, test.wanted) == nil {
				t.Fatal("the lock stays taken after it was given back")
			}
		})
	}
}

func TestShareLetsOthersIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := try(t, path, lockfile.Exclusive)
	if err := first.Share(); err != nil {
		t.Fatal(err)
	}
	if try(t, path, lockfile.Shared) == nil {
		t.Error("a shared lock keeps another shared one out")
	}
	if try(t, path, lockfile.Exclusive) != nil {
		t.Error("a shared lock lets an exclusive one in")
	}
}

func TestTakeWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := try(t, path, lockfile.Exclusive)

	taken := make(chan error, 1)
	go func() {
		_, err := lockfile.Take(t.Context(), path, lockfile.Exclusive)
		taken <- err
	}()
	select {
	case err := <-taken:
		t.Fatalf("took a held lock (error %v)", err)
	case <-time.After(120 * time.Millisecond): // two tries of the waiting side
	}
	unlock(t, first)
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
}

func TestTakeEndsWithContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	try(t, path, lockfile.Exclusive)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockfile.Take(ctx, path, lockfile.Shared); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want the context's", err)
	}
}

func try(t *testing.T, path string, mode lockfile.Mode) *lockfile.Lock {
	t.Helper()
	lock, err := lockfile.Try(path, mode)
	if err != nil {
		t.Fatal(err)
	}
	if lock != nil {
		t.Cleanup(func() { _ = lock.Unlock() }) // closed before, mostly
	}
	return lock
}

func unlock(t *testing.T, lock *lockfile.Lock) {
	t.Helper()
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// TestUnlockWhileAChildHasACopy stands for a child between fork and exec, which has all files of its parent.
func TestUnlockWhileAChildHasACopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock := try(t, path, lockfile.Exclusive)
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	copied := false
	for _, entry := range open {
		target, err := os.Readlink(filepath.Join("/proc/self/fd", entry.Name()))
		if err != nil || target != path {
			continue
		}
		number, err := strconv.Atoi(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		same, err := syscall.Dup(number)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(same)
		copied = true
		break
	}
	unlock(t, lock)
	if next := try(t, path, lockfile.Exclusive); !copied || next == nil {
		t.Errorf("the lock stays taken after it was given back (its file was copied: %t)", copied)
	}
}
