// From a change in the store to the spans that have ended with it: functions of the change, and of the clock where the record itself does
// not say when.

package traces

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/traces"
)

// maxText bounds a name or text of a span, in bytes.
const maxText = 256

// span is a piece of work that has ended.
type span struct {
	parent     string // traceparent; empty begins a trace
	name       string
	begin, end time.Time
	attributes []attribute.KeyValue
	failed     string // why, empty when it did not
	parts      []span
}

// ofOperation is an operation that has ended, with its tasks.
func ofOperation(e store.Event[operations.Operation]) []span {
	o := e.Value
	if e.Type == store.Deleted || e.Old == nil || e.Old.State.Ended() || !o.State.Ended() {
		return nil
	}
	whole := span{
		parent: o.Trace, name: "operation " + string(o.Kind), begin: o.Created, end: o.Ended,
		attributes: []attribute.KeyValue{attribute.String("drover.subject", o.Subject), attribute.String("drover.operation", o.ID), attribute.String("drover.state", string(o.State))},
	}
	if o.State == operations.Failed {
		whole.failed = text(o.Reason)
	}
	for _, t := range o.Tasks {
		if t.Started.IsZero() || t.Ended.IsZero() {
			continue
		}
		part := span{name: "task " + text(t.ID), begin: t.Started, end: t.Ended, attributes: []attribute.KeyValue{attribute.String("drover.machine", t.Machine), attribute.String("host.name", text(t.Host))}}
		if t.State == operations.TaskFailed {
			part.failed = text(t.Message)
		}
		whole.parts = append(whole.parts, part)
	}
	return []span{whole}
}

// ofSecret is what a host has ended of the plan that it was given: an instruction of which it reported, and the plan. What a host says of
// times lies between the plan's delivery and now.
func ofSecret(e store.Event[records.PlanSecret], now time.Time) (all []span) {
	parent, delivered, ok := traces.Marked(e.Value)
	if e.Type == store.Deleted || e.Old == nil || !ok {
		return nil
	}
	after, before := e.Value.Data, e.Old.Data
	sum := plans.Checksum(after[plans.KeyPlan])
	about := []attribute.KeyValue{
		attribute.String("drover.machine", records.MachineOfPlanSecret(e.Key).Name()), attribute.String("drover.cluster", string(e.Value.Cluster())), attribute.String("drover.plan", plans.Short(sum)),
	}
	within := func(t time.Time) time.Time {
		if t.Before(delivered) {
			return delivered
		} else if t.After(now) {
			return now
		}
		return t
	}
	was, running := plans.ReadHostReport(before)
	if is, _ := plans.ReadHostReport(after); running && was.Plan == sum && was.Instruction != "" && (is.Instruction != was.Instruction || !is.Since.Equal(was.Since)) {
		one := span{parent: parent, name: "instruction " + text(was.Instruction), begin: within(was.Since), end: now, attributes: about}
		if next := within(is.Since); is.Instruction != "" && next.After(one.begin) {
			one.end = next
		}
		all = append(all, one)
	}
	if state := plans.State(after[plans.KeyPlanState]); over(after, sum) && !over(before, sum) {
		plan := span{parent: parent, name: "plan", begin: delivered, end: within(now), attributes: about}
		if state == plans.StateFailed {
			plan.failed = "the plan failed"
		}
		all = append(all, plan)
	}
	return all
}

// over says that a host has ended a plan, well or not. An agent that knows no states reports the plan as applied.
func over(data map[string][]byte, sum string) bool {
	if plans.Checksum(data[plans.KeyPlan]) != sum {
		return false
	}
	state := plans.State(data[plans.KeyPlanState])
	return state.Terminal() || state == plans.StateNone && string(data[plans.KeyAppliedChecksum]) == sum
}

// text is what may be in a span: bounded UTF-8.
func text(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "") }
