// Operations on clusters that run, such as snapshots, restores and rotations: package steps decides their next step, here
// it is told of the machines, and what it gives becomes plans.

package rollout

import (
	"cmp"
	"fmt"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/desired"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/decide/render"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/snapshotbucket"
)

// operate takes the next step of the operation, and says of all else that waits for its end.
func operate(p *pass.Pass) {
	for _, m := range p.Staying {
		mine := m.Report.Job != "" || m.HasPlan() && (p.Restoring() || p.Operation.Kind == operations.KindRotateToken && m.IsServer())
		switch {
		case m.Change == pass.Unchanged && m.Failure != nil && !mine:
			m.Retry = pass.NextRetry(m.Machine)
		case !mine && (m.Change == pass.First || m.Change == pass.Quiet || m.Change == pass.Restart):
			Wait(p, m, catalogue.WaitOperation, "operation "+p.Operation.ID+" to end", "drover operations wait "+p.Operation.ID, "a change of %s waits for operation %s (%s)", pass.DescribeHost(m.Machine), p.Operation.ID, p.Operation.Kind)
		}
	}
	takeStep(p)
}

// Fleet takes the next step of an operation on machines without a cluster. Where none is under way, the instruction of one that failed is
// taken out of the plan of its machine, unless another plan comes now.
func Fleet(p *pass.Pass) {
	if p.Daytwo() {
		takeStep(p)
		return
	}
	for _, m := range p.Staying {
		if m.Report.Job != "" && m.Report.Failed && m.Deliver == nil {
			assign(p, m, steps.Job{})
		}
	}
}

// takeStep takes the next step of the operation.
func takeStep(p *pass.Pass) {
	out := steps.Decide(opsInput(p))
	p.Note(out.Operation)
	if asked, err := steps.ReadRequest(*p.Operation); err == nil && out.Respec {
		p.NewSpec = asked.Spec
	}
	for _, e := range out.Jobs {
		if m := p.Named(e.Machine); m != nil {
			assign(p, m, e)
		}
	}
	for _, saved := range out.Saved {
		if m := p.Named(saved.Machine); m != nil {
			p.Saved = append(p.Saved, snapshotOf(p, m, saved.File, p.Cluster.Spec))
		}
	}
	if out.Token != "" && p.Secrets != nil {
		if next, known := p.Secrets.InForce(out.Token); known {
			p.NextSecrets = &next
		}
	}
	switch {
	case !p.Restoring():
	case out.Restored:
		p.Verdict.Restoring = ""
	case out.Begun || p.Lost():
		p.Verdict.Restoring = p.Operation.ID
	}
	p.Again = out.Again
}

// opsInput tells of the cluster and its machines.
func opsInput(p *pass.Pass) steps.Input {
	in := steps.Input{Now: p.Now, Operation: *p.Operation, Install: func(machine string) []plans.OneTimeInstruction { return bareInstall(p, machine) }, Fetch: func(object string, size int64) (hostjob.Source, error) { return source(p, object, size) }, Spec: true, Answers: p.API.Reachable}
	if p.Fleet == nil {
		in.Awaited = p.Leading.Add(pass.Gathering)
	}
	if p.Secrets != nil {
		in.Secrets = *p.Secrets
	}
	if c := p.Cluster; c.Paused != nil {
		in.Paused = fmt.Sprintf("cluster %s is paused since %s", c.Name, c.Paused.At.UTC().Format(pass.TimeFormat))
	}
	if asked, err := steps.ReadRequest(*p.Operation); err == nil && asked.Spec != nil {
		in.Spec = clusterspec.Equal(p.Cluster.Spec, *asked.Spec)
	}
	for _, t := range p.Tiers() {
		in.Concurrency = t.Limit // the workers' in the end
		for _, m := range t.Members {
			in.Machines = append(in.Machines, opsMachine(p, m))
		}
	}
	return in
}

