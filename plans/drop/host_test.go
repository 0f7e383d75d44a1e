// A directory, an engine that notes what it is asked for, and a clock.

package drop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	ledgers   []string                                     // sources that an earlier life left
	restored  []string                                     // sources whose files were put back
	restoring func(source string) ([]string, error)        // default: all files are as wanted
}

func (e *engine) Sources() ([]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string{}, e.ledgers...), nil
}

func (e *engine) RestoreFiles(_ context.Context, s apply.Standing) ([]string, error) {
	e.mu.Lock()
	e.restored = append(e.restored, s.Source)
	answer := e.restoring
	e.mu.Unlock()
	if answer != nil {
		return answer(s.Source)
	}
	return nil, nil
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

func (e *engine) Periodic(_ context.Context, s apply.Standing, last map[string]plans.PeriodicOutput, force bool) map[string]plans.PeriodicOutput {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(s.Plan.PeriodicInstructions) == 0 {
		return nil
	}
	e.periodic++
	if force {
		e.forced++
	}
	return map[string]plans.PeriodicOutput{"beat": {Name: "beat", Stdout: fmt.Append(nil, len(last["beat"].Stdout)+1), LastSuccessfulRunTime: time.Unix(1.8e9, 0).UTC()}}
}

func (e *engine) Probes(context.Context, apply.Standing, map[string]plans.ProbeStatus, time.Time) (map[string]plans.ProbeStatus, map[string]error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probes++
	return map[string]plans.ProbeStatus{"web": {Healthy: true, SuccessCount: 1}}, nil
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
	before func(*drop.Source) // done before a life begins
	log    log
	stop   func()
}

// log keeps what is logged.
type log struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

func (l *log) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.lines.String(), text)
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
		Dir: b.dir, Engine: b.engine, Sweep: b.sweep, Now: b.clock.now, Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
	})
	if b.before != nil {
		b.before(b.source)
	}
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
