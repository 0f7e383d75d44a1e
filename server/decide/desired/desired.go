// Package desired makes the plan that each machine should have, and says what it takes to get there from the plan that it has. It sets
// Wanted, Change, Server and DrainHashes of each machine that stays; a machine whose plan cannot be made gets its finding here.
package desired

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/decide/render"
	"github.com/drover-project/drover/server/records"
)

// keeping is the wanted plan with the job of the delivered one, as long as nothing else differs: taken out of the plan
// it would be delivered once more for nothing. A job that failed, or whose operation is over before its end, goes.
func keeping(p *pass.Pass, m *pass.Member, delivered, wanted plans.Plan) plans.Plan {
	if !p.Keeps(m) {
		return wanted
	}
	with := wanted
	with.Instructions = append(slices.Clone(wanted.Instructions), hostjob.Only(delivered.Instructions)...)
	if !plans.Equal(delivered, with) {
		return wanted
	}
	return with
}

// Input is what the plan of a machine is made of.
func Input(s pass.Snapshot, m pass.Machine) render.Input {
	return render.Input{
		Cluster: s.Cluster, Machine: m.Machine, Secrets: s.Secrets, Release: s.Release, InstallerImage: s.InstallerImage,
		DefaultRegistry: s.DefaultRegistry, Objects: s.Objects,
	}
}

// maxPlan bounds a plan: it is kept in one Secret, which a Kubernetes API takes up to 1 MiB.
const maxPlan = 1 << 20

// Run is the stage: it makes the plan of each machine that stays. A machine that cannot join yet gets none.
func Run(p *pass.Pass) {
	if p.Gate.Shut() || !p.Cluster.Deleting.IsZero() {
		return
	}
	p.Verdict.Renderer = cmp.Or(p.Verdict.Renderer, render.Newest)
	for _, m := range p.Staying {
		m.Server = ServerOf(p, m)
		if m != p.Init && m.Server == "" && !m.HasPlan() {
			m.Change = pass.First
			continue
		}
		if err := plan(p, m); err != nil {
			m.Change = pass.Broken
			m.Finding = pass.Finding{Condition: records.Condition{State: records.Failed, Code: string(catalogue.BadSpec), Cause: err.Error(), NextStep: "correct the cluster and apply it"}, Node: m.Status.Node}
		}
	}
}

// plan makes the plan of one machine, and sees what it changes.
func plan(p *pass.Pass, m *pass.Member) error {
	if _, stale := p.StaleNode(m); stale {
		m.Next.Relabelled = true
	}
	if p.Memo.IsWanted(m, pass.BasisOf(p, m)) {
		m.Change = pass.Unchanged
		return nil
	}
	delivered, _ := pass.Delivered(m.Data())
	wanted, err := Render(p, m)
	if err == nil && takenBack(m.Machine, wanted) {
		m.Next.Restarts++
		wanted, err = Render(p, m)
	}
	if err != nil {
		return err
	}
	wanted = keeping(p, m, delivered, Removing(delivered, wanted, m.Report.InSync))
	m.DrainHashes = [2]string{installers.DrainHash(delivered.Instructions), installers.DrainHash(wanted.Instructions)}
	switch _, restarted := runtimes.Restarted(delivered.Instructions, wanted.Instructions); {
	case !m.HasPlan():
		m.Change = pass.First
	case plans.Equal(delivered, wanted):
		m.Change = pass.Unchanged
	case restarted:
		m.Change = pass.Restart
	default:
		m.Change = pass.Quiet
	}
	if m.Wanted, err = wanted.Marshal(); err != nil {
		return err
	}
	if m.Change != pass.Unchanged && len(m.Wanted) > maxPlan {
		return fmt.Errorf("the plan of %s would have %d bytes, and a plan has at most %d; the largest files are %s", m.Name, len(m.Wanted), maxPlan, largest(wanted))
	}
	p.Memo.Remember(m, pass.BasisOf(p, m), m.Wanted)
	return nil
}

