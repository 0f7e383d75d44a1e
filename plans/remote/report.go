// What is written back into the Secret: as a function of what was there and of what happened.

package remote

import (
	"fmt"
	"strconv"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// claim says that a pending plan is being applied.
func claim(d Decision) map[string][]byte {
	return map[string][]byte{
		plans.KeyPlanState:    []byte(plans.StateInProgress),
		plans.KeyPlanRevision: []byte(strconv.Itoa(d.Revision)),
	}
}

// ended is the outcome after the delivery of a decision was applied.
func ended(before plans.Outcome, d Decision, r apply.Result, now time.Time) plans.Outcome {
	o := before
	o.LastApplyTime = now
	o.ProbeStatuses = statusesOf(d.Plan, before.ProbeStatuses)
	o.PeriodicOutput = recordsOf(d.Plan, before.PeriodicOutput)
	if r.Succeeded {
		o.State = stateful(before, plans.StateSucceeded)
		o.AppliedChecksum, o.AppliedOutput = d.Checksum, r.Outputs
		o.FailedChecksum, o.FailedOutput, o.FailureCount = "", nil, 0
		o.SuccessCount++
		return o
	}
	o.State = stateful(before, plans.StateFailed)
	failures := 1
	if before.FailedChecksum == d.Checksum {
		failures = max(before.FailureCount, 0) + 1 // also when the server has made the plan pending again
	}
	o.FailedChecksum, o.FailedOutput, o.FailureCount = d.Checksum, r.Outputs, failures
	o.SuccessCount = 0
	return o
}

// rejected is the outcome of a plan that cannot be read.
func rejected(before plans.Outcome, d Decision, now time.Time) plans.Outcome {
	r := apply.Result{Outputs: map[string][]byte{plans.FailureOutput: []byte(d.Fault.Error() + "\n")}}
	return ended(before, d, r, now)
}

// stateful is a state for the flow that has them, and none for the other.
func stateful(before plans.Outcome, s plans.State) plans.State {
	if before.State == plans.StateNone {
		return plans.StateNone
	}
	return s
}

// statusesOf has one status for each probe of the plan: the known one, or "not asked
// yet". A server takes a plan without statuses for a healthy one, so they come with the outcome.
func statusesOf(p *plans.Plan, known map[string]plans.ProbeStatus) map[string]plans.ProbeStatus {
	statuses := map[string]plans.ProbeStatus{}
	if p == nil {
		return statuses
	}
	for name := range p.Probes {
		statuses[name] = known[name]
	}
	return statuses
}

// recordsOf are the records of instructions that the plan still has.
func recordsOf(p *plans.Plan, known map[string]plans.PeriodicOutput) map[string]plans.PeriodicOutput {
	records := map[string]plans.PeriodicOutput{}
	if p == nil {
		return records
	}
	for _, in := range p.PeriodicInstructions {
		if record, ok := known[in.Name]; ok {
			records[in.Name] = record
		}
	}
	return records
}

// outcomeKeys are the data keys of an outcome.
func outcomeKeys(o plans.Outcome) (map[string][]byte, error) {
	keys := map[string][]byte{}
	if err := o.Write(keys); err != nil {
		return nil, fmt.Errorf("encode the outcome: %w", err)
	}
	return keys, nil
}

// shrinkTo are the bytes that are kept of each output of a Secret that turns out too large:
// less and less of its end, then nothing but a word about it.
var shrinkTo = [...]int{512 << 10, 256 << 10, 64 << 10, 4 << 10, 0}

// maxData is the most that Kubernetes stores of a Secret's data, in bytes.
const maxData = 1 << 20

// size is what data takes of a Secret.
func size(data map[string][]byte) int {
	n := 0
	for _, value := range data {
		n += len(value)
	}
	return n
}

// shrink cuts outputs down, a step further each time.
func shrink(o plans.Outcome, step int) plans.Outcome {
	keep := shrinkTo[step]
	o.AppliedOutput = cut(o.AppliedOutput, keep)
	o.FailedOutput = cut(o.FailedOutput, keep)
	periodic := map[string]plans.PeriodicOutput{}
	for name, record := range o.PeriodicOutput {
		record.Stdout, record.Stderr = tail(record.Stdout, keep), tail(record.Stderr, keep)
		periodic[name] = record
	}
	o.PeriodicOutput = periodic
	return o
}

func cut(outputs map[string][]byte, keep int) map[string][]byte {
	short := make(map[string][]byte, len(outputs))
	for name, out := range outputs {
		if name == plans.FailureOutput {
			short[name] = tail(out, 2<<10) // the reason always fits
			continue
		}
		short[name] = tail(out, keep)
	}
	return short
}

func tail(out []byte, keep int) []byte {
	if len(out) <= keep {
		return out
	}
	lost := len(out) - keep
	return append(fmt.Appendf(nil, "[%d bytes cut, the plan Secret has no room for them]\n", lost), out[lost:]...)
}
