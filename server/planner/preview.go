// The preview of a decision: what people want to know before it is performed. It is made of the
// very value that is committed, and shows nothing of what is in files, since that holds the
// cluster's tokens.

package planner

import (
	"maps"
	"slices"

	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/records"
)

// Preview is what a decision changes of a cluster.
type Preview struct {
	// State and Message are the cluster's next ones.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// Machines are those that get a plan or are removed, in the order of their names.
	Machines []MachinePreview `json:"machines"`
}

// MachinePreview is what a decision changes on one host.
type MachinePreview struct {
	// ID is "<namespace>/<name>", NodeName the host's name in the cluster.
	ID       string `json:"id"`
	NodeName string `json:"nodeName,omitempty"`
	Remove   bool   `json:"remove,omitempty"`
	// Plan is the beginning of the new plan's checksum.
	Plan string `json:"plan,omitempty"`
	// Changes are as PlanChanges names them.
	Changes []string `json:"changes"`
}

// Preview shows a decision that was made on a snapshot.
func (d Decision) Preview(s Snapshot) Preview {
	status := s.Cluster.Status
	if d.Cluster.Status != nil {
		status = *d.Cluster.Status
	}
	p := Preview{State: status.State, Message: status.Message, Machines: []MachinePreview{}}
	before := make(map[records.MachineKey]Machine, len(s.Machines))
	for _, m := range s.Machines {
		before[m.key()] = m
	}
	for _, m := range d.Machines {
		if !m.Deliver && !m.Remove {
			continue
		}
		one := MachinePreview{ID: string(m.Key), NodeName: before[m.Key].NodeName, Remove: m.Remove, Changes: []string{}}
		if m.Deliver {
			one.Plan = short(m.Secret.Data)
			one.Changes = append(one.Changes, PlanChanges(before[m.Key].Secret, m.Secret)...)
		}
		p.Machines = append(p.Machines, one)
	}
	return p
}

// PlanChanges names what differs between the plans of two Secrets of a machine, either of
// which may be nil: "add file <path>", "change file <path>", "leave file <path>" for
// one that is no longer in the plan, which agents leave where it is, "run instruction <name>"
// for each instruction, as a new plan runs all of them, and "start unit <name>" or "restart unit
// <name>" when one of them does that.
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
	switch unit, restarted := runtimes.Restarted(before.Instructions, after.Instructions); {
	case restarted && len(before.Instructions) == 0:
		changes = append(changes, "start unit "+unit)
	case restarted:
		changes = append(changes, "restart unit "+unit)
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