// Render makes the plan with what the next status says of the machine. The errors are those of render.Plan.
func Render(p *pass.Pass, m *pass.Member) (plans.Plan, error) {
	machine := *m.Machine.Machine
	machine.Status.Relabelled, machine.Status.Restarts = m.Next.Relabelled, m.Next.Restarts
	in := Input(p.Snapshot, m.Machine)
	in.Machine, in.Server = &machine, m.Server
	return render.Plan(in, p.Verdict.Renderer)
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
func takenBack(m pass.Machine, wanted plans.Plan) bool {
	if bytes.Equal(m.Data()[plans.KeyAppliedPlan], m.Plan()) {
		return false
	}
	applied, err := plans.Parse(m.Data()[plans.KeyAppliedPlan])
	if err != nil {
		return false // none was applied
	}
	between, _ := pass.Delivered(m.Data())
	_, changed := runtimes.Restarted(applied.Instructions, between.Instructions)
	_, changes := runtimes.Restarted(applied.Instructions, wanted.Instructions)
	return changed && !changes && !untouched(m)
}

// untouched says whether no agent has begun with the delivered plan.
func untouched(m pass.Machine) bool {
	failure := m.Status.LastFailure
	return plans.State(m.Data()[plans.KeyPlanState]) == plans.StatePending && (failure == nil || failure.Checksum != plans.Checksum(m.Plan()))
}

// maxLeftovers bounds how many files one plan removes; the others stay where they are.
const maxLeftovers = 256

// Removing is the wanted plan with the removal of what the delivered one wrote and it does not write, before its own
// files. What the delivered plan removes stays in it until that is done, and as long as nothing else changes: a file that
// a user puts there later is not drover's.
func Removing(delivered, wanted plans.Plan, done bool) plans.Plan {
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

// ServerOf is where a machine joins: where it has joined while a server stays there, else the machine that
// begins the cluster, or for a worker one of the control planes. Empty for the machine that begins the
// cluster, and while there is nowhere to join.
func ServerOf(p *pass.Pass, m *pass.Member) string {
	switch {
	case m == p.Init:
		return ""
	case p.Restoring() && m.IsServer() && initURL(p) != "":
		return initURL(p)
	}
	var doors []string
	for _, other := range p.Servers {
		if other != m && other.Next.JoinURL != "" && other.HasPlan() && (!other.Roles.Etcd || other.Next.Member || other == p.Init) && (other == p.Init || m.IsServer() || other.Roles.ControlPlane) {
			doors = append(doors, other.Next.JoinURL)
		}
	}
	if m.HasPlan() && (slices.Contains(doors, m.Next.JoinedTo) || len(doors) == 0) {
		return m.Next.JoinedTo
	}
	if m.IsServer() {
		if p.Init != nil && p.Usable(p.Init) || len(doors) == 0 {
			return initURL(p)
		}
		return doors[0]
	}
	return pick(controlPlanes(p, m.HasPlan()), m.UID)
}

// initURL is where others join through the machine that begins the cluster; empty while there is none that has a plan.
func initURL(p *pass.Pass) string {
	if p.Init == nil || !p.Init.HasPlan() {
		return ""
	}
	return p.Init.Next.JoinURL
}

// controlPlanes are the URLs of control planes that work; of all when none does and others will do.
func controlPlanes(p *pass.Pass, others bool) []string {
	var all, good []string
	for _, m := range p.Servers {
		if !m.Roles.ControlPlane || m.Next.JoinURL == "" || !m.HasPlan() {
			continue
		}
		all = append(all, m.Next.JoinURL)
		if p.Usable(m) {
			good = append(good, m.Next.JoinURL)
		}
	}
	if len(good) > 0 || !others {
		all = good
	}
	slices.Sort(all)
	return all
}

// pick spreads machines over URLs by their UIDs, as Rancher's planner does.
func pick(urls []string, uid string) string {
	if len(urls) == 0 {
		return ""
	}
	return urls[int(uint64(crc32.ChecksumIEEE([]byte(uid)))*uint64(len(urls))>>32)]
}
