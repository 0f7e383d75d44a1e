// The readable form of a decision. It names files and instructions and shows nothing of
// what is in them, since that holds the cluster's tokens.

package decide

import (
	"fmt"
	"strings"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/decide/render"
	"github.com/drover-project/drover/server/records"
)

// String is the decision in lines, one for each thing that is written; "nothing to write"
// for an empty one.
func (d Decision) String() string {
	if d.Empty() {
		return "nothing to write\n"
	}
	var b strings.Builder
	switch c := d.Cluster; {
	case c.Remove:
		fmt.Fprintf(&b, "cluster %s: removed with its tokens and secrets\n", c.Key)
	case c.Status != nil:
		fmt.Fprintf(&b, "cluster %s: %s%s\n", c.Key, c.Status.State, reason(c.Status.Message))
	}
	for _, m := range d.Machines {
		m.print(&b)
	}
	if d.Again > 0 {
		fmt.Fprintf(&b, "look again in %s\n", d.Again)
	}
	return b.String()
}

func (m MachineDecision) print(b *strings.Builder) {
	switch {
	case m.Remove:
		fmt.Fprintf(b, "machine %s: removed with its plan Secret\n", m.Key)
	case m.Keep:
		fmt.Fprintf(b, "machine %s: its removal is taken back\n", m.Key)
	case m.Status != nil:
		fmt.Fprintf(b, "machine %s: %s%s\n", m.Key, m.Status.State, reason(m.Status.Cause))
	default:
		fmt.Fprintf(b, "machine %s:\n", m.Key)
	}
	if !m.Deliver {
		return
	}
	fmt.Fprintf(b, "  plan %s", pass.ShortPlan(m.Secret.Data))
	if m.Retry > 0 {
		fmt.Fprintf(b, ", try %d", m.Retry+1)
	}
	b.WriteString("\n")
	for _, change := range PlanChanges(nil, m.Secret) {
		fmt.Fprintf(b, "    %s\n", change)
	}
}

func reason(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// Empty says that nothing is left to write. Orders are not written: they are wanted for as long as they stand.
func (d Decision) Empty() bool {
	return !d.Cluster.Remove && d.Cluster.Status == nil && d.Cluster.Spec == nil && d.Cluster.Secrets == nil && len(d.Machines) == 0 && d.Operation == nil && len(d.Snapshots) == 0 && d.Rehearsed == nil
}

// PlanChanges names what differs between the plans of two Secrets of a machine, either of
// which may be nil, as Changes does.
func PlanChanges(from, to *records.PlanSecret) []string {
	if to == nil {
		return nil
	}
	return render.Changes(planOf(from), planOf(to))
}

func planOf(s *records.PlanSecret) plans.Plan {
	if s == nil {
		return plans.Plan{}
	}
	return pass.Parsed(s.Data[plans.KeyPlan])
}
