// What a new life of the agent reports of the lives before it: people who ask after a restart
// want to know how the last plan ended and what its instructions printed.

package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/drover-project/drover/plans/apply/output"

	"github.com/drover-project/drover/plans"
)

// Recall reports, as events with the times of then, how the newest delivery of each source
// ended (ApplyEnded), in the order in which they did, and of the newest of all what its
// instructions printed as well (InstructionAttached, InstructionOutput with Reported, and
// InstructionEnded). Of a newest one that was interrupted it reports only the instructions that
// ended: Apply reports the rest when it goes on. It is for the beginning of the agent's life
// and changes nothing. The error is of the ledgers that it could not read; the others are reported.
func (e *Engine) Recall(emit func(Event)) error {
	paths, err := filepath.Glob(filepath.Join(e.LedgerDir, "*.json"))
	if err != nil {
		return fmt.Errorf("look for ledgers: %w", err)
	}
	var all []*ledger
	var faults []error
	for _, path := range paths {
		switch l, err := readLedger(path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			faults = append(faults, fmt.Errorf("read the ledger %s: %w", path, err))
		default:
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *ledger) int { return a.last().Compare(b.last()) })
	for i, l := range all {
		if i == len(all)-1 {
			e.recallInstructions(l, emit)
		}
		if l.Outcome != nil {
			emit(e.recalledEnd(l))
		}
	}
	return errors.Join(faults...)
}

// last is when the delivery was worked on last, as far as the ledger says.
func (l *ledger) last() time.Time {
	if l.Outcome != nil {
		return l.Outcome.Ended
	}
	return l.Begun
}

// recallInstructions reports those that ended.
func (e *Engine) recallInstructions(l *ledger, emit func(Event)) {
	for i, in := range l.Instructions {
		failed := l.Outcome != nil && l.Outcome.Instruction == i
		if in.Result == nil && !failed {
			continue
		}
		event := Event{
			Source: l.Source, ID: l.ID, Checksum: l.Checksum, Time: l.last(),
			Instruction: i, Name: label(i, in.Name), Attempt: l.Attempt + max(in.Runs-1, 0),
		}
		if r := in.Result; r != nil {
			event.Kind, event.Time = InstructionAttached, r.Started
			emit(event)
			e.recallOutput(l, i, event, emit)
			event.Time, event.ExitCode, event.Text = r.Ended, r.ExitCode, r.Reason()
		} else {
			event.ExitCode, event.Text = l.Outcome.ExitCode, l.Outcome.Reason
		}
		event.Kind = InstructionEnded
		emit(event)
	}
}

// recallOutput reports what is kept of an instruction's output.
func (e *Engine) recallOutput(l *ledger, i int, event Event, emit func(Event)) {
	event.Kind, event.Reported = InstructionOutput, true
	err := output.NewFollower(e.tryDir(l, i)).Next(func(c output.Chunk) {
		event.Offset += c.Skipped
		event.Stream, event.Data = c.Stream, c.Data
		if len(c.Data) > 0 {
			emit(event)
		}
		event.Offset += int64(len(c.Data))
	})
	if err != nil {
		e.Logger.Debug("output of an earlier plan cannot be read", "source", l.Source, "plan", plans.Short(l.Checksum), "instruction", event.Name, "error", err)
	}
}

// recalledEnd is how the delivery ended.
func (e *Engine) recalledEnd(l *ledger) Event {
	o := l.Outcome
	event := Event{
		Kind: ApplyEnded, Time: o.Ended, Source: l.Source, ID: l.ID, Checksum: l.Checksum, Instruction: -1,
		Result: &Result{Succeeded: o.Succeeded},
	}
	if o.Succeeded {
		return event
	}
	event.Text, event.ExitCode = o.Reason, o.ExitCode
	failure := &Failure{Reason: o.Reason, ExitCode: o.ExitCode}
	if i := o.Instruction; i >= 0 {
		failure.Instruction = label(i, l.Instructions[i].Name)
		if l.Instructions[i].Result != nil {
			failure.Output = end(e.output(l, i), failureTail)
		}
	}
	event.Result.Failure = failure
	return event
}
