// Runs of periodic instructions that outlast the call that began them: one that takes long,
// or never ends, holds up neither the others nor the agent, and says so.

package apply

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/drover-project/drover/plans"
)

// longRun is one run of a periodic instruction.
type longRun struct {
	key   longKey
	in    plans.PeriodicInstruction
	ended chan struct{}
	// record is that of the run before until ended is closed, then its own; ran says that there is one.
	record plans.PeriodicOutput
	ran    bool

	// Guarded by longRuns.
	wait      waiter
	forgotten bool // no caller will ask how it ended
}

type longKey struct{ source, name string }

// longRuns are the runs whose record was not taken yet, at most one of each instruction.
type longRuns struct {
	mu sync.Mutex
	by map[longKey]*longRun
	// held are the sources that an installer holds up, and since when.
	held map[string]time.Time
	// said is a sum of what the last run of each instruction printed.
	said map[longKey][sha256.Size]byte
}

func (l *longRuns) add(e *Engine, source string, in plans.PeriodicInstruction, before plans.PeriodicOutput, now time.Time) *longRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	run := &longRun{key: longKey{source, in.Name}, in: in, ended: make(chan struct{}), record: before}
	run.wait = waiter{e: e, source: fmt.Sprintf("periodic instruction %s of %s", in.Name, source), since: now}
	if l.by == nil {
		l.by = map[longKey]*longRun{}
	}
	l.by[run.key] = run
	return run
}

func (l *longRuns) runs(source, name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[longKey{source, name}] != nil
}

// end is called when a run has ended or could not begin; again is harmless.
func (l *longRuns) end(run *longRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isClosed(run.ended) {
		return
	}
	close(run.ended)
	run.wait.over()
	if run.forgotten {
		delete(l.by, run.key)
	}
}

// take moves the records of runs that ended into records, if they are of instructions as the
// plan has them, and returns the source's runs that go on.
func (l *longRuns) take(source string, of []plans.PeriodicInstruction, records map[string]plans.PeriodicOutput) (running []*longRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := map[string]plans.PeriodicInstruction{}
	for _, in := range of {
		wanted[in.Name] = in
	}
	for key, run := range l.by {
		switch {
		case key.source != source:
		case !isClosed(run.ended):
			running = append(running, run)
		default:
			delete(l.by, key)
			if run.ran && reflect.DeepEqual(wanted[key.name], run.in) {
				records[key.name] = run.record
			}
		}
	}
	return running
}

// forget drops the records of a source that will not ask for them.
func (l *longRuns) forget(source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, source)
	maps.DeleteFunc(l.said, func(key longKey, _ [sha256.Size]byte) bool { return key.source == source })
	for key, run := range l.by {
		if key.source == source {
			run.forgotten = true
			if isClosed(run.ended) {
				delete(l.by, key)
			}
		}
	}
}

// hold notes whether an installer holds a source up; changed says that it was otherwise
// before, since is when that began.
func (l *longRuns) hold(source string, held bool, now time.Time) (since time.Time, changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, was := l.held[source]
	switch {
	case held && !was:
		if l.held == nil {
			l.held = map[string]time.Time{}
		}
		l.held[source] = now
	case !held:
		delete(l.held, source)
	}
	return since, held != was
}

// waitFor reports the runs that still go on.
func (l *longRuns) waitFor(runs []*longRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, run := range runs {
		if !isClosed(run.ended) {
			run.wait.on("its end", "it still runs", "it begins again after that only, the others go on")
		}
	}
}

// awaitPeriodic waits for new runs and what is cleared up after them until patience is at its
// end, or the runs are because they were killed with the context.
func (e *Engine) awaitPeriodic(ctx context.Context, due []*longRun, ended <-chan struct{}) {
	patience := time.NewTimer(e.PeriodicPatience)
	defer patience.Stop()
	select {
	case <-ended:
	case <-ctx.Done():
		<-ended
	case <-patience.C:
		e.long.waitFor(due)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
