// What becomes of a machine's status and of its plan Secret: times, history, failures and
// the server's own tries of a failed plan.

package decide

import (
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/records"
)

// maxHistory bounds the states remembered of a machine.
const maxHistory = 20

// delivery is the plan Secret with a plan in it.
func delivery(s records.PlanSecret, plan []byte, now time.Time) *records.PlanSecret {
	s.Data = plans.Deliver(s.Data, plan)
	annotations := map[string]string{}
	maps.Copy(annotations, s.Annotations)
	annotations[pass.AnnotationPlanUpdated], annotations[pass.AnnotationProbesPassed] = now.Format(time.RFC3339), ""
	s.Annotations = annotations
	return &s
}

// nextStatus carries a machine's status on: times stay while what they date stays.
func nextStatus(before records.MachineStatus, v pass.Finding, now time.Time) records.MachineStatus {
	next := before
	next.Condition, next.Node, next.Unseen = v.Condition, v.Node, v.Unseen
	if before.State != next.State || before.WaitingFor != next.WaitingFor {
		next.Since = now
	}
	if before.State != next.State {
		next.History = slices.Clone(before.History)
		for _, state := range passed(before.State, next.State) {
			if v.Nodeless && state == records.WaitingForNode {
				continue
			}
			next.History = append(next.History, records.Transition{State: state, At: now})
		}
		next.History = next.History[max(0, len(next.History)-maxHistory):]
	}
	switch {
	case v.Failure != nil:
		failure := *v.Failure
		failure.At = now
		if old := before.LastFailure; before.State == v.State && before.Code == v.Code && old != nil && old.Checksum == failure.Checksum && old.Output == failure.Output {
			failure.At = old.At
		}
		next.LastFailure = &failure
	case v.State == records.WaitingForProbes, v.State == records.WaitingForNode, v.State == records.Active, v.State == records.Unavailable,
		v.State == records.Draining, v.State == records.Uncordoning:
		next.LastFailure, next.Retries, next.RetriedChecksum = nil, 0, ""
	}
	return next
}

// milestones are the order of a machine's life. Each state is a milestone of its own, so a machine seen
// at one and then at a later one has passed those between, if only for a moment.
var milestones = [...]records.MachineState{
	records.Registering, records.WaitingForPlan, records.ApplyingPlan, records.WaitingForProbes, records.WaitingForNode, records.Active,
}

// passed are the states between two, the second one included. Off the path and backwards it is the second one alone.
func passed(from, to records.MachineState) []records.MachineState {
	first, last := slices.Index(milestones[:], from), slices.Index(milestones[:], to)
	if first < 0 || last <= first {
		return []records.MachineState{to}
	}
	return milestones[first+1 : last+1]
}

// sameStatus compares everything but what both share anyway, the history: it grows with the state only.
func sameStatus(a, b records.MachineStatus) bool {
	sameFailure := a.LastFailure == b.LastFailure || (a.LastFailure != nil && b.LastFailure != nil && *a.LastFailure == *b.LastFailure)
	sameDrain := a.Drain == b.Drain || (a.Drain != nil && b.Drain != nil && *a.Drain == *b.Drain)
	return a.Condition == b.Condition && a.Since.Equal(b.Since) && sameNode(a.Node, b.Node) && a.Unseen.Equal(b.Unseen) && samePlace(a, b) && sameFailure && sameDrain &&
		a.Retries == b.Retries && a.RetriedChecksum == b.RetriedChecksum && a.NextRetry.Equal(b.NextRetry)
}

func samePlace(a, b records.MachineStatus) bool {
	return a.Init == b.Init && a.Member == b.Member && a.Relabelled == b.Relabelled && a.Leaves == b.Leaves && a.Cleared == b.Cleared && a.Restarts == b.Restarts &&
		a.JoinURL == b.JoinURL && a.JoinedTo == b.JoinedTo && a.GivenPlan == b.GivenPlan && sameGiven(a.Given, b.Given)
}

func sameGiven(a, b *records.Given) bool {
	if a == nil || b == nil {
		return a == b
	}
	return maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Taints, b.Taints)
}

func sameNode(a, b *records.NodeRef) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.UID == b.UID && a.ProviderID == b.ProviderID && a.KubeletVersion == b.KubeletVersion &&
		a.Ready == b.Ready && a.NotReady == b.NotReady && slices.Equal(a.Addresses, b.Addresses)
}
