// Operations on clusters that run, such as snapshots, restores and rotations: package ops decides their next step, here
// it is told of the machines, and what it gives becomes plans.

package planner

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/installers/errand"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/objects"
	"github.com/drover-project/drover/server/offsite"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/planner/render"
	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
)

// daytwo says that such an operation is under way. Nothing else begins on the cluster's machines then.
func (s Snapshot) daytwo() bool {
	o := s.Operation
	return o != nil && o.Kind.Stepped() && o.State != operations.Queued && !o.State.Ended() && s.Cluster.Deleting.IsZero()
}

// target is the machine that begins the cluster anew by a restore; nil without one.
func (r *round) target() *member {
	if !r.daytwo() {
		return nil
	}
	name := steps.Target(*r.Operation)
	i := slices.IndexFunc(r.staying, func(m *member) bool { return m.Name == name && m.Roles.Etcd })
	if i < 0 {
		return nil
	}
	return r.staying[i]
}

// restoring says that a restore is under way.
func (r *round) restoring() bool { return r.daytwo() && r.Operation.Kind == operations.KindRestore }

// halfRestored is the gate of a cluster whose restore did not come to its end: its servers may have no etcd, and would
// begin an empty one.
func (r *round) halfRestored() hold {
	c := r.Cluster
	return hold{
		code: verdict.RestoreFailed, failed: true, state: records.ClusterError, next: "drover operations show " + c.Status.Restoring + " has the reason; drover operations retry " + c.Status.Restoring + " goes on, and drover snapshots restore begins anew",
		message: fmt.Sprintf("the restore of cluster %s by operation %s has not come to its end, and its servers do not start before one has", c.Name, c.Status.Restoring),
	}
}

// operate takes the next step of the operation, and says of all else that waits for its end.
func (r *round) operate() {
	for _, m := range r.staying {
		mine := m.report.errand != "" || m.hasPlan() && (r.restoring() || r.Operation.Kind == operations.KindRotateToken && m.isServer())
		switch {
		case m.change == nothing && m.failure != nil && !mine:
			m.retry = nextRetry(m.Machine)
		case !mine && (m.change == first || m.change == quiet || m.change == restart):
			r.wait(m, verdict.WaitOperation, "operation "+r.Operation.ID+" to end", "drover operations wait "+r.Operation.ID, "a change of %s waits for operation %s (%s)", describeHost(m.Machine), r.Operation.ID, r.Operation.Kind)
		}
	}
	out := steps.Decide(r.opsInput())
	r.note(out.Operation)
	if asked, err := steps.ReadRequest(*r.Operation); err == nil && out.Respec {
		r.respec = asked.Spec
	}
	for _, e := range out.Errands {
		if m := r.named(e.Machine); m != nil {
			r.entrust(m, e)
		}
	}
	for _, saved := range out.Saved {
		if m := r.named(saved.Machine); m != nil {
			r.saved = append(r.saved, r.snapshotOf(m, saved.File, r.Cluster.Spec))
		}
	}
	if out.Token != "" && r.Secrets != nil {
		if next, known := r.Secrets.InForce(out.Token); known {
			r.secrets = &next
		}
	}
	switch {
	case !r.restoring():
	case out.Restored:
		r.cluster.restoring = ""
	case out.Begun || r.lost():
		r.cluster.restoring = r.Operation.ID
	}
	r.again = out.Again
}

