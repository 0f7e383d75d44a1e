// What becomes of an update: pure decisions over the Secret as it is stored and what
// a client sends.

package planapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/records"
)

// annotationProbesPassed is "" from each delivery on, and the time at which all probes
// of the delivered plan had been healthy once.
const annotationProbesPassed = "rke.cattle.io/plan-probes-passed"

// liveKeys are what an agent goes on reporting when a delivery is over.
var liveKeys = []string{plans.KeyAppliedPeriodicOutput, plans.KeyProbeStatuses, plans.KeyHostReport}

// agentWrite is the Secret after its agent's update, which knew the stored Secret. The rules:
//
//   - Only the agent's keys are taken (plans.AgentKeys); everything else that comes
//     back with an update, metadata too, stays as the server has it.
//   - plan-state moves only as plans.MayMove allows an agent. When it asks for another
//     move its report is about another delivery than the present one (after a conflict
//     the original copies its old result over a newer "pending"): state and results
//     stay, so that the present delivery is still carried out.
//   - In a state that is over (succeeded, failed, cancelled) the results stay what the
//     update said that brought this state. Right after a failure the original blanks the
//     failure's output and claims the plan as applied; the first failure is the evidence.
//   - Periodic output, probe statuses and host reports are taken in every state.
//   - appliedPlan becomes the plan once the agent has reported its checksum as applied,
//     in state succeeded, or in none or pending, where agents that know no states leave it.
//   - The annotation plan-probes-passed becomes now when, for an applied plan, all its
//     probes are healthy and the annotation is still blank.
func agentWrite(stored records.PlanSecret, sent map[string][]byte, now time.Time) records.PlanSecret {
	next := stored
	next.Data = maps.Clone(stored.Data)
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	for _, key := range writable(stored.Data, sent) {
		if value, ok := sent[key]; ok {
			next.Data[key] = value
		}
	}
	if !applied(next.Data) {
		return next
	}
	next.Data[plans.KeyAppliedPlan] = next.Data[plans.KeyPlan]
	if next.Annotations[annotationProbesPassed] == "" && probesPassed(next.Data) {
		next.Annotations = maps.Clone(next.Annotations)
		if next.Annotations == nil {
			next.Annotations = map[string]string{}
		}
		next.Annotations[annotationProbesPassed] = now.UTC().Format(time.RFC3339)
	}
	return next
}

// writable are the keys that this update may change.
func writable(stored, sent map[string][]byte) []string {
	from := plans.State(stored[plans.KeyPlanState])
	to := from
	if value, ok := sent[plans.KeyPlanState]; ok {
		to = plans.State(value)
	}
	if to == from && !from.Terminal() || to != from && plans.MayMove(plans.Agent, from, to) {
		return plans.AgentKeys()
	}
	return liveKeys
}

// applied says whether the agent has applied the plan that is delivered.
func applied(data map[string][]byte) bool {
	plan := data[plans.KeyPlan]
	switch plans.State(data[plans.KeyPlanState]) {
	case plans.StateSucceeded, plans.StatePending, plans.StateNone:
		return len(plan) > 0 && string(data[plans.KeyAppliedChecksum]) == plans.Checksum(plan)
	}
	return false
}

// probesPassed says whether every probe of the plan is healthy.
func probesPassed(data map[string][]byte) bool {
	var plan struct {
		Probes map[string]json.RawMessage `json:"probes"`
	}
	if err := json.Unmarshal(data[plans.KeyPlan], &plan); err != nil {
		return false
	}
	statuses, err := plans.DecodeProbeStatuses(data[plans.KeyProbeStatuses])
	if err != nil {
		return false
	}
	for name := range plan.Probes {
		if !statuses[name].Healthy {
			return false
		}
	}
	return true
}

// adminWrite is the Secret after an administrator's update: data, labels and
// annotations are replaced by what is sent, everything else stays. What would be lost
// without a word is refused.
func adminWrite(stored records.PlanSecret, b body[map[string][]byte]) (records.PlanSecret, error) {
	if b.Immutable || len(b.Metadata.Finalizers) > 0 || len(b.Metadata.OwnerReferences) > 0 {
		return stored, invalid(stored.Name, "immutable, metadata.finalizers and metadata.ownerReferences: a plan Secret keeps data, labels and annotations only")
	}
	next := stored
	next.Labels, next.Annotations = b.Metadata.Labels, b.Metadata.Annotations
	next.Data = maps.Clone(b.Data)
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	for key, text := range b.StringData {
		next.Data[key] = []byte(text)
	}
	for key, value := range next.Data {
		if value == nil {
			next.Data[key] = []byte{}
		}
	}
	return next, checkMetadata(next)
}

// isDataKey says whether a text is a key of a Secret's data: 1 to 253 letters, digits, dots,
// dashes and underscores, and neither "." nor "..".
func isDataKey(key string) bool {
	for _, c := range []byte(key) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return key != "" && len(key) <= 253 && key != "." && key != ".."
}

// maxAnnotations is Kubernetes' limit of all annotations together, in bytes.
const maxAnnotations = 256 << 10

func checkMetadata(s records.PlanSecret) error {
	for key, value := range s.Labels {
		if faults := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(faults) > 0 {
			return invalid(s.Name, "metadata.labels: %q=%q: %s", key, value, faults[0])
		}
	}
	size := 0
	for key, value := range s.Annotations {
		if faults := validation.IsQualifiedName(key); len(faults) > 0 {
			return invalid(s.Name, "metadata.annotations: %q: %s", key, faults[0])
		}
		if size += len(key) + len(value); size > maxAnnotations {
			return invalid(s.Name, "metadata.annotations: must have at most %d bytes together", maxAnnotations)
		}
	}
	for key := range s.Data {
		if !isDataKey(key) {
			return invalid(s.Name, "data[%s]: a key has letters, digits, dots, dashes and underscores only", key)
		}
	}
	return nil
}

// maxData is Kubernetes' limit of a Secret's data. appliedPlan does not count: the
// server's own copy must not make a plan impossible that was accepted.
const maxData = 1 << 20

// checkSize refuses a Secret that no Kubernetes server would store either.
func checkSize(s records.PlanSecret) error {
	total, largest := 0, ""
	for key, value := range s.Data {
		if key == plans.KeyAppliedPlan {
			continue
		}
		total += len(value)
		if largest == "" || len(value) > len(s.Data[largest]) {
			largest = key
		}
	}
	if total > maxData {
		return invalid(s.Name, "data: Too long: %d bytes are more than the %d allowed; the largest key is %s with %d", total, maxData, largest, len(s.Data[largest]))
	}
	return nil
}

// unchanged says whether an update would write what is there already.
func unchanged(a, b records.PlanSecret) bool {
	return maps.EqualFunc(a.Data, b.Data, bytes.Equal) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}
