// What an upgrade and other changes that restart machines wait for before anything begins: the cluster's maintenance
// window, and for an upgrade the snapshot by which there is a way back.

package rollout

import (
	"fmt"

	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
)

// outside says that a restart of the machine has to wait for the maintenance window. A machine that does not work is mended at
// any time, as long as that is no upgrade: a restart takes nothing away from it.
func outside(p *pass.Pass, m *pass.Member) bool {
	switch {
	case p.Window.Open, p.Hurried(), !p.Verdict.Initialized, m.Change != pass.Restart:
		return false
	}
	return !p.Healing(m) || p.Upgrades(m)
}

// prepare takes the snapshot that an upgrade begins with. Until there is one nothing changes; an upgrade whose snapshot
// could not be taken has failed, and what it was for is not begun.
func prepare(p *pass.Pass) {
	o := p.Operation
	if o == nil || o.Kind != operations.KindUpgrade || o.State == operations.Queued || o.State.Ended() || !p.Cluster.Deleting.IsZero() || p.Gate.Shut() {
		return
	}
	guard, asked := steps.ReadGuard(*o)
	if !asked || o.Back != "" {
		return
	}
	begun := len(o.Tasks) > 0 && steps.IsGuard(o.Tasks[0])
	if !begun && !p.Stopping() && (p.Cluster.Paused != nil || !p.Window.Open && !p.Hurried()) {
		return // nothing changes now anyway
	}
	out, done := steps.TakeGuard(opsInput(p))
	next := out.Operation
	p.Unguarded = !done
	for _, e := range out.Jobs {
		if m := p.Named(e.Machine); m != nil {
			assign(p, m, e)
		}
	}
	for _, s := range out.Saved {
		m := p.Named(s.Machine)
		if m == nil {
			continue
		}
		taken := snapshotOf(p, m, s.File, guard.Spec)
		p.Saved = append(p.Saved, taken)
		next.Back = fmt.Sprintf("drover snapshots restore %s %s --mode kubernetesVersion --replace --yes", p.Cluster.Name, taken.Name())
		next = next.WithLine("the way back: "+next.Back, p.Now)
	}
	if next.State == operations.Failed {
		p.Verdict.Halted = p.Cluster.Generation
	}
	p.Again = out.Again
	p.Note(next)
}

// waitWindow has a machine say that its change waits for the window, or for the snapshot before an upgrade; false when it
// waits for neither.
func waitWindow(p *pass.Pass, m *pass.Member, what string) bool {
	switch {
	case p.Unguarded && m.Change != pass.First:
		Wait(p, m, catalogue.WaitSnapshot, "a snapshot of etcd", "drover operations show "+p.Operation.ID, "%s for %s waits for the snapshot that the upgrade begins with", what, pass.DescribeHost(m.Machine))
	case outside(p, m):
		next := ""
		if p.Operation != nil && p.Operation.State == operations.Running {
			next = "drover operations hurry " + p.Operation.ID + " does it now"
		}
		Wait(p, m, catalogue.WaitWindow, "the maintenance window "+p.Window.Text, next, "%s for %s is not made now: %s", what, pass.DescribeHost(m.Machine), p.Window.Opens())
	default:
		return false
	}
	return true
}
