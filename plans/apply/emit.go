// Reporting what happens: as events to observers of the engine, and what instructions
// print as lines of the log too.

package apply

import (
	"errors"
	"log/slog"

	"github.com/drover-project/drover/plans/apply/output"

	"github.com/drover-project/drover/plans"
)

// emit gives an event to the observer.
func (e *Engine) emit(event Event) {
	if e.Observe == nil {
		return
	}
	event.Time = e.Now().UTC()
	e.Observe(event)
}

// event is one of the delivery as a whole.
func (w *work) event(kind EventKind) Event {
	return Event{Kind: kind, Source: w.d.Source, ID: w.d.ID, Checksum: w.d.Checksum, Instruction: -1}
}

// eventOf is one of an instruction of the ledger, which may be that of the plan before.
func (w *work) eventOf(kind EventKind, l *ledger, i int) Event {
	event := w.event(kind)
	event.ID, event.Checksum = l.ID, l.Checksum
	event.Instruction, event.Name = i, label(i, l.Instructions[i].Name)
	event.Attempt = w.attemptOf(l, i)
	return event
}

// emitWork reports that the delivery is begun or gone on with.
func (w *work) emitWork(kind EventKind) {
	event := w.event(kind)
	event.Remaining = w.ledger.remaining()
	w.emit(event)
}

// emitProgress reports a step of an instruction on its way.
func (w *work) emitProgress(i int, line string) {
	event := w.eventOf(Progress, w.ledger, i)
	event.Text = line
	w.emit(event)
}

// emitEnd reports how an instruction ended, or why it could not run at all.
func (w *work) emitEnd(l *ledger, i int, err error) {
	event := w.eventOf(InstructionEnded, l, i)
	var fault *planError
	switch r := l.Instructions[i].Result; {
	case errors.As(err, &fault):
		event.ExitCode, event.Text = fault.exitCode, fault.reason
	case r != nil:
		event.ExitCode, event.Text = r.ExitCode, r.Reason()
	default:
		return
	}
	w.emit(event)
}

// emitResult reports how the delivery ended.
func (w *work) emitResult(r Result) {
	event := w.event(ApplyEnded)
	event.Result = &r
	if r.Failure != nil {
		event.Text, event.ExitCode = r.Failure.Reason, r.Failure.ExitCode
	}
	w.emit(event)
}

// reporter reports the output of one try.
type reporter struct {
	emit  func(Event)
	event Event // what its events have in common
	lines *output.Lines
	mark  *output.Mark
	// before is how far an earlier life, or an earlier look of this one, had reported it.
	before int64
	next   int64 // offset of the next byte
	// newsOnly leaves out what was reported before.
	newsOnly bool
}

// reporter begins to report the last try of an instruction from the beginning of its output.
func (w *work) reporter(l *ledger, i int, log *slog.Logger) *reporter {
	m := output.OpenMark(w.tryDir(l, i))
	return &reporter{
		emit: w.emit, event: w.eventOf(InstructionOutput, l, i), before: m.Reported,
		lines: output.NewLines(log, w.OutputLevel, m), mark: m,
	}
}

// logOf is the log that an instruction's output goes to.
func (w *work) logOf(l *ledger, i int) *slog.Logger {
	return w.Logger.With("source", w.d.Source, "plan", plans.Short(l.Checksum), "instruction", label(i, l.Instructions[i].Name))
}

// chunk reports the next piece of output.
func (t *reporter) chunk(c output.Chunk) {
	if c.Skipped > 0 {
		gap := t.next
		t.next += c.Skipped
		t.lines.Gap(min(t.next-t.before, t.next-gap), gap)
	}
	old := min(max(t.before-t.next, 0), int64(len(c.Data)))
	if !t.newsOnly {
		t.piece(c.Stream, c.Data[:old], t.next, true)
	}
	t.piece(c.Stream, c.Data[old:], t.next+old, false)
	t.lines.Add(c.Stream, c.Data, t.next)
	t.next += int64(len(c.Data))
	t.mark.SetReported(t.next)
}

func (t *reporter) piece(s output.Stream, data []byte, at int64, reported bool) {
	if len(data) == 0 {
		return
	}
	event := t.event
	event.Stream, event.Data, event.Offset, event.Reported = s, data, at, reported
	t.emit(event)
}

// close ends the report. Only when the try is over are incomplete lines logged: otherwise
// their other half comes in the agent's next life.
func (t *reporter) close(over bool) {
	if over {
		t.lines.Flush(t.next)
	}
	t.mark.Close()
}

// emitLeft reports the output of a try that ended while no agent lived.
func (w *work) emitLeft(l *ledger, i int) {
	t := w.reporter(l, i, w.logOf(l, i))
	defer t.close(true)
	if err := output.NewFollower(w.tryDir(l, i)).Next(t.chunk); err != nil {
		w.log.Debug("output cannot be read", "error", err)
	}
}
