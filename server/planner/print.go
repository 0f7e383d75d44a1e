// The readable form of a decision. It names files and instructions and shows nothing of
// what is in them, since that holds the cluster's tokens.

package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans"
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
	case m.Status != nil:
		fmt.Fprintf(b, "machine %s: %s%s\n", m.Key, m.Status.State, reason(m.Status.Cause))
	default:
		fmt.Fprintf(b, "machine %s:\n", m.Key)
	}
	if m.Secret == nil {
		return
	}
	fmt.Fprintf(b, "  plan %s", short(m.Secret.Data))
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

// PlanChanges names what differs between the plans of two Secrets of a machine, either of
// which may be nil: "add file <path>", "change file <path>", "leave file <path>" for
// one that is no longer in the plan, which agents leave where it is, and "run instruction <name>"
// for each instruction, as a new plan runs all of them.
func PlanChanges(from, to *records.PlanSecret) []string {
	before, after := planOf(from), planOf(to)
	if to == nil || plans.Equal(before, after) {
		return nil
	}
	had, has := fileContents(before), fileContents(after)
	var changes []string
	for _, path := range slices.Sorted(maps.Keys(has)) {
		switch old, ok := had[path]; {
		case !ok:
			changes = append(changes, "add file "+path)
		case old != has[path]:
			changes = append(changes, "change file "+path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(had)) {
		if _, ok := has[path]; !ok {
			changes = append(changes, "leave file "+path)
		}
	}
	for _, in := range after.Instructions {
		changes = append(changes, "run instruction "+in.Name)
	}
	return changes
}

func planOf(s *records.PlanSecret) plans.Plan {
	if s == nil {
		return plans.Plan{}
	}
	p, _ := deliveredPlan(s.Data)
	return p
}

// fileContents are the files of a plan with all that is said of them, by path.
func fileContents(p plans.Plan) map[string]plans.File {
	files := make(map[string]plans.File, len(p.Files))
	for _, f := range p.Files {
		files[f.Path] = f
	}
	return files
}
