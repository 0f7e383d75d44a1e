package drop_test

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/drop"
)

func TestPlansAreAppliedInOrderOnceEach(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"b.plan", "a.plan", "sub/c.plan", ".hidden/d.plan", ".e.plan", "f.json", "g.plan.txt", "z.plan"} {
		b.put(name, numbered(1))
	}
	b.put("sub/z.plan.skip", "")
	if err := os.Symlink(b.path("sub"), b.path("link")); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.state("sub/c.plan", drop.Applied)
	b.state("z.plan", drop.Skipped)
	if got := b.engine.order(); got != ".hidden/d.plan a.plan b.plan sub/c.plan" {
		t.Errorf("applied %s", got)
	}
	d := b.engine.deliveries()[1]
	if d.Checksum != plans.Checksum([]byte(numbered(1))) || d.Attempt != 0 || len(d.Plan.Files) != 1 || !strings.HasPrefix(d.ID, d.Checksum+"/") {
		t.Errorf("%+v", d)
	}
	info, err := os.Stat(b.path("a.pos"))
	if err != nil || info.Mode() != 0o600 || b.position("a.pos")["appliedChecksum"] != d.Checksum {
		t.Errorf("%v %v %v", info, err, b.position("a.pos"))
	}
	b.stop()
	b.start() // a restart applies nothing again
	b.put("y.plan", numbered(2))
	b.state("y.plan", drop.Applied)
	if got := b.engine.order(); got != ".hidden/d.plan a.plan b.plan sub/c.plan y.plan" {
		t.Errorf("applied %s", got)
	}
}

func TestWhatHappensWhileItRuns(t *testing.T) {
	b := newBench(t)
	b.start()
	b.put("a.plan", numbered(1))
	b.state("a.plan", drop.Applied)

	b.put("new/deep/b.plan", numbered(1)) // in directories that are not watched yet
	b.state("new/deep/b.plan", drop.Applied)
	b.put("new/deep/c.plan", numbered(1))
	b.state("new/deep/c.plan", drop.Applied)

	b.put("a.plan", numbered(2))
	b.until("the new content is applied", func() bool { return len(b.engine.deliveries()) == 4 })
	if d := b.engine.deliveries()[3]; d.Checksum != plans.Checksum([]byte(numbered(2))) {
		t.Errorf("%+v", d)
	}
	b.state("a.plan", drop.Applied)

	if err := os.Remove(b.path("a.pos")); err != nil { // the way to have it applied again
		t.Fatal(err)
	}
	b.until("applied again", func() bool { return len(b.engine.deliveries()) == 5 })
	if ds := b.engine.deliveries(); ds[4].Checksum != ds[3].Checksum || ds[4].ID == ds[3].ID {
		t.Errorf("delivered anew under %s after %s", ds[4].ID, ds[3].ID)
	}
	b.state("a.plan", drop.Applied)

	b.put("x.plan.skip", "")
	b.put("x.plan", numbered(1))
	b.state("x.plan", drop.Skipped)
	if err := os.Remove(b.path("x.plan.skip")); err != nil {
		t.Fatal(err)
	}
	b.state("x.plan", drop.Applied)

	if err := os.Remove(b.path("a.plan")); err != nil {
		t.Fatal(err)
	}
	b.until("the removal is noticed", func() bool {
		b.engine.mu.Lock()
		defer b.engine.mu.Unlock()
		return strings.Join(b.engine.forgotten, " ") == "a.plan"
	})
	if st := b.state("a.plan", drop.Removed); st.Reason != "what it did is not undone" || b.log.count("was removed, what it did is not undone") != 1 {
		t.Errorf("%+v", st)
	}
	if _, err := os.Stat(b.path("a.pos")); err != nil {
		t.Errorf("the position went with the plan: %v", err)
	}
}

