// Reporting what periodic instructions print: to the observer while they do, run for run, and
// as lines of the log once a run ended, when they are worth a person's time. A run that says
// every minute that all is well would hide everything else.

package apply

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/drover-project/drover/plans/apply/output"

	"github.com/drover-project/drover/plans"
)

// runReporter reports one run of a periodic instruction.
type runReporter struct {
	e     *Engine
	log   *slog.Logger
	event Event // what its events have in common

	mu             sync.Mutex // both streams are read at the same time
	next           int64      // offset of the next byte
	stdout, stderr *output.Bounded
}

// reportRun begins to report a run with that ID.
func (e *Engine) reportRun(s Standing, id, name string, attempt int) *runReporter {
	t := &runReporter{
		e: e, log: e.Logger.With("source", s.Source, "plan", plans.Short(s.Checksum), "instruction", name),
		event:  Event{Source: s.Source, ID: id, Checksum: s.Checksum, Instruction: -1, Name: name, Attempt: attempt},
		stdout: output.NewBounded(e.OutputLimit), stderr: output.NewBounded(e.OutputLimit),
	}
	t.emit(PeriodicBegan, nil)
	return t
}

// emit reports an event; more adds to it.
func (t *runReporter) emit(kind EventKind, more func(*Event)) {
	event := t.event
	event.Kind = kind
	if more != nil {
		more(&event)
	}
	t.e.emit(event)
}

// stream keeps and reports what is written to it.
func (t *runReporter) stream(s output.Stream) io.Writer { return runStream{t, s} }

type runStream struct {
	t *runReporter
	s output.Stream
}

func (w runStream) Write(p []byte) (int, error) {
	t := w.t
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.stdout
	if w.s == output.Stderr {
		kept = t.stderr
	}
	t.emit(PeriodicOutput, func(e *Event) { e.Stream, e.Data, e.Offset = w.s, p, t.next })
	t.next += int64(len(p))
	return kept.Write(p)
}

// ended reports the end of the run. Its lines are logged when it failed, or printed something
// else than the run before; otherwise for who debugs only.
func (t *runReporter) ended(r plans.PeriodicOutput, err error) {
	out, errs := t.stdout.Bytes(), t.stderr.Bytes()
	why := periodicReason(r.ExitCode, err)
	level := t.e.OutputLevel
	if news := t.e.long.printed(longKey{t.event.Source, t.event.Name}, out, errs); why == "" && !news {
		level = slog.LevelDebug
	}
	l := output.NewLines(t.log, level, &output.Mark{})
	l.Add(output.Stdout, out, 0)
	l.Add(output.Stderr, errs, 0)
	l.Flush(0)
	if why == "" {
		t.log.Debug("periodic instruction succeeded")
	} else {
		t.log.Warn("periodic instruction failed", "exitCode", r.ExitCode, "failures", r.Failures, "reason", why)
	}
	t.emit(PeriodicEnded, func(e *Event) {
		e.ExitCode, e.Text = r.ExitCode, why
		if why != "" {
			e.Data = end(append(out, errs...), failureTail)
		}
	})
}

// periodicReason is why a run failed; empty when it did not.
func periodicReason(code int, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case code != 0:
		return fmt.Sprintf("exit code %d", code)
	}
	return ""
}

// printed notes what a run printed, and says whether the one before printed something else.
func (l *longRuns) printed(key longKey, out, errs []byte) (news bool) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%d\n", len(out))
	sum.Write(out)
	sum.Write(errs)
	now := [sha256.Size]byte(sum.Sum(nil))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said == nil {
		l.said = map[longKey][sha256.Size]byte{}
	}
	before, known := l.said[key]
	l.said[key] = now
	return !known || before != now
}
