// Labels of a machine that its operator changes after it has registered.

package hostrequest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/drover-project/drover/server/records"
)

// Relabel is the machine with other node labels: each of set is added or replaced, and those with a key of remove are
// taken off; one that is not there is no error. The rules are those of a host's own labels, and the label of the
// operating system stays. The error is a sentence for people.
func Relabel(m records.Machine, set map[string]string, remove []string) (records.Machine, error) {
	labels := maps.Clone(m.NodeLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, key := range remove {
		if _, both := set[key]; both {
			return m, fmt.Errorf("label %s is set and removed at once", quoted(key))
		}
		if key == LabelOS {
			return m, fmt.Errorf("label %s stays: it says what the host runs", LabelOS)
		}
		delete(labels, key)
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if err := checkLabel(key, set[key]); err != nil {
			return m, err
		}
		labels[key] = set[key]
	}
	if len(labels) > maxLabels {
		return m, fmt.Errorf("machine %s would have %d labels, but at most %d are allowed", m.Name, len(labels), maxLabels)
	}
	m.NodeLabels = labels
	return m, nil
}
