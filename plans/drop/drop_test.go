package drop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/drop"
)

// engine notes what it is asked to do and answers what the test says.
type engine struct {
	mu        sync.Mutex
	applied   []apply.Delivery
	forgotten []string
	periodic  int
	forced    int
	probes    int
	answer    func(d apply.Delivery) (apply.Result, error) // default a success
}

func (e *engine) Apply(ctx context.Context, d apply.Delivery) (apply.Result, error) {
	e.mu.Lock()
	e.applied = append(e.applied, d)
	answer := e.answer
	e.mu.Unlock()
	if answer != nil {
		return answer(d)
	}
	return apply.Result{Succeeded: true, Outputs: map[string][]byte{}}, nil
}

func (e *engine) Forget(source string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgotten = append(e.forgotten, source)
	return nil
}

func (e *engine) Periodic(_ context.Context, p *plans.Plan, last map[string]plans.PeriodicOutput, force bool) map[string]plans.PeriodicOutput {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(p.PeriodicInstructions) == 0 {
		return nil
	}
	e.periodic++
	if force {
		e.forced++
	}
	return map[string]plans.PeriodicOutput{"beat": {Name: "beat", Stdout: []byte(fmt.Sprint(len(last["beat"].Stdout) + 1)), LastSuccessfulRunTime: time.Unix(1.8e9, 0).UTC()}}
}

func (e *engine) Probes(_ context.Context, p *plans.Plan, _ map[string]plans.ProbeStatus, _ time.Time) map[string]plans.ProbeStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probes++
	return map[string]plans.ProbeStatus{"web": {Healthy: true, SuccessCount: 1}}
}

// order are the sources applied, in order.
func (e *engine) order() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var names []string
	for _, d := range e.applied {
		names = append(names, d.Source)
	}
	return strings.Join(names, " ")
}

func (e *engine) deliveries() []apply.Delivery {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]apply.Delivery{}, e.applied...)
}

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// bench is a directory and a source on it.
type bench struct {
	t      *testing.T
	dir    string
	engine *engine
	clock  *clock
	sweep  time.Duration
	source *drop.Source
	stop   func()
}

func newBench(t *testing.T) *bench {
	dir := filepath.Join(t.TempDir(), "plans")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, dir: dir, engine: &engine{}, clock: &clock{}, sweep: time.Hour}
}

// start starts a life of the source.
func (b *bench) start() {
	b.t.Helper()
	b.source = drop.New(drop.Options{
		Dir: b.dir, Engine: b.engine, Sweep: b.sweep, Now: b.clock.now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.source.Run(ctx) }()
	var once sync.Once
	b.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				b.t.Error(err)
			}
		})
	}
	b.t.Cleanup(b.stop)
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// put puts a file in its place in one step.
func (b *bench) put(name, content string) {
	b.t.Helper()
	path := b.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.t.Fatal(err)
	}
	temp := filepath.Join(b.t.TempDir(), "f")
	if err := os.WriteFile(temp, []byte(content), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(temp, path); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) until(what string, done func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(deadline) {
			b.t.Fatalf("never: %s; applied %s, status %+v", what, b.engine.order(), b.source.Status())
		}
		<-time.After(2 * time.Millisecond)
	}
}

// state waits until a plan has a state and returns what is known of it.
func (b *bench) state(name string, want drop.State) drop.Status {
	b.t.Helper()
	var got drop.Status
	b.until(fmt.Sprintf("%s is %s", name, want), func() bool {
		for _, st := range b.source.Status() {
			if st.Path == b.path(name) && st.State == want {
				got = st
				return true
			}
		}
		return false
	})
	return got
}

// position is the position file as it is on disk.
func (b *bench) position(name string) map[string]any {
	b.t.Helper()
	content, err := os.ReadFile(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	var p map[string]any
	if err := json.Unmarshal(content, &p); err != nil {
		b.t.Fatal(err)
	}
	return p
}

// numbered is a plan that differs from others by n.
func numbered(n int) string {
	return fmt.Sprintf(`{"files":[{"path":"/x","permissions":"06%02o"}]}`, n)
}

func failing(d apply.Delivery) (apply.Result, error) {
	return apply.Result{Outputs: map[string][]byte{"a": []byte("tried\n")}, Failure: &apply.Failure{Instruction: "a", Reason: "instruction a: exit code 1", ExitCode: 1}}, nil
}

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
		return len(b.source.Status()) == 3 && strings.Join(b.engine.forgotten, " ") == "a.plan"
	})
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

