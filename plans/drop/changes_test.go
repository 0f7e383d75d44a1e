// What people and programs do to a directory of plans while the agent looks.

package drop_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/drop"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestEditors has a plan changed as editors do it; the last content is applied, once, and
// nothing else that lies about.
func TestEditors(t *testing.T) {
	for name, edit := range map[string]func(t *testing.T, b *bench, content string){
		"vim, which keeps the old file away while it writes": func(t *testing.T, b *bench, content string) {
			must(t, os.WriteFile(b.path(".a.plan.swp"), []byte("b0VIM"), 0o600))
			must(t, os.WriteFile(b.path("4913"), nil, 0o600))
			must(t, os.Remove(b.path("4913")))
			must(t, os.Rename(b.path("a.plan"), b.path("a.plan~")))
			must(t, os.WriteFile(b.path("a.plan"), []byte(content), 0o600))
			must(t, os.Remove(b.path("a.plan~")))
			must(t, os.Remove(b.path(".a.plan.swp")))
		},
		"sed -i": func(t *testing.T, b *bench, content string) {
			out, err := exec.Command("sed", "-i", "s%.*%"+content+"%", b.path("a.plan")).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		},
		"emacs": func(t *testing.T, b *bench, content string) {
			must(t, os.Symlink("root@host.1:2", b.path(".#a.plan")))
			must(t, os.WriteFile(b.path("#a.plan#"), []byte("{"), 0o600))
			must(t, os.WriteFile(b.path("a.plan"), []byte(content), 0o600))
			must(t, os.Remove(b.path("#a.plan#")))
			must(t, os.Remove(b.path(".#a.plan")))
		},
		"rsync": func(t *testing.T, b *bench, content string) {
			must(t, os.WriteFile(b.path(".a.plan.Xy12Z3"), []byte(content), 0o600))
			must(t, os.Rename(b.path(".a.plan.Xy12Z3"), b.path("a.plan")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.put("a.plan", numbered(1))
			b.start()
			b.state("a.plan", drop.Applied)
			edit(t, b, numbered(2))
			b.until("the new content is applied", func() bool { return len(b.engine.deliveries()) == 2 })
			b.put("z.plan", numbered(3))
			b.state("z.plan", drop.Applied)
			b.until("all is reported of the new content", func() bool {
				st := b.state("a.plan", drop.Applied)
				return st.Checksum == plans.Checksum([]byte(numbered(2)))
			})
			if got := b.engine.order(); got != "a.plan a.plan z.plan" {
				t.Errorf("applied %s", got)
			}
		})
	}
}

// TestRewrittenWhileApplied: the one that runs comes to its end and is recorded, then the new one runs.
func TestRewrittenWhileApplied(t *testing.T) {
	b := newBench(t)
	release := make(chan struct{})
	b.engine.answer = func(d apply.Delivery) (apply.Result, error) {
		if d.Checksum == plans.Checksum([]byte(numbered(1))) {
			<-release
		}
		return apply.Result{Succeeded: true}, nil
	}
	b.put("a.plan", numbered(1))
	b.start()
	b.state("a.plan", drop.Applying)
	b.put("a.plan", numbered(2))
	if !b.source.Alive(t.Context()) {
		t.Error("no sign of life during an apply")
	}
	close(release)
	b.until("the new one is applied", func() bool {
		ds := b.engine.deliveries()
		return len(ds) == 2 && ds[1].Checksum == plans.Checksum([]byte(numbered(2))) && b.state("a.plan", drop.Applied).Checksum == ds[1].Checksum
	})
}

func TestMovedAwayAndBack(t *testing.T) {
	b := newBench(t) // with no sweep to help
	b.put("a.plan", numbered(1))
	b.start()
	b.state("a.plan", drop.Applied)
	away := filepath.Join(t.TempDir(), "away")
	must(t, os.Rename(b.dir, away))
	b.until("it is made again", func() bool { _, err := os.Stat(b.dir); return err == nil })
	b.state("a.plan", drop.Removed)
	b.put("b.plan", numbered(1))
	b.state("b.plan", drop.Applied)
	must(t, os.RemoveAll(b.dir))
	b.until("it is made once more", func() bool { _, err := os.Stat(b.dir); return err == nil })
	for _, name := range []string{"a.pos", "a.plan"} { // the directory itself is the source's again
		must(t, os.Rename(filepath.Join(away, name), b.path(name)))
	}
	b.state("a.plan", drop.Applied)
	if got := b.engine.order(); got != "a.plan b.plan" {
		t.Errorf("applied %s; a plan that comes back with its position was applied already", got)
	}
}

// TestUnreadableDirectoryRemovesNothing: what cannot be seen is not gone.
func TestUnreadableDirectoryRemovesNothing(t *testing.T) {
	b := newBench(t)
	b.sweep = 20 * time.Millisecond
	b.put("sub/a.plan", numbered(1))
	b.put("sub2/a.plan", numbered(1))
	var broken atomic.Bool
	b.before = func(s *drop.Source) {
		drop.ReadDirBy(s, func(dir string) ([]fs.DirEntry, error) {
			if broken.Load() && dir == b.path("sub") {
				return nil, &fs.PathError{Op: "open", Path: dir, Err: syscall.EIO}
			}
			return os.ReadDir(dir)
		})
	}
	b.start()
	b.state("sub2/a.plan", drop.Applied)
	broken.Store(true)
	must(t, os.Remove(b.path("sub2/a.plan")))
	b.state("sub2/a.plan", drop.Removed)
	b.state("sub/a.plan", drop.Applied)
	b.stop()
	if got := fmt.Sprint(b.engine.forgotten); got != "[sub2/a.plan]" {
		t.Errorf("forgotten %s", got)
	}
	if n := b.log.count("directory cannot be read, what is in it is left alone"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// TestWatchLimit: without notifications the directory is looked at every few seconds, which is logged once.
func TestWatchLimit(t *testing.T) {
	b := newBench(t)
	b.put("sub/a.plan", numbered(1))
	s := drop.New(drop.Options{Dir: b.dir, Engine: b.engine, Logger: slog.New(slog.NewTextHandler(&b.log, nil))})
	full := true
	drop.WatchBy(s, func(dir string) error {
		if full && dir != b.dir {
			return syscall.ENOSPC
		}
		return nil
	})
	for range 3 {
		if next := drop.Round(t.Context(), s); next != drop.SweepWithoutNotice {
			t.Errorf("next look in %v", next)
		}
	}
	if n := b.log.count("directory cannot be watched"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	full = false
	if next := drop.Round(t.Context(), s); next != time.Minute {
		t.Errorf("next look in %v after the limit was raised", next)
	}
}

// TestLostNotificationsLookAtEverything: the kernel's queue was too short.
func TestLostNotificationsLookAtEverything(t *testing.T) {
	b := newBench(t)
	s := drop.New(drop.Options{Dir: b.dir, Engine: b.engine, Logger: slog.New(slog.NewTextHandler(&b.log, nil))})
	w := &fsnotify.Watcher{Events: make(chan fsnotify.Event), Errors: make(chan error)}
	wake := make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() { defer close(ended); drop.Listen(s, w, wake) }()
	w.Errors <- fsnotify.ErrEventOverflow
	<-wake
	for _, own := range []string{"a.pos", "a.pos.tmp", "a.yaml.position", "a.yaml.position.tmp"} {
		w.Events <- fsnotify.Event{Name: own, Op: fsnotify.Create}
	}
	close(w.Events)
	<-ended
	if len(wake) != 0 {
		t.Error("what the source writes itself wakes it")
	}
}

// TestRemovedWhileNoAgentRan: the next life logs it once and forgets the ledger.
func TestRemovedWhileNoAgentRan(t *testing.T) {
	b := newBench(t)
	b.engine.ledgers = []string{"a.plan", "deep/b.yaml", "here.plan", "remote", "/other/c.plan", "../d.plan"}
	b.put("here.plan", numbered(1))
	b.start()
	b.state("here.plan", drop.Applied)
	b.state("a.plan", drop.Removed)
	b.state("deep/b.yaml", drop.Removed)
	b.stop()
	if got := strings.Join(b.engine.forgotten, " "); got != "a.plan deep/b.yaml" {
		t.Errorf("forgotten %s", got)
	}
	if n := b.log.count("was removed, what it did is not undone"); n != 2 {
		t.Errorf("logged %d times", n)
	}
}

// TestFilesArePutBackAfterARestart: missing files of applied plans come back, instructions do not run.
func TestFilesArePutBackAfterARestart(t *testing.T) {
	b := newBench(t)
	b.sweep = 20 * time.Millisecond
	b.put("a.plan", numbered(1))
	b.put("b.plan", numbered(2))
	b.put("c.plan", numbered(3))
	b.start()
	b.state("c.plan", drop.Applied)
	b.stop()
	if len(b.engine.restored) != 0 {
		t.Errorf("checked just after the apply: %v", b.engine.restored)
	}
	fails := make(chan error, 1)
	fails <- errors.New("file /x: read-only file system")
	b.engine.restoring = func(source string) ([]string, error) {
		switch source {
		case "a.plan":
			return []string{"/x"}, nil
		case "b.plan":
			select {
			case err := <-fails:
				return nil, err
			default:
			}
		}
		return nil, nil
	}
	b.start()
	b.state("c.plan", drop.Applied)
	st := b.state("b.plan", drop.Applied)
	if st.Reason != "its files cannot be checked: file /x: read-only file system" || st.Next.IsZero() {
		t.Errorf("%+v", st)
	}
	if n := b.log.count("were missing or changed and are put back"); n != 1 {
		t.Errorf("logged %d times that files were put back", n)
	}
	b.clock.pass(time.Minute)
	b.until("the trouble is over", func() bool { return b.state("b.plan", drop.Applied).Reason == "" })
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	if got := strings.Join(b.engine.restored, " "); got != "a.plan b.plan c.plan b.plan" {
		t.Errorf("checked %s", got)
	}
	if len(b.engine.applied) != 3 {
		t.Errorf("applied %d times", len(b.engine.applied))
	}
}

func TestAliveOnlyWhileItTurns(t *testing.T) {
	b := newBench(t)
	b.start()
	b.put("a.plan", numbered(1))
	b.state("a.plan", drop.Applied)
	if !b.source.Alive(t.Context()) {
		t.Error("no sign of life while it watches")
	}
	b.stop()
	if !b.source.Alive(t.Context()) {
		t.Error("what does not run cannot hang")
	}
	drop.Hang(b.source)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if !b.source.Alive(done) {
		t.Error("given up at once")
	}
	b.clock.pass(time.Hour)
	if b.source.Alive(done) {
		t.Error("alive an hour after it turned last")
	}
}
