package clusters

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/versions"
)

const (
	quieter = `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {machineGlobalConfig: {disable: [traefik]}}}}`
	roomier = `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {machineGlobalConfig: {kubelet-arg: [max-pods=200]}}}}`
)

// activeBed is a running cluster of one machine.
func activeBed(t *testing.T) *bed {
	t.Helper()
	b := newBed(t)
	b.run()
	b.apply(harbour)
	b.register()
	b.finish()
	b.set(func() {
		b.here = true
		b.api = observed.API{Reachable: true, Version: "v1.34.4+k3s1", Nodes: map[string]records.NodeRef{
			"uid-1": {Name: "pier-1", ProviderID: "k3s://pier-1", KubeletVersion: "v1.34.4+k3s1", Ready: true, Addresses: []string{"10.0.0.1"}},
		}, Details: map[string]observed.NodeDetails{"uid-1": {Voter: observed.VoterYes}}}
	})
	b.wait("active", b.inState(records.Active))
	if !b.eventually(func() bool { return b.cluster().Status.Initialized }) {
		t.Fatal("the cluster is not initialized")
	}
	return b
}

// finish waits for a plan, and has the agent carry it out.
func (b *bed) finish() {
	b.Helper()
	b.wait("plan delivered", func(records.Machine) bool { return b.planState() == plans.StatePending })
	b.outcome(plans.StateSucceeded)
}

// checksum is that of the delivered plan.
func (b *bed) checksum() string {
	d, _ := b.state.PlanSecrets.Get(machineKey + "-machine-plan")
	return plans.Checksum(d.Value.Data[plans.KeyPlan])
}

// outcome is what the agent made of the plan.
func (b *bed) outcome(state plans.State) {
	b.Helper()
	d, _ := b.state.PlanSecrets.Get(machineKey + "-machine-plan")
	b.agent(func(o *plans.Outcome) {
		o.State, o.ProbeStatuses = state, map[string]plans.ProbeStatus{}
		for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"} {
			o.ProbeStatuses[name] = plans.ProbeStatus{Healthy: true}
		}
		if state == plans.StateSucceeded {
			o.AppliedChecksum = plans.Checksum(d.Value.Data[plans.KeyPlan])
		}
	})
}

func (b *bed) cluster() records.Cluster {
	d, _ := b.state.Clusters.Get("fleet-default/harbour")
	return d.Value
}

// ask applies a document in some way.
func (b *bed) ask(text string, request Request) (Result, error) {
	b.Helper()
	known, err := versions.Load("")
	if err != nil {
		b.Fatal(err)
	}
	docs, err := clusterspec.Parse([]byte(text), known)
	if err != nil {
		b.Fatal(err)
	}
	for {
		results, err := b.applier.Apply(b.Context(), docs, request)
		if _, conflict := errors.AsType[*store.ConflictError](err); conflict {
			continue // the controller wrote a status meanwhile; the API asks again, too
		}
		if err != nil {
			return Result{}, err
		}
		return results[0], nil
	}
}

// operation waits until one is in a state.
func (b *bed) operation(id string, state operations.State) operations.Operation {
	b.Helper()
	var o operations.Operation
	if !b.eventually(func() bool {
		o, _ = b.find(id)
		return o.State == state
	}) {
		b.Fatalf("operation %s is %+v, want %s", id, o, state)
	}
	return o
}

func (b *bed) find(id string) (operations.Operation, bool) {
	all := b.state.OperationsOf("fleet-default/harbour")
	i := slices.IndexFunc(all, func(o operations.Operation) bool { return o.ID == id })
	if i < 0 {
		return operations.Operation{}, false
	}
	return all[i], true
}