func TestRefusedPlans(t *testing.T) {
	tests := []struct {
		name  string
		put   func(t *testing.T, b *bench)
		want  string
		mend  func(t *testing.T, b *bench)
		place string // default a.plan
	}{
		{
			name: "not JSON", put: func(_ *testing.T, b *bench) { b.put("a.plan", "files: []") },
			want: "plan: not JSON, at byte 2: invalid character 'i' in literal false (expecting 'a')",
			mend: func(_ *testing.T, b *bench) { b.put("a.plan", numbered(1)) },
		},
		{
			name: "a bad field", put: func(_ *testing.T, b *bench) { b.put("a.plan", `{"files":[{"path":"x"}]}`) },
			want: `plan field files[0].path: "x" is not absolute`,
			mend: func(_ *testing.T, b *bench) { b.put("a.plan", numbered(1)) },
		},
		{
			name: "too large", put: func(_ *testing.T, b *bench) { b.put("a.plan", strings.Repeat(" ", plans.MaxSize+1)) },
			want: "its 4194305 bytes are more than the 4194304 allowed",
			mend: func(_ *testing.T, b *bench) { b.put("a.plan", numbered(1)) },
		},
		{
			name: "others can write it",
			put: func(t *testing.T, b *bench) {
				b.put("a.plan", numbered(1))
				chmod(t, b.path("a.plan"), 0o666)
			},
			want: "it has mode 0666, others than its owner can write it: chmod go-w",
			mend: func(t *testing.T, b *bench) { chmod(t, b.path("a.plan"), 0o644) },
		},
		{
			name: "others can write its directory",
			put: func(t *testing.T, b *bench) {
				b.put("sub/deep/a.plan", numbered(1))
				chmod(t, b.path("sub"), 0o770)
			},
			want:  "directory DIR/sub has mode 0770, others than its owner can write it: chmod go-w",
			mend:  func(t *testing.T, b *bench) { chmod(t, b.path("sub"), 0o750) },
			place: "sub/deep/a.plan",
		},
		{
			name: "of another user",
			put: func(t *testing.T, b *bench) {
				if os.Getuid() != 0 {
					t.Skip("only root may give files away")
				}
				b.put("a.plan", numbered(1))
				if err := os.Chown(b.path("a.plan"), 4711, 0); err != nil {
					t.Fatal(err)
				}
			},
			want: "it belongs to user 4711 and not to user 0, whom the agent runs as",
			mend: func(t *testing.T, b *bench) {
				if err := os.Chown(b.path("a.plan"), 0, 0); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "a link to a file of another user",
			put: func(t *testing.T, b *bench) {
				target := filepath.Join(t.TempDir(), "target")
				if err := os.WriteFile(target, []byte(numbered(1)), 0o600); err != nil {
					t.Fatal(err)
				}
				chmod(t, target, 0o602)
				if err := os.Symlink(target, b.path("a.plan")); err != nil {
					t.Fatal(err)
				}
			},
			want: "it has mode 0602, others than its owner can write it: chmod go-w",
			mend: func(_ *testing.T, b *bench) { b.put("a.plan", numbered(1)) },
		},
		{
			name: "a fifo",
			put: func(t *testing.T, b *bench) {
				if err := syscall.Mkfifo(b.path("a.plan"), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			want: "it is not a regular file",
			mend: func(_ *testing.T, b *bench) { b.put("a.plan", numbered(1)) },
		},
		{
			name: "a damaged position",
			put: func(_ *testing.T, b *bench) {
				b.put("a.pos", `{"appliedChecksum":`)
				b.put("a.plan", numbered(1))
			},
			want: "DIR/a.pos: it is no position file: unexpected end of JSON input; remove it to have the plan applied again",
			mend: func(t *testing.T, b *bench) {
				if err := os.Remove(b.path("a.pos")); err != nil {
					t.Fatal(err)
				}
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			test.put(t, b)
			b.put("other.plan", numbered(7))
			b.start()
			place := test.place
			if place == "" {
				place = "a.plan"
			}
			st := b.state(place, drop.Refused)
			if want := strings.ReplaceAll(test.want, "DIR", b.dir); st.Reason != want {
				t.Errorf("reason %q\n  want %q", st.Reason, want)
			}
			b.state("other.plan", drop.Applied) // the others go on
			if got := b.engine.order(); got != "other.plan" {
				t.Errorf("applied %s", got)
			}
			test.mend(t, b)
			b.state(place, drop.Applied)
		})
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestFailedPlansAreTriedAgain(t *testing.T) {
	b := newBench(t)
	b.engine.answer = failing
	b.put("a.plan", numbered(1))
	b.sweep = 20 * time.Millisecond // the test's clock is not the timer's
	b.start()
	sum := plans.Checksum([]byte(numbered(1)))
	for n, pause := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
		st := b.state("a.plan", drop.Failed)
		b.until("it failed once more", func() bool {
			st = b.state("a.plan", drop.Failed)
			return st.Failures == n+1
		})
		if st.Reason != "instruction a: exit code 1" || st.Next.Sub(b.clock.now()) > pause {
			t.Errorf("%+v, next in %v, want %v", st, st.Next.Sub(b.clock.now()), pause)
		}
		pos := b.position("a.pos")
		if pos["appliedChecksum"] != nil || pos["failedChecksum"] != sum || pos["failureCount"] != float64(n+1) {
			t.Errorf("position %v", pos)
		}
		b.clock.pass(pause - 5*time.Second)
		<-time.After(60 * time.Millisecond)
		if got := len(b.engine.deliveries()); got != n+1 {
			t.Fatalf("tried again too soon: %d times after %v", got, pause-5*time.Second)
		}
		if n == 1 {
			b.stop()
			b.start() // the count and the pause outlive the agent
		}
		b.clock.pass(5 * time.Second)
		b.until("it is tried again", func() bool { return len(b.engine.deliveries()) == n+2 })
	}
	ds := b.engine.deliveries()
	seen := map[string]bool{}
	for i, d := range ds {
		if d.Attempt != i || seen[d.ID] {
			t.Errorf("attempt %d has number %d and id %s", i, d.Attempt, d.ID)
		}
		seen[d.ID] = true
	}
	// A new content begins anew and at once.
	b.put("a.plan", numbered(2))
	b.until("the new content is tried", func() bool { d := b.engine.deliveries(); return d[len(d)-1].Checksum != sum })
	if d := b.engine.deliveries(); d[len(d)-1].Attempt != 0 {
		t.Errorf("%+v", d[len(d)-1])
	}
	b.engine.mu.Lock()
	b.engine.answer = nil
	b.engine.mu.Unlock()
	b.clock.pass(time.Hour)
	b.state("a.plan", drop.Applied)
	if pos := b.position("a.pos"); pos["failedChecksum"] != nil || pos["failureCount"] != nil {
		t.Errorf("position %v", pos)
	}
}

func TestAnEngineThatCannotGoOn(t *testing.T) {
	b := newBench(t)
	b.engine.answer = func(apply.Delivery) (apply.Result, error) { return apply.Result{}, errors.New("ledger: some trouble") }
	b.put("a.plan", numbered(1))
	b.sweep = 20 * time.Millisecond
	b.start()
	st := b.state("a.plan", drop.Failed)
	if st.Reason != "ledger: some trouble" || st.Failures != 0 {
		t.Errorf("%+v", st)
	}
	b.engine.mu.Lock()
	b.engine.answer = nil
	b.engine.mu.Unlock()
	b.clock.pass(10 * time.Second)
	b.state("a.plan", drop.Applied)
	// It is the same delivery: what was done of it is not done again.
	if ds := b.engine.deliveries(); ds[0].ID != ds[len(ds)-1].ID {
		t.Errorf("ids %s and %s", ds[0].ID, ds[len(ds)-1].ID)
	}
}

// TestKilledBeforeTheResultWasRecorded: the next life asks for the same delivery, whose result the engine still has.
func TestKilledBeforeTheResultWasRecorded(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.put("a.plan", numbered(1))
	b.engine.answer = func(apply.Delivery) (apply.Result, error) {
		cancel() // the agent is stopped just when the result is there
		return apply.Result{Succeeded: true}, nil
	}
	source := drop.New(drop.Options{Dir: b.dir, Engine: b.engine, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err := source.Run(ctx); err != nil {
		t.Fatal(err)
	}
	b.engine.answer = nil
	b.start()
	b.state("a.plan", drop.Applied)
	if ds := b.engine.deliveries(); len(ds) != 2 || ds[0].ID != ds[1].ID {
		t.Errorf("%+v", ds)
	}
}

func TestPositionOfTheOriginalAgent(t *testing.T) {
	b := newBench(t)
	out, err := plans.EncodeOutputs(map[string][]byte{"a": []byte("theirs\n")})
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]any{"appliedChecksum": plans.Checksum([]byte(numbered(1))), "output": out, "probeStatus": map[string]any{"web": map[string]any{}}}
	content, err := json.Marshal(theirs)
	if err != nil {
		t.Fatal(err)
	}
	b.put("a.plan", numbered(1))
	b.put("a.pos", string(content))
	b.put("b.plan", numbered(2))
	b.put("b.pos", string(content)) // of an earlier content
	b.start()
	b.state("a.plan", drop.Applied)
	b.state("b.plan", drop.Applied)
	if got := b.engine.order(); got != "b.plan" {
		t.Errorf("applied %s", got)
	}
	if pos := b.position("a.pos"); pos["output"] == nil || pos["probeStatus"] == nil {
		t.Errorf("position %v", pos)
	}
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
		err := drop.New(drop.Options{Dir: path, Engine: &engine{}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}).Run(t.Context())
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
