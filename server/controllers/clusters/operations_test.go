package clusters

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/auth"
	asked "github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
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
func (b *bed) ask(text string, request asked.Request) (asked.Result, error) {
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
			return asked.Result{}, err
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
	first, err := b.ask(quieter, asked.Request{Who: auth.Identity{UserID: "user-a", Admin: true}})
	if err != nil || first.Operation == "" || first.Action != asked.Configured {
		t.Fatalf("the change is %+v, %v", first, err)
	}
	running := b.operation(first.Operation, operations.Running)
	if running.Kind != operations.KindChange || running.By != "user-a" {
		t.Errorf("the operation is %+v", running)
	}
	b.wait("plan delivered", func(records.Machine) bool { return b.planState() == plans.StatePending })

	before := b.cluster().Generation
	_, err = b.ask(roomier, asked.Request{Who: auth.Identity{UserID: "user-b", Admin: true}})
	if busy, ok := errors.AsType[*operations.BusyError](err); !ok || busy.First.ID != first.Operation {
		t.Fatalf("a second change: %v", err)
	}
	if b.cluster().Generation != before {
		t.Error("the refused change was stored")
	}
	second, err := b.ask(roomier, asked.Request{Who: auth.Identity{UserID: "user-b", Admin: true}, Turn: admission.Queue})
	if err != nil || second.Action != asked.Queued || b.cluster().Generation != before {
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

// TestAQueuedChangeKeepsItsRights: what the document names is used when its turn comes, as the person may read it who asked for it.
func TestAQueuedChangeKeepsItsRights(t *testing.T) {
	b := activeBed(t)
	b.stream(strings.Replace(fileSecret, "harbour", "quay", 1), false)
	first, err := b.ask(quieter, asked.Request{Who: auth.Identity{UserID: "user-x", Admin: true}})
	if err != nil {
		t.Fatal(err)
	}
	named := strings.Replace(fileCluster, "rkeConfig: {", "rkeConfig: {machineGlobalConfig: {disable: [traefik], debug: true}, ", 1)
	if second, err := b.ask(named, asked.Request{Who: auth.Identity{UserID: "user-x"}, Turn: admission.Queue}); err != nil || second.Action != asked.Queued {
		t.Fatalf("the queued change is %+v, %v", second, err)
	}
	if b.cluster().Granted != nil {
		t.Error("the right is there before its change")
	}
	b.finish()
	b.operation(first.Operation, operations.Succeeded)
	if !b.eventually(func() bool { return b.cluster().Granted["Secret/fleet-default/files"].UID != "" }) {
		t.Fatalf("the cluster has the rights %v", b.cluster().Granted)
	}
	if !b.eventually(func() bool { return b.fileA() == "first" }) {
		t.Fatal("the file has not come")
	}
}

// crashes has the plan carried out, and what it starts end again and again, as the host reports it.
func (b *bed) crashes(report plans.HostReport) {
	b.Helper()
	b.agent(func(o *plans.Outcome) {
		o.State, o.AppliedChecksum = plans.StateSucceeded, b.checksum()
		o.ProbeStatuses = map[string]plans.ProbeStatus{"kubelet": {FailureCount: 1}}
	})
	if _, err := b.state.PlanSecrets.Modify(b.Context(), machineKey+"-machine-plan", func(s records.PlanSecret) (records.PlanSecret, error) {
		report.Plan = plans.Checksum(s.Data[plans.KeyPlan])
		wire, err := plans.EncodeHostReport(report)
		s.Data = maps.Clone(s.Data)
		s.Data[plans.KeyHostReport] = wire
		return s, err
	}); err != nil {
		b.Fatal(err)
	}
}

// TestAChangeTakesThePlaceOfAnother when that is asked for, or when the other one fails, by the agent's word or by that of
// a service or a static pod that crashes.
func TestAChangeTakesThePlaceOfAnother(t *testing.T) {
	for name, fails := range map[string]string{"asked for": "", "the other one fails": "plan", "its service crashes": "service", "its static pod crashes": "pod"} {
		t.Run(name, func(t *testing.T) {
			b := activeBed(t)
			first, err := b.ask(quieter, asked.Request{})
			if err != nil {
				t.Fatal(err)
			}
			b.wait("plan delivered", func(records.Machine) bool { return b.planState() == plans.StatePending })
			request := asked.Request{Turn: admission.Replace}
			switch fails {
			case "service", "pod":
				request.Turn = admission.Refuse
				// The service of RKE2 stays activating while a pod of it crashes.
				report := plans.HostReport{
					Units: []plans.UnitReport{{Name: "rke2-server", State: "activating (start)"}},
					Pods:  []plans.PodReport{{Name: "kube-apiserver", Restarts: 2, Lines: []string{"Error: unknown flag: --x"}}},
				}
				if fails == "service" {
					report = plans.HostReport{Units: []plans.UnitReport{{Name: "k3s", State: "activating (auto-restart)", Restarts: 1}}}
				}
				b.crashes(report)
				b.wait("crashing", func(m records.Machine) bool { return m.Status.State != records.Active })
			case "plan":
				request.Turn = admission.Refuse
				b.outcome(plans.StateFailed)
				if !b.eventually(func() bool { o, _ := b.find(first.Operation); return anyFailed(o) }) {
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
		limits asked.Limits
		want   string
	}{
		{"no machine", asked.Limits{Machines: &none}, "it would change 1 machines, and --max-machines allows 0: custom-0a1b2c3d4e5f"},
		{"one machine", asked.Limits{Machines: &one}, ""},
		{"no restart", asked.Limits{NoRestart: true}, "it would restart 1 machines, and --no-restart allows none: custom-0a1b2c3d4e5f"},
		{"no drain", asked.Limits{NoDrain: true}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := activeBed(t)
			before := b.cluster().Generation
			_, err := b.ask(quieter, asked.Request{Limits: tc.limits})
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if _, ok := errors.AsType[*records.LimitError](err); !ok || !strings.Contains(err.Error(), tc.want) || b.cluster().Generation != before {
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
	change, err := b.ask(quieter, asked.Request{})
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
	err := b.applier.RemoveMachine(t.Context(), machineKey, records.Leave{}, admission.Refuse)
	if _, ok := errors.AsType[*records.LastMemberError](err); !ok {
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
	if all := b.state.OperationsOf("fleet-default/harbour"); len(all) == 1 {
		if _, err := all[0].AbortBy("user-a", b.clock()); err == nil || !strings.Contains(err.Error(), "drover clusters rm harbour --force --yes") {
			t.Errorf("an abort of it: %v", err)
		}
	}
	if all := b.state.OperationsOf("fleet-default/harbour"); len(all) != 1 || all[0].Kind != operations.KindUninstall || all[0].State != operations.Running {
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
	first, err := b.ask(quieter, asked.Request{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.ask(roomier, asked.Request{Turn: admission.Queue})
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

// TestAnAbortedRemovalKeepsTheMachine: the record ends when the machine stays, in one write.
func TestAnAbortedRemovalKeepsTheMachine(t *testing.T) {
	b := activeBed(t)
	o, err := operations.Begin(operations.Operation{ID: "op-abcdefgh", Kind: operations.KindRemoval, Subject: "fleet-default/harbour", Created: b.clock()}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := b.state.Machines.Get(machineKey)
	if _, err := b.state.Machines.Modify(t.Context(), machineKey, func(m records.Machine) (records.Machine, error) {
		m.Deleting, m.Leave = b.clock(), records.Leave{By: "user-a", Uninstall: true}
		return m, nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.state.Operations.Create(t.Context(), o.Key(), o); err != nil {
		t.Fatal(err)
	}
	b.wait("leaving, with the way to give it up", func(m records.Machine) bool { // at first it may be seen without its record
		return m.Status.Code == "leaving-last-etcd" && strings.Contains(m.Status.NextStep, "drover operations abort op-abcdefgh")
	})
	if _, err := b.state.Operations.Modify(t.Context(), o.Key(), func(o operations.Operation) (operations.Operation, error) {
		return o.AbortBy("user-a", b.clock())
	}); err != nil {
		t.Fatal(err)
	}
	if ended := b.operation(o.ID, operations.Aborted); !strings.Contains(ended.Reason, "stays in the cluster") {
		t.Errorf("it ended because %s", ended.Reason)
	}
	m := b.wait("active", b.inState(records.Active))
	if !m.Deleting.IsZero() || m.Leave != (records.Leave{}) || m.UID != d.Value.UID {
		t.Errorf("the machine is %+v", m)
	}
}

// twoMembers are the keys of two machines whose etcd are all that the cluster has. No controller runs.
func twoMembers(b *bed) (keys [2]records.MachineKey) {
	b.Helper()
	b.apply(harbour)
	for i, name := range []string{"pier-1", "pier-2"} {
		m := records.Machine{
			Object: records.Object{Namespace: "fleet-default", Name: name, UID: "uid-" + name}, ClusterName: "harbour", Roles: records.Roles{Etcd: true, ControlPlane: true},
			Status: records.MachineStatus{Condition: records.Condition{State: records.Active}, Member: true, JoinURL: "https://" + name + ":6443"},
		}
		if _, err := b.state.Machines.Create(b.Context(), m.Key(), m); err != nil {
			b.Fatal(err)
		}
		keys[i] = records.NewMachineKey(m.Namespace, m.Name)
	}
	return keys
}

// TestTwoRequestsInTheSameMoment: while one is being checked, the other one is stored; what was checked does not hold
// any more, and is checked again.
func TestTwoRequestsInTheSameMoment(t *testing.T) {
	for name, turn := range map[string]admission.Turn{"refused": admission.Refuse, "queued": admission.Queue} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			keys := twoMembers(b)
			second := *b.applier
			b.applier.Now = func() time.Time { // it is asked between check and write
				if d, _ := b.state.Machines.Get(string(keys[1])); d.Value.Deleting.IsZero() {
					if err := second.RemoveMachine(t.Context(), keys[1], records.Leave{}, admission.Refuse); err != nil {
						t.Error(err)
					}
				}
				return b.clock()
			}
			err := b.applier.RemoveMachine(t.Context(), keys[0], records.Leave{}, turn)
			// Of what is left now it is the last member.
			if _, last := errors.AsType[*records.LastMemberError](err); !last {
				t.Errorf("the first request: %v", err)
			}
			if d, _ := b.state.Machines.Get(string(keys[0])); !d.Value.Deleting.IsZero() {
				t.Error("both members leave")
			}
			if all := b.state.OperationsOf("fleet-default/harbour"); len(all) != 1 {
				t.Errorf("operations = %+v", all)
			}
		})
	}
}

// TestTheQueueEndsWithItsCluster: what waits is aborted, and does not hold up the removal.
func TestTheQueueEndsWithItsCluster(t *testing.T) {
	for name, removed := range map[string]func(*bed) error{
		"uninstalled": func(b *bed) error {
			return b.applier.Remove(b.Context(), "fleet-default/harbour", records.Leave{Uninstall: true})
		},
		"on its way already": func(b *bed) error {
			_, err := b.state.Clusters.Modify(b.Context(), "fleet-default/harbour", func(c records.Cluster) (records.Cluster, error) {
				c.Deleting, c.Leave = b.clock(), records.Leave{Uninstall: true}
				return c, nil
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := activeBed(t)
			if _, err := b.ask(quieter, asked.Request{}); err != nil {
				t.Fatal(err)
			}
			b.wait("plan delivered", func(records.Machine) bool { return b.planState() == plans.StatePending })
			queued, err := b.ask(roomier, asked.Request{Turn: admission.Queue})
			if err != nil {
				t.Fatal(err)
			}
			if err := removed(b); err != nil {
				t.Fatal(err)
			}
			if ended := b.operation(queued.Operation, operations.Aborted); ended.Reason != "cluster harbour is deleted" {
				t.Errorf("it ended because %s", ended.Reason)
			}
		})
	}
}

// TestAQueuedOperationThatCannotBeRead fails with a sentence, and the next one has its turn.
func TestAQueuedOperationThatCannotBeRead(t *testing.T) {
	for name, params := range map[string]string{"of another form": `{"document": 5}`, "of an unknown kind": `{"snapshot": "s-1"}`, "nothing": ``} {
		t.Run(name, func(t *testing.T) {
			b := activeBed(t)
			first, err := b.ask(quieter, asked.Request{})
			if err != nil {
				t.Fatal(err)
			}
			b.wait("plan delivered", func(records.Machine) bool { return b.planState() == plans.StatePending })
			strange := operations.Operation{ID: "op-strange1", Kind: "restore", Subject: "fleet-default/harbour", State: operations.Queued, Created: b.clock(), Params: []byte(params)}
			if _, err := b.state.Operations.Create(t.Context(), strange.Key(), strange); err != nil {
				t.Fatal(err)
			}
			b.finish()
			b.operation(first.Operation, operations.Succeeded)
			ended := b.operation(strange.ID, operations.Failed)
			if !strings.Contains(ended.Reason, "what operation op-strange1 was to do cannot be read") {
				t.Errorf("it ended because %s", ended.Reason)
			}
			if _, err := ended.RetryBy("user-a", nil, b.clock()); err == nil {
				t.Error("it can be tried again")
			}
			next, err := b.ask(roomier, asked.Request{})
			if err != nil {
				t.Fatal(err)
			}
			b.finish()
			b.operation(next.Operation, operations.Succeeded)
		})
	}
}

// anyFailed says that a task of an operation has failed.
func anyFailed(o operations.Operation) bool {
	return slices.ContainsFunc(o.Tasks, func(t operations.Task) bool { return t.State == operations.TaskFailed })
}