// TestAChangeIsAnOperation: it runs, has a task for the machine, and ends with it. Another one meanwhile is refused by name, or waits.
func TestAChangeIsAnOperation(t *testing.T) {
	b := activeBed(t)
	first, err := b.ask(quieter, Request{By: "user-a"})
	if err != nil || first.Operation == "" || first.Action != Configured {
		t.Fatalf("the change is %+v, %v", first, err)
	}
	running := b.operation(first.Operation, operations.Running)
	if running.Kind != planner.KindChange || running.By != "user-a" {
		t.Errorf("the operation is %+v", running)
	}
	b.wait("plan delivered", func(records.Machine) bool { return b.planState() == plans.StatePending })

	before := b.cluster().Generation
	_, err = b.ask(roomier, Request{By: "user-b"})
	if busy, ok := errors.AsType[*operations.BusyError](err); !ok || busy.First.ID != first.Operation {
		t.Fatalf("a second change: %v", err)
	}
	if b.cluster().Generation != before {
		t.Error("the refused change was stored")
	}
	second, err := b.ask(roomier, Request{By: "user-b", Turn: Queue})
	if err != nil || second.Action != Queued || b.cluster().Generation != before {
		t.Fatalf("the queued change is %+v, %v", second, err)
	}
	b.finish()
	if done := b.operation(first.Operation, operations.Succeeded); len(done.Tasks) != 1 || done.Tasks[0].State != operations.TaskSucceeded || done.Tasks[0].Attempts != 1 {
		t.Errorf("the first one ended as %+v", done)
	}
	b.operation(second.Operation, operations.Running)
	b.finish()
	b.operation(second.Operation, operations.Succeeded)
	if args := b.cluster().Spec.RKEConfig.MachineGlobalConfig["kubelet-arg"]; args == nil || b.cluster().Generation != before+1 {
		t.Errorf("the queued change was not made: %+v", b.cluster().Spec.RKEConfig)
	}
}

// crashes has the plan carried out, and the service that it starts end again and again.
func (b *bed) crashes() {
	b.Helper()
	b.agent(func(o *plans.Outcome) {
		o.State, o.AppliedChecksum = plans.StateSucceeded, b.checksum()
		o.ProbeStatuses = map[string]plans.ProbeStatus{"kubelet": {FailureCount: 1}}
	})
	if _, err := b.state.PlanSecrets.Modify(b.Context(), machineKey+"-machine-plan", func(s records.PlanSecret) (records.PlanSecret, error) {
		report, err := plans.EncodeHostReport(plans.HostReport{
			Plan: plans.Checksum(s.Data[plans.KeyPlan]), Units: []plans.UnitReport{{Name: "k3s", State: "activating (auto-restart)", Restarts: 1}},
		})
		s.Data = maps.Clone(s.Data)
		s.Data[plans.KeyHostReport] = report
		return s, err
	}); err != nil {
		b.Fatal(err)
	}
}

// TestAChangeTakesThePlaceOfAnother when that is asked for, or when the other one fails, by the agent's word or by that of
// a service that crashes.
func TestAChangeTakesThePlaceOfAnother(t *testing.T) {
	for name, fails := range map[string]string{"asked for": "", "the other one fails": "plan", "its service crashes": "service"} {
		t.Run(name, func(t *testing.T) {
			b := activeBed(t)
			first, err := b.ask(quieter, Request{})
			if err != nil {
				t.Fatal(err)
			}
			b.wait("plan delivered", func(records.Machine) bool { return b.planState() == plans.StatePending })
			request := Request{Turn: Replace}
			switch fails {
			case "service":
				request.Turn = Refuse
				b.crashes()
				b.wait("crashing", func(records.Machine) bool { return b.applier.crashing("fleet-default/harbour") })
			case "plan":
				request.Turn = Refuse
				b.outcome(plans.StateFailed)
				if !b.eventually(func() bool { o, _ := b.find(first.Operation); return failing(o) }) {
					t.Fatal("the operation does not show its failure")
				}
			}
			replaced := b.checksum()
			second, err := b.ask(roomier, request)
			if err != nil {
				t.Fatal(err)
			}
			b.wait("the newer plan", func(records.Machine) bool { return b.checksum() != replaced })
			if ended := b.operation(first.Operation, operations.Aborted); ended.Reason != "replaced by "+second.Operation {
				t.Errorf("the first one ended as %+v", ended)
			}
			b.finish()
			b.operation(second.Operation, operations.Succeeded)
			b.wait("active", b.inState(records.Active))
		})
	}
}

func TestLimits(t *testing.T) {
	none, one := 0, 1
	for _, tc := range []struct {
		name   string
		limits Limits
		want   string
	}{
		{"no machine", Limits{Machines: &none}, "it would change 1 machines, and --max-machines allows 0: custom-0a1b2c3d4e5f"},
		{"one machine", Limits{Machines: &one}, ""},
		{"no restart", Limits{NoRestart: true}, "it would restart 1 machines, and --no-restart allows none: custom-0a1b2c3d4e5f"},
		{"no drain", Limits{NoDrain: true}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := activeBed(t)
			before := b.cluster().Generation
			_, err := b.ask(quieter, Request{Limits: tc.limits})
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if _, ok := errors.AsType[*LimitError](err); !ok || !strings.Contains(err.Error(), tc.want) || b.cluster().Generation != before {
				t.Errorf("it is %v", err)
			}
		})
	}
}

