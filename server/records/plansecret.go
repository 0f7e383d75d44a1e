// How a plan Secret is stored. Most of it is the plan, and once that is applied a second
// time the plan: the stored form keeps one of the two.

package records

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/drover-project/drover/plans"
)

// storedPlanSecret is the stored form.
type storedPlanSecret struct {
	Object
	Data map[string][]byte `json:"data,omitempty"`
	// PlanIsApplied says that the data have the plan as the applied plan too.
	PlanIsApplied bool `json:"planIsApplied,omitempty"`
}

// labelCluster names the cluster that a plan Secret belongs to. Source: rancher/rancher pkg/capr.
const labelCluster = "rke.cattle.io/cluster-name"

// Cluster is the key of the cluster that the Secret's machine belongs to.
func (s PlanSecret) Cluster() ClusterKey { return NewClusterKey(s.Namespace, s.Labels[labelCluster]) }

// AppendJSON appends the stored form, by hand, as it is written for every report of every agent. The error names the Secret.
func (s PlanSecret) AppendJSON(b []byte) ([]byte, error) {
	b, err := s.appendMembers(append(b, '{'))
	if err != nil {
		return nil, fmt.Errorf("encode plan Secret %s: %w", s.Key(), err)
	}
	plan, ok := s.Data[plans.KeyPlan]
	applied, also := s.Data[plans.KeyAppliedPlan]
	same := ok && also && plan != nil && applied != nil && bytes.Equal(plan, applied)
	if same {
		b = append(b, `,"planIsApplied":true`...)
	}
	if len(s.Data) > 0 {
		b = appendData(append(b, `,"data":`...), s.Data, same)
	}
	return append(b, '}'), nil
}

func appendData(b []byte, data map[string][]byte, withoutApplied bool) []byte {
	separator := byte('{')
	EachSorted(data, func(key string, value []byte) {
		if withoutApplied && key == plans.KeyAppliedPlan {
			return
		}
		b = append(AppendString(append(b, separator), key), ':')
		separator = ','
		if value == nil {
			b = append(b, "null"...)
			return
		}
		b = append(base64.StdEncoding.AppendEncode(append(b, '"'), value), '"')
	})
	return append(b, '}')
}

// UnmarshalJSON reads the stored form.
func (s *PlanSecret) UnmarshalJSON(b []byte) error {
	var stored storedPlanSecret
	if err := json.Unmarshal(b, &stored); err != nil {
		return err
	}
	*s = PlanSecret{Object: stored.Object, Data: stored.Data}
	if plan, ok := stored.Data[plans.KeyPlan]; ok && stored.PlanIsApplied {
		s.Data[plans.KeyAppliedPlan] = plan
	}
	return nil
}
