// What each machine should have, and what it takes to get there from the plan that it has.

package planner

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/planner/render"
	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
)

// change is what it takes to bring a machine to its wanted plan.
type change int

const (
	// nothing: it has the plan.
	nothing change = iota
	// first: it has none yet, and joins by it.
	first
	// quiet: something differs, and nothing restarts.
	quiet
	// restart: the distribution restarts.
	restart
	// broken: no plan can be made.
	broken
)

// maxPlan bounds a plan: it is kept in one Secret, which a Kubernetes API takes up to 1 MiB.
const maxPlan = 1 << 20

// want makes the plan of each machine that stays. One that cannot join yet gets none.
func (r *round) want() {
	if r.shut.holds() || !r.Cluster.Deleting.IsZero() {
		return
	}
	if r.cluster.renderer == 0 {
		r.cluster.renderer = render.Newest
	}
	for _, m := range r.staying {
		m.server = r.serverOf(m)
		if m != r.init && m.server == "" && !m.hasPlan() {
			m.change = first
			continue
		}
		if err := r.plan(m); err != nil {
			m.change = broken
			m.finding = finding{Condition: records.Condition{State: records.Failed, Code: string(verdict.BadSpec), Cause: err.Error(), NextStep: "correct the cluster and apply it"}, node: m.Status.Node}
		}
	}
}

// plan makes the plan of one machine, and sees what it changes.
func (r *round) plan(m *member) error {
	if _, stale := r.staleNode(m); stale {
		m.next.relabelled = true
	}
	made := r.basis(m)
	if r.isWanted(m, made) {
		m.change = nothing
		return nil
	}
	delivered, _ := deliveredPlan(m.data())
	wanted, err := r.render(m)
	if err == nil && takenBack(m.Machine, wanted) {
		m.next.restarts++
		wanted, err = r.render(m)
	}
	if err != nil {
		return err
	}
	wanted = r.keeping(m, delivered, removing(delivered, wanted, m.report.inSync))
	m.drainHashes = [2]string{installers.DrainHash(delivered.Instructions), installers.DrainHash(wanted.Instructions)}
	switch _, restarted := runtimes.Restarted(delivered.Instructions, wanted.Instructions); {
	case !m.hasPlan():
		m.change = first
	case plans.Equal(delivered, wanted):
		m.change = nothing
	case restarted:
		m.change = restart
	default:
		m.change = quiet
	}
	if m.bytes, err = wanted.Marshal(); err != nil {
		return err
	}
	if m.change != nothing && len(m.bytes) > maxPlan {
		return fmt.Errorf("the plan of %s would have %d bytes, and a plan has at most %d; the largest files are %s", m.Name, len(m.bytes), maxPlan, largest(wanted))
	}
	r.remember(m, r.basis(m), m.bytes)
	return nil
}

// render makes the plan with what the next status says of the machine.
func (r *round) render(m *member) (plans.Plan, error) {
	machine := *m.Machine.Machine
	machine.Status.Relabelled, machine.Status.Restarts = m.next.relabelled, m.next.restarts
	in := r.input(m.Machine)
	in.Machine, in.Server = &machine, m.server
	return render.Plan(in, r.cluster.renderer)
}

// largest names the three largest files of a plan.
func largest(p plans.Plan) string {
	files := slices.Clone(p.Files)
	slices.SortFunc(files, func(a, b plans.File) int { return cmp.Compare(len(b.Content), len(a.Content)) })
	var names []string
	for _, f := range files[:min(3, len(files))] {
		names = append(names, fmt.Sprintf("%s (%d bytes)", f.Path, len(f.Content)))
	}
	return strings.Join(names, ", ")
}

// takenBack says whether the wanted plan restarts nothing after the one that was applied last, while the one that
// was delivered since would have: the runtime may run with what that one left, and did not come to an end.
func takenBack(m Machine, wanted plans.Plan) bool {
	if bytes.Equal(m.data()[plans.KeyAppliedPlan], m.plan()) {
		return false
	}
	applied, err := plans.Parse(m.data()[plans.KeyAppliedPlan])
	if err != nil {
		return false // none was applied
	}
	between, _ := deliveredPlan(m.data())
	_, changed := runtimes.Restarted(applied.Instructions, between.Instructions)
	_, changes := runtimes.Restarted(applied.Instructions, wanted.Instructions)
	return changed && !changes && !untouched(m)
}

// untouched says whether no agent has begun with the delivered plan.
func untouched(m Machine) bool {
	failure := m.Status.LastFailure
	return plans.State(m.data()[plans.KeyPlanState]) == plans.StatePending && (failure == nil || failure.Checksum != plans.Checksum(m.plan()))
}

// staleNode is the node of this machine's host that still has the label of a machine that was removed: the host joined
// again, and its distribution was kept. It is known by the node's name, or by being the only one where the API
// answers through this host.
func (r *round) staleNode(m *member) (records.NodeRef, bool) {
	if !r.API.Reachable || !m.hasPlan() {
		return records.NodeRef{}, false
	}
	if _, own := r.API.Nodes[m.UID]; own {
		return records.NodeRef{}, false
	}
	alone := len(r.members) == 1 && len(r.API.Nodes) == 1 && len(r.API.Unlabelled) == 0
	for uid, node := range r.API.Nodes {
		known := slices.ContainsFunc(r.members, func(other *member) bool { return other.UID == uid })
		if !known && (alone || m.NodeName != "" && node.Name == m.NodeName) {
			return node, true
		}
	}
	return records.NodeRef{}, false
}

// staleCause says what is wrong with such a node, and what mends it.
func (r *round) staleCause(m *member, node records.NodeRef) string {
	return fmt.Sprintf("node %s has the label of a machine that was removed, as this host joined again with its %s; %s is restarted, and takes the label rke.cattle.io/machine=%s then",
		node.Name, r.distribution.Name, r.unit(m.Machine), m.UID)
}

// maxLeftovers bounds how many files one plan removes; the others stay where they are.
const maxLeftovers = 256

// removing is the wanted plan with the removal of what the delivered one wrote and it does not write, before its own
// files. What the delivered plan removes stays in it until that is done, and as long as nothing else changes: a file that
// somebody puts there later is not drover's.
func removing(delivered, wanted plans.Plan, done bool) plans.Plan {
	writes := map[string]bool{}
	for _, f := range wanted.Files {
		writes[f.Path] = true
	}
	var written, unwritten []plans.File
	for _, f := range delivered.Files {
		switch {
		case writes[f.Path] || f.Directory:
		case f.Action == plans.ActionDelete:
			unwritten = append(unwritten, f)
		default:
			written = append(written, plans.File{Path: f.Path, Action: plans.ActionDelete})
		}
	}
	same := delivered
	same.Files = slices.DeleteFunc(slices.Clone(delivered.Files), func(f plans.File) bool { return f.Action == plans.ActionDelete })
	if !done || plans.Equal(same, wanted) {
		written = append(unwritten, written...)
	}
	if len(written) > 0 {
		wanted.Files = append(written[:min(len(written), maxLeftovers)], wanted.Files...)
	}
	return wanted
}
