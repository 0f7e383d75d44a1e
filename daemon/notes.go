// What the live status keeps of the engine's events and of plans that are looked after.

package daemon

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/daemon/status"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

const (
	// maxPutBack is how many are remembered.
	maxPutBack = 20
	// failureTail is how much of a failure's output is remembered, in bytes.
	failureTail = 4 << 10
	// periodicReason begins the reason of a failure that is not of the plan itself.
	periodicReason = "periodic instruction "
)

// probes are those of one source.
type probes struct {
	by   map[string]status.Probe
	over <-chan struct{} // closed when they are not asked any more
}

// observe takes an event of the engine.
func (b *liveStatus) observe(e apply.Event) {
	switch e.Kind {
	case apply.InstructionOutput: // the feed has all of it
		b.printed(e)
		return
	case apply.PeriodicOutput:
		return
	}
	b.change(func() { b.note(e) })
}

func (b *liveStatus) note(e apply.Event) {
	switch e.Kind {
	case apply.ApplyBegan, apply.ApplyResumed:
		b.doing = &work{remaining: slices.Clone(e.Remaining), Work: status.Work{
			Source: e.Source, Plan: e.Checksum, Began: e.Time, Resumed: e.Kind == apply.ApplyResumed,
			Step: "files", Since: e.Time,
		}}
	case apply.FilePutBack:
		b.putBack = newest(append(b.putBack, status.File{Source: e.Source, Path: e.Name, Time: e.Time}), maxPutBack)
	case apply.ApplyEnded:
		b.doing = nil
		b.ended(e)
		if r := e.Result; r != nil && r.Failure != nil {
			b.failed(e, r.Failure.Instruction, r.Failure.Reason, r.Failure.Output, r.Failure.ExitCode)
		}
	case apply.PeriodicEnded:
		if e.Text != "" {
			b.failed(e, e.Name, fmt.Sprintf("%s%s: %s", periodicReason, e.Name, e.Text), e.Data, e.ExitCode)
		}
	default:
		if b.doing != nil && b.doing.Source == e.Source {
			b.step(b.doing, e)
		}
	}
}

// step is a step of the plan that is being applied.
func (b *liveStatus) step(w *work, e apply.Event) {
	switch e.Kind {
	case apply.FileChanged:
		w.strike(func(t apply.Task) bool { return t.Kind == apply.FileTask && t.Name == e.Name })
	case apply.InstructionBegan, apply.InstructionAttached, apply.Progress:
		if step := "instruction " + e.Name; w.Step != step || e.Kind != apply.Progress {
			w.Step, w.Attempt, w.Since, w.Progress, w.printed = step, e.Attempt, e.Time, "", ""
		}
		w.Progress = e.Text
		// Files come first, and one that was as wanted has no event.
		w.strike(func(t apply.Task) bool { return t.Kind == apply.FileTask })
	case apply.InstructionEnded:
		w.Progress = ""
		w.strike(func(t apply.Task) bool { return t.Kind == apply.InstructionTask && t.Name == e.Name })
	}
}

// maxPrinted is how much of a line is kept, in bytes.
const maxPrinted = 300

// printed keeps the last line that an instruction printed.
func (b *liveStatus) printed(e apply.Event) {
	lines := strings.FieldsFunc(string(e.Data), func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); line != "" {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.doing != nil && b.doing.Source == e.Source {
				b.doing.printed = strings.ToValidUTF8(line[:min(len(line), maxPrinted)], "")
			}
			return
		}
	}
}

// work is the plan that is being applied.
type work struct {
	status.Work
	printed   string       // the last line of the instruction that runs
	remaining []apply.Task // Work.Remaining is made of it when asked
}

// strike takes tasks off the work that is left.
func (w *work) strike(done func(apply.Task) bool) { w.remaining = slices.DeleteFunc(w.remaining, done) }

// ended notes how a plan ended.
func (b *liveStatus) ended(e apply.Event) {
	b.last = &status.Applied{Source: e.Source, Plan: e.Checksum, Ended: e.Time, Reason: e.Text, ExitCode: e.ExitCode}
	b.last.Succeeded = e.Result != nil && e.Result.Succeeded
	if b.last.Succeeded { // what it failed at before is mended
		b.failures = slices.DeleteFunc(slices.Clone(b.failures), func(f status.Failure) bool {
			return f.Source == e.Source && f.Plan == e.Checksum && !f.Time.After(e.Time) && !strings.HasPrefix(f.Reason, periodicReason)
		})
	}
}

// failed notes a failure. The same one again takes the place of the one before, so that what
// fails every minute does not push out everything else.
func (b *liveStatus) failed(e apply.Event, instruction, reason string, output []byte, code int) {
	tail := strings.ToValidUTF8(string(output[max(len(output)-failureTail, 0):]), "")
	f := status.Failure{
		Source: e.Source, Plan: e.Checksum, Time: e.Time, Instruction: instruction, Reason: reason, ExitCode: code, Output: tail,
	}
	same := func(old status.Failure) bool {
		return old.Source == f.Source && old.Plan == f.Plan && old.Instruction == f.Instruction && old.Reason == f.Reason
	}
	if i := slices.IndexFunc(b.failures, same); i >= 0 {
		f.Times = max(b.failures[i].Times, 1) + 1
	}
	b.failures = newest(append(slices.DeleteFunc(slices.Clone(b.failures), same), f), status.MaxFailures)
}

// newest are the last n.
func newest[T any](all []T, n int) []T {
	return slices.Clone(all[max(len(all)-n, 0):])
}

// forget drops what is known of the probes and periodic instructions of a source.
func (b *liveStatus) forget(source string) {
	b.change(func() {
		delete(b.probes, source)
		delete(b.periodic, source)
	})
}

func (b *liveStatus) setProbes(source string, statuses map[string]plans.ProbeStatus, failures map[string]error, over <-chan struct{}) {
	now := b.now().UTC()
	b.change(func() {
		next := probes{by: map[string]status.Probe{}, over: over}
		before := b.probes[source].by
		for name, s := range statuses {
			one := status.Probe{Source: source, Name: name, Healthy: s.Healthy, Reason: text(failures[name]), Since: now}
			if old, ok := before[name]; ok && old.Healthy == one.Healthy && (!one.Healthy || (old.Reason == "") == (one.Reason == "")) {
				one.Since = old.Since
			}
			next.by[name] = one
		}
		b.probes[source] = next
	})
}

func (b *liveStatus) setPeriodic(s apply.Standing, records map[string]plans.PeriodicOutput) {
	now := b.now()
	b.change(func() {
		var all []status.Periodic
		for _, in := range s.Plan.PeriodicInstructions {
			if in.Name == "" {
				continue
			}
			r := records[in.Name]
			alone := &plans.Plan{PeriodicInstructions: []plans.PeriodicInstruction{in}}
			next, _ := apply.NextPeriodic(alone, records, now)
			all = append(all, status.Periodic{
				Source: s.Source, Name: in.Name, LastSuccess: r.LastSuccessfulRunTime, LastFailure: r.LastFailedRunTime,
				ExitCode: r.ExitCode, Failures: r.Failures, Next: next.UTC(),
			})
		}
		b.periodic[s.Source] = all
	})
}

// isOver says whether a channel is closed.
func isOver(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