func TestFilesThatAreBeingWritten(t *testing.T) {
	whole := numbered(1)
	t.Run("in two pieces by a slow writer", func(t *testing.T) {
		b := newBench(t)
		b.start()
		f, err := os.OpenFile(b.path("a.plan"), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		// The first piece is a plan, too.
		for _, piece := range []string{"{}", " ", "\n"} {
			if _, err := f.WriteString(piece); err != nil {
				t.Fatal(err)
			}
			b.state("a.plan", drop.Writing)
		}
		if got := b.engine.order(); got != "" {
			t.Errorf("applied half of it: %s", got)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		b.state("a.plan", drop.Applied)
		if d := b.engine.deliveries(); len(d) != 1 || d[0].Checksum != plans.Checksum([]byte("{} \n")) {
			t.Errorf("%+v", d)
		}
	})
	t.Run("in two openings, the first of which leaves nonsense", func(t *testing.T) {
		b := newBench(t)
		b.start()
		half := len(whole) / 2
		if err := os.WriteFile(b.path("a.plan"), []byte(whole[:half]), 0o600); err != nil {
			t.Fatal(err)
		}
		<-time.After(50 * time.Millisecond)
		for _, st := range b.source.Status() {
			if st.State == drop.Refused {
				t.Errorf("refused before it was complete: %+v", st)
			}
		}
		f, err := os.OpenFile(b.path("a.plan"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(whole[half:]); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		b.state("a.plan", drop.Applied)
	})
	t.Run("by somebody who never closes it", func(t *testing.T) {
		b := newBench(t)
		b.start()
		f, err := os.OpenFile(b.path("a.plan"), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(whole); err != nil {
			t.Fatal(err)
		}
		b.state("a.plan", drop.Writing)
		b.clock.pass(3 * time.Second)
		b.state("a.plan", drop.Applied)
	})
}

const tended = `{"probes":{"web":{"httpGet":{"url":"http://127.0.0.1:1"}}},"periodicInstructions":[{"name":"beat","command":"true"}]}`

func TestAppliedPlansAreLookedAfter(t *testing.T) {
	b := newBench(t)
	b.put("a.plan", tended)
	b.start()
	b.until("probes and periodic instructions are kept", func() bool {
		if _, err := os.Stat(b.path("a.pos")); err != nil {
			return false
		}
		pos := b.position("a.pos")
		return pos["probeStatus"] != nil && pos["periodicOutput"] != nil
	})
	b.engine.mu.Lock()
	if b.engine.forced != 1 {
		t.Errorf("forced %d times after the apply", b.engine.forced)
	}
	b.engine.mu.Unlock()
	b.stop()
	b.engine.forced, b.engine.probes, b.engine.periodic = 0, 0, 0
	b.start() // a restart looks after it again, without applying and without forcing
	b.until("looked after again", func() bool {
		b.engine.mu.Lock()
		defer b.engine.mu.Unlock()
		return b.engine.probes > 0 && b.engine.periodic > 0
	})
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	if len(b.engine.applied) != 1 || b.engine.forced != 0 {
		t.Errorf("applied %d times, forced %d times", len(b.engine.applied), b.engine.forced)
	}
}

func TestTheDirectory(t *testing.T) {
	t.Run("made when missing", func(t *testing.T) {
		b := newBench(t)
		b.dir = filepath.Join(b.dir, "not", "yet")
		b.start()
		b.until("it is made", func() bool {
			info, err := os.Stat(b.dir)
			return err == nil && info.Mode() == fs.ModeDir|0o700
		})
		b.put("a.plan", numbered(1))
		b.state("a.plan", drop.Applied)
	})
	t.Run("removed and made again", func(t *testing.T) {
		b := newBench(t)
		b.sweep = 50 * time.Millisecond
		b.put("a.plan", numbered(1))
		b.start()
		b.state("a.plan", drop.Applied)
		if err := os.Rename(b.dir, filepath.Join(t.TempDir(), "away")); err != nil {
			t.Fatal(err)
		}
		b.until("it is made again", func() bool { _, err := os.Stat(b.dir); return err == nil })
		b.put("b.plan", numbered(1))
		b.state("b.plan", drop.Applied)
	})
	for name, make := range map[string]func(path string) error{
		"is a symbolic link, which is not followed: configure the directory itself": func(path string) error { return os.Symlink(t.TempDir(), path) },
		"is not a directory": func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		path := filepath.Join(t.TempDir(), "plans")
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		err := drop.New(drop.Options{Dir: path, Engine: &engine{}, Logger: slog.New(slog.DiscardHandler)}).Run(t.Context())
		if want := "directory of plans " + path + " " + name; err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestLostNotifications(t *testing.T) {
	b := newBench(t)
	b.sweep = 50 * time.Millisecond
	b.start()
	b.put("a.plan", numbered(1))
	b.state("a.plan", drop.Applied)
	// A directory that is moved away and back loses its watch.
	away := filepath.Join(t.TempDir(), "away")
	b.put("sub/b.plan", numbered(1))
	b.state("sub/b.plan", drop.Applied)
	if err := os.Rename(b.path("sub"), away); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(away, "c.plan"), []byte(numbered(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, b.path("sub")); err != nil {
		t.Fatal(err)
	}
	b.state("sub/c.plan", drop.Applied)
}