// TestPause: nothing begins while the cluster is paused, and goes on when it is resumed.
func TestPause(t *testing.T) {
	b := activeBed(t)
	if _, busy, err := b.applier.Pause(t.Context(), "fleet-default/harbour", "user-a"); err != nil || len(busy) != 0 {
		t.Fatalf("busy with %q, %v", busy, err)
	}
	change, err := b.ask(quieter, Request{})
	if err != nil {
		t.Fatal(err)
	}
	m := b.wait("paused", func(m records.Machine) bool { return m.Status.Code == "paused" })
	if m.Status.State != records.Active || b.planState() != plans.StateSucceeded {
		t.Errorf("the machine is %+v", m.Status)
	}
	if _, err := b.applier.Resume(t.Context(), "fleet-default/harbour"); err != nil {
		t.Fatal(err)
	}
	b.finish()
	b.operation(change.Operation, operations.Succeeded)
}

// TestRemovalsAreOperations: the last member of etcd stays, and a whole cluster leaves its hosts clean.
func TestRemovalsAreOperations(t *testing.T) {
	b := activeBed(t)
	err := b.applier.RemoveMachine(t.Context(), machineKey, records.Leave{}, Refuse)
	if _, ok := errors.AsType[*LastMemberError](err); !ok {
		t.Fatalf("the last member: %v", err)
	}
	if err := b.applier.Remove(t.Context(), "fleet-default/harbour", records.Leave{By: "user-a", Uninstall: true}); err != nil {
		t.Fatal(err)
	}
	b.wait("its last plan", func(records.Machine) bool { return b.planState() == plans.StatePending })
	d, _ := b.state.PlanSecrets.Get(machineKey + "-machine-plan")
	if p, err := plans.Parse(d.Value.Data[plans.KeyPlan]); err != nil || len(p.Instructions) != 1 || p.Instructions[0].Name != "uninstall" {
		t.Errorf("the plan is %+v, %v", p, err)
	}
	if all := b.state.OperationsOf("fleet-default/harbour"); len(all) != 1 || all[0].Kind != planner.KindUninstall || all[0].State != operations.Running {
		t.Errorf("operations = %+v", all)
	}
	b.outcome(plans.StateSucceeded)
	if !b.eventually(func() bool {
		_, there := b.state.Clusters.Get("fleet-default/harbour")
		return !there && len(b.state.Machines.List())+len(b.state.PlanSecrets.List())+len(b.state.OperationsOf("fleet-default/harbour")) == 0
	}) {
		t.Error("something is left")
	}
}

// TestAQueuedWishIsCheckedAgain when its turn comes: the cluster may have become one that cannot take it.
func TestAQueuedWishIsCheckedAgain(t *testing.T) {
	b := activeBed(t)
	first, err := b.ask(quieter, Request{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.ask(roomier, Request{Turn: Queue})
	if err != nil {
		t.Fatal(err)
	}
	b.stop()
	o, _ := b.find(first.Operation)
	if _, err := b.state.Operations.Modify(t.Context(), o.Key(), func(o operations.Operation) (operations.Operation, error) {
		return o.To(operations.Succeeded, "", b.clock())
	}); err != nil {
		t.Fatal(err)
	}
	const moved = "/srv/k3s"
	if _, err := b.state.Clusters.Modify(t.Context(), "fleet-default/harbour", func(c records.Cluster) (records.Cluster, error) {
		rke := *c.Spec.RKEConfig
		rke.DataDirectories = &clusterspec.DataDirectories{K8sDistro: moved}
		c.Spec.RKEConfig = &rke
		return c, nil
	}); err != nil {
		t.Fatal(err)
	}
	b.run()
	if ended := b.operation(second.Operation, operations.Aborted); !strings.Contains(ended.Reason, "dataDirectories") {
		t.Errorf("it ended because %s", ended.Reason)
	}
	if d := b.cluster().Spec.RKEConfig.DataDirectories; d == nil || d.K8sDistro != moved {
		t.Error("the queued document was taken")
	}
}