func (r *round) named(name string) *member {
	i := slices.IndexFunc(r.staying, func(m *member) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return r.staying[i]
}

// lost says that no machine has a part of the cluster's etcd: whoever began would begin an empty one.
func (r *round) lost() bool {
	return r.cluster.initialized && !slices.ContainsFunc(r.members, func(m *member) bool { return m.Roles.Etcd && m.next.member })
}

// opsInput tells of the cluster and its machines.
func (r *round) opsInput() steps.Input {
	in := steps.Input{Now: r.Now, Operation: *r.Operation, Install: r.bareInstall, Fetch: r.source, Spec: true, Answers: r.API.Reachable}
	if r.Secrets != nil {
		in.Secrets = *r.Secrets
	}
	if asked, err := steps.ReadRequest(*r.Operation); err == nil && asked.Spec != nil {
		in.Spec = clusterspec.Equal(r.Cluster.Spec, *asked.Spec)
	}
	for _, t := range r.tiers() {
		in.Concurrency = t.limit // the workers' in the end
		for _, m := range t.members {
			in.Machines = append(in.Machines, r.opsMachine(m))
		}
	}
	return in
}

func (r *round) opsMachine(m *member) steps.Machine {
	one := steps.Machine{
		Name: m.Name, Title: describeHost(m.Machine), NodeName: m.NodeName, UID: m.UID, Roles: m.Roles,
		Plan: m.hasPlan(), Connected: m.Agent.Connected, Member: m.next.member, Errand: m.report.errand, Applied: m.report.inSync, Failed: m.report.failed,
		Current: m.hasPlan() && m.change == nothing, Wanted: m.hasPlan() && m.change == nothing && m.report.errand == "", Works: r.works(m), Cause: m.Cause, NextStep: m.NextStep,
		Host: errand.Host{Distribution: r.distribution, DataDir: render.DataDir(r.Cluster), Server: m.isServer()},
	}
	if !one.Connected {
		one.Absent = presence(m.Agent)
	}
	if m.failure != nil {
		one.Fault = m.Cause
	}
	if r.works(m) && m.Roles.Etcd && !r.quorumWithout(m) {
		missing := r.missingMembers(m)
		one.Held = fmt.Sprintf("etcd would lose its quorum, as %s %s not healthy", named(missing), areOrIs(missing))
	}
	if one.Errand != "" && one.Applied {
		if o, err := plans.ReadOutcome(m.data()); err == nil {
			one.Output = o.AppliedOutput[one.Errand]
		}
	}
	return one
}

// bareInstall puts the wanted version on a host, and starts nothing.
func (r *round) bareInstall(machine string) []plans.OneTimeInstruction {
	m := r.named(machine)
	if m == nil {
		return nil
	}
	return render.Bare(r.input(m.Machine))
}

// source is where a host fetches an object of the cluster's bucket from. Its link is in the plan that is delivered, and
// ends by itself; the keys stay here.
func (r *round) source(object string, size int64) (errand.Source, error) {
	place, on, err := offsite.Of(r.Cluster, func(key string) (objects.Object, bool) { o, ok := r.Objects[key]; return o, ok })
	if err != nil {
		return errand.Source{}, err
	}
	if !on {
		return errand.Source{}, fmt.Errorf("cluster %s has no bucket any more", r.Cluster.Name)
	}
	link, err := place.Link(object, r.Now)
	return errand.Source{Link: link, CA: place.EndpointCA, Unverified: place.SkipSSLVerify, Size: size}, err
}

// entrust has a machine get an errand.
func (r *round) entrust(m *member, e steps.Errand) {
	given, _ := deliveredPlan(m.data())
	delivered := given
	server := r.serverOf(m)
	moved := e.Base == steps.Joined && server != "" && server != m.next.joinedTo
	if moved || e.Base == steps.Wanted || e.Base == steps.Whole {
		if moved || e.Anew || e.Base == steps.Whole {
			m.server = server
		}
		wanted, err := r.render(m)
		if err != nil {
			return // the machine says so already
		}
		given = removing(delivered, wanted, false)
	}
	switch e.Base {
	case steps.Delivered, steps.Joined:
		given.Instructions = append(errand.Without(given.Instructions), e.Instructions...)
	case steps.Files, steps.Wanted:
		given.Instructions, given.Probes, given.PeriodicInstructions = e.Instructions, nil, nil
	}
	bytes, err := given.Marshal()
	if err != nil {
		return
	}
	joinedTo := m.next.joinedTo
	m.bytes = bytes
	r.deliver(m)
	if e.Base == steps.Delivered || e.Base == steps.Files || e.Base == steps.Joined && !moved {
		m.next.joinedTo = joinedTo
	}
	if e.Anew {
		m.next.member = false
		if e.Base == steps.Files {
			m.next.restarts++ // so that it starts with whatever plan comes after
		}
	}
}

// keeping is the wanted plan with the errand of the delivered one, as long as nothing else differs: taken out of the plan
// it would be delivered once more for nothing. One that failed, or whose operation is over before its end, goes.
func (r *round) keeping(m *member, delivered, wanted plans.Plan) plans.Plan {
	if !r.keeps(m) {
		return wanted
	}
	with := wanted
	with.Instructions = append(slices.Clone(wanted.Instructions), errand.Only(delivered.Instructions)...)
	if !plans.Equal(delivered, with) {
		return wanted
	}
	return with
}

func (r *round) keeps(m *member) bool {
	return m.report.errand != "" && (m.report.inSync || r.daytwo())
}

// snapshotOf is the record of a snapshot that was taken on a machine, when the cluster was to be what spec says.
func (r *round) snapshotOf(m *member, f errand.File, spec clusterspec.Spec) records.Snapshot {
	return records.Snapshot{
		Cluster: r.key(), Machine: m.Name, Node: m.NodeName, File: f.File, Size: f.Size, SHA256: f.SHA256, Created: r.Now, By: r.Operation.ID,
		TokenHash: r.Secrets.TokenHash(), Spec: spec,
	}
}
