// What tools, hooks and other planners read on the plan Secret of a machine's place in its cluster.

package decide

import (
	"maps"

	"github.com/drover-project/drover/server/records"
)

// Labels and annotations of the plan Secret, as Rancher's planner keeps them (rancher/rancher pkg/capr).
const (
	labelInit            = "rke.cattle.io/init-node"
	annotationJoinURL    = "rke.cattle.io/join-url"
	annotationJoinedTo   = "rke.cattle.io/joined-to"
	annotationDrain      = "rke.cattle.io/drain-options"
	annotationPreDrain   = "rke.cattle.io/pre-drain"
	annotationDrainDone  = "rke.cattle.io/drain-done"
	annotationUncordon   = "rke.cattle.io/uncordon"
	annotationPostDrain  = "rke.cattle.io/post-drain"
	annotationDrainError = "rke.cattle.io/drain-error"
)

// mirror writes a machine's place and its drain onto its plan Secret. The status decides; nothing here is read back
// but what hooks write.
func mirror(s records.PlanSecret, status records.MachineStatus) (records.PlanSecret, bool) {
	wanted := map[string]string{annotationJoinURL: status.JoinURL, annotationJoinedTo: status.JoinedTo}
	if d := status.Drain; d != nil {
		wanted[annotationDrain], wanted[annotationPreDrain] = d.Options, d.Options
		if d.Done {
			wanted[annotationDrainDone] = d.Options
		}
		if status.State == records.Uncordoning {
			wanted[annotationUncordon], wanted[annotationPostDrain] = d.Options, d.Options
		}
	}
	annotations, changed := maps.Clone(s.Annotations), false
	for _, key := range []string{annotationJoinURL, annotationJoinedTo, annotationDrain, annotationPreDrain, annotationDrainDone, annotationUncordon, annotationPostDrain, annotationDrainError} {
		annotations, changed = set(annotations, key, wanted[key], changed)
	}
	s.Annotations = annotations
	role := ""
	if status.Init {
		role = "true"
	}
	s.Labels, changed = set(maps.Clone(s.Labels), labelInit, role, changed)
	return s, changed
}

// set has the key in the map with the value, or not in it when that is empty.
func set(m map[string]string, key, value string, changed bool) (map[string]string, bool) {
	if m[key] == value {
		if _, has := m[key]; !has || value != "" {
			return m, changed
		}
	}
	if value == "" {
		delete(m, key)
		return m, true
	}
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m, true
}