func opsMachine(p *pass.Pass, m *pass.Member) steps.Machine {
	unchanged := m.HasPlan() && m.Change == pass.Unchanged
	one := steps.Machine{
		Name: m.Name, Title: pass.DescribeHost(m.Machine), NodeName: m.NodeName, UID: m.UID, Roles: m.Roles,
		Plan: m.HasPlan(), Connected: m.Agent.Connected, Member: m.Next.Member,
		PlanState: steps.PlanState{Job: m.Report.Job, Applied: m.Report.InSync, Failed: m.Report.Failed, Current: unchanged, Wanted: unchanged && m.Report.Job == ""},
		Works:     p.Works(m), Cause: m.Cause, NextStep: m.NextStep,
		Host: hostjob.Host{Distribution: p.Distribution, DataDir: render.DataDir(p.Cluster), Server: m.IsServer()},
	}
	if p.Fleet != nil {
		one.Plan, one.Works = true, one.Works || m.State == records.WaitingForPlan
		one.Host.DataDir = "/var/lib/rancher/agent" // without a distribution
	}
	switch {
	case !one.Connected:
		one.Absent = pass.Presence(m.Agent)
		_, left := p.Absent(m, 0)
		one.Awaited = p.Now.Add(left)
	case p.Fleet != nil && m.HasPlan() && !m.Report.InSync && m.Report.Job == "":
		one.Connected, one.Absent = false, "the plan that it was given has not been carried out yet: "+m.Cause
	}
	if m.Failure != nil {
		one.Fault = m.Cause
	}
	if p.Works(m) && m.Roles.Etcd && !p.QuorumWithout(m) {
		missing := p.MissingMembers(m)
		one.Held = fmt.Sprintf("etcd would lose its quorum, as %s %s not healthy", pass.NamesOf(missing), pass.AreOrIs(missing))
	}
	if one.Job != "" && one.Applied {
		if o, err := plans.ReadOutcome(m.Data()); err == nil {
			one.Output = o.AppliedOutput[one.Job]
		}
	}
	return one
}

// bareInstall puts the wanted version on a host, and starts nothing.
func bareInstall(p *pass.Pass, machine string) []plans.OneTimeInstruction {
	m := p.Named(machine)
	if m == nil {
		return nil
	}
	return render.Bare(desired.Input(p.Snapshot, m.Machine))
}

// source is where a host fetches an object of the cluster's bucket from. Its link is in the plan that is delivered, and
// ends by itself; the keys stay here.
func source(p *pass.Pass, object string, size int64) (hostjob.Source, error) {
	place, on, err := snapshotbucket.Of(p.Cluster, p.Objects)
	if err != nil {
		return hostjob.Source{}, err
	}
	if !on {
		return hostjob.Source{}, fmt.Errorf("cluster %s has no bucket any more", p.Cluster.Name)
	}
	link, err := place.Link(object, p.Now)
	return hostjob.Source{Link: link, CA: place.EndpointCA, Unverified: place.SkipSSLVerify, Size: size}, err
}

// assign has a machine get a job.
func assign(p *pass.Pass, m *pass.Member, e steps.Job) {
	given, _ := pass.Delivered(m.Data())
	delivered := given
	server := desired.ServerOf(p, m)
	moved := e.Base == steps.Joined && server != "" && server != m.Next.JoinedTo
	if moved || e.Base == steps.Wanted || e.Base == steps.Whole {
		if moved || e.Anew || e.Base == steps.Whole {
			m.Server = server
		}
		wanted, err := desired.Render(p, m)
		if err != nil {
			return // the machine says so already
		}
		given = desired.Removing(delivered, wanted, false)
	}
	switch e.Base {
	case steps.Delivered, steps.Joined:
		if p.Fleet != nil { // what a person had done once is not done again
			if given.Instructions = nil; m.Report.Job == "" && m.Next.GivenPlan == "" {
				m.Next.GivenPlan = cmp.Or(m.Report.Checksum, records.NoPlan)
			}
		}
		given.Instructions = append(hostjob.Without(given.Instructions), e.Instructions...)
	case steps.Files, steps.Wanted:
		given.Instructions, given.Probes, given.PeriodicInstructions = e.Instructions, nil, nil
	}
	bytes, err := given.Marshal()
	if err != nil {
		return
	}
	joinedTo := m.Next.JoinedTo
	m.Wanted = bytes
	Deliver(p, m)
	if e.Base == steps.Delivered || e.Base == steps.Files || e.Base == steps.Joined && !moved {
		m.Next.JoinedTo = joinedTo
	}
	if e.Anew {
		m.Next.Member = false
		if e.Base == steps.Files {
			m.Next.Restarts++ // so that it starts with the plan that comes after
		}
	}
}

// snapshotOf is the record of a snapshot that was taken on a machine, when the cluster was to be what spec says.
func snapshotOf(p *pass.Pass, m *pass.Member, f hostjob.File, spec clusterspec.Spec) records.Snapshot {
	return records.Snapshot{
		Cluster: p.ClusterKey(), Machine: m.Name, Node: m.NodeName, File: f.File, Size: f.Size, SHA256: f.SHA256, Created: p.Now, By: p.Operation.ID,
		TokenHash: p.Secrets.TokenHash(), Spec: spec,
	}
}
