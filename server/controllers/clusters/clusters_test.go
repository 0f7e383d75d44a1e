package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/auth"
	asked "github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/test/bed/reconciletest"
)

// bed is a store with a controller whose outside world a test sets.
type bed struct {
	*testing.T
	state   *state.State
	control *Controller
	applier *asked.Applier
	workers *reconcile.Runtime // once it runs
	stop    func()

	mu   sync.Mutex
	now  time.Time
	api  observed.API
	here bool

	subject records.Subject // of the one Docker host
}

func newBed(t *testing.T) *bed {
	t.Helper()
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bed{T: t, state: st, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), api: observed.API{Cause: "no tunnel is open"}}
	known, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	b.control = New(Options{
		State: st, Versions: func() *versions.Data { return known }, InstallerImage: func() string { return "" },
		Nodes: noNodes{}, Hosts: seenHosts{bed: b},
		API:    func(records.ClusterKey) observed.API { b.mu.Lock(); defer b.mu.Unlock(); return b.api },
		Logger: slog.New(slog.DiscardHandler), Now: b.clock,
	})
	b.applier = &asked.Applier{State: st, Preview: b.control.Preview, Versions: func() *versions.Data { return known }, Now: b.clock}
	return b
}

// seenHosts are hosts of which all agents are as the bed says, and the tunnels as tunnel.
type seenHosts struct {
	*bed
	tunnel func(records.Subject) observed.Tunnel
}

func (h seenHosts) Watching(string) (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now, h.here
}

func (h seenHosts) Tunnel(of records.Subject) observed.Tunnel { return h.tunnel(of) }

func (b *bed) clock() time.Time { b.mu.Lock(); defer b.mu.Unlock(); return b.now }

// run starts the controller; it stops with the test, or by b.stop.
func (b *bed) run() {
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	b.workers = reconcile.New(reconcile.Options{Store: b.state.Store, Identity: "test", Logger: slog.New(slog.DiscardHandler), Now: time.Now}, b.control.Worker())
	go func() {
		defer close(done)
		if err := b.workers.Run(ctx); err != nil {
			b.Error(err)
		}
	}()
	b.stop = sync.OnceFunc(func() { cancel(); <-done })
	b.Cleanup(b.stop)
}

func (b *bed) set(change func()) {
	b.mu.Lock()
	change()
	b.mu.Unlock()
	b.control.Changed("fleet-default/harbour")
}

func (b *bed) apply(text string) []asked.Result {
	b.Helper()
	known, err := versions.Load("")
	if err != nil {
		b.Fatal(err)
	}
	docs, err := clusterspec.Parse([]byte(text), known)
	if err != nil {
		b.Fatal(err)
	}
	results, err := b.applier.Apply(b.Context(), docs, asked.Request{Who: auth.Identity{UserID: "user-x", Admin: true}})
	if err != nil {
		b.Fatal(err)
	}
	return results
}

func (b *bed) register() {
	b.Helper()
	m := records.Machine{
		Object:      records.Object{Namespace: "fleet-default", Name: "custom-0a1b2c3d4e5f", UID: "uid-1"},
		ClusterName: "harbour", Roles: records.Roles{Etcd: true, ControlPlane: true, Worker: true}, OS: "linux",
		Status: records.MachineStatus{Condition: records.Condition{State: records.Registering}, Since: b.clock()},
	}
	s := records.PlanSecret{Object: records.Object{
		Namespace: m.Namespace, Name: m.PlanSecretName(), UID: "uid-2", Labels: map[string]string{"rke.cattle.io/cluster-name": "harbour"},
	}}
	if _, err := b.state.Store.Commit(b.Context(), b.state.Machines.Creating(m.Key(), m), b.state.PlanSecrets.Creating(s.Key(), s)); err != nil {
		b.Fatal(err)
	}
}

const machineKey = "fleet-default/custom-0a1b2c3d4e5f"

// wait waits until the machine satisfies a condition.
func (b *bed) wait(what string, ok func(records.Machine) bool) records.Machine {
	b.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		d, found := b.state.Machines.Get(machineKey)
		if found && ok(d.Value) {
			return d.Value
		}
		select {
		case <-deadline:
			b.Fatalf("%s: machine is %+v", what, d.Value.Status)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (b *bed) inState(s records.MachineState) func(records.Machine) bool {
	return func(m records.Machine) bool { return m.Status.State == s }
}

// agent plays the agent: it changes the outcome in the plan Secret.
func (b *bed) agent(change func(*plans.Outcome)) {
	b.Helper()
	_, err := b.state.PlanSecrets.Modify(b.Context(), machineKey+"-machine-plan", func(s records.PlanSecret) (records.PlanSecret, error) {
		data := map[string][]byte{}
		maps.Copy(data, s.Data)
		o, err := plans.ReadOutcome(data)
		if err != nil {
			return s, err
		}
		change(&o)
		s.Data = data
		return s, o.Write(data)
	})
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bed) planState() plans.State {
	d, _ := b.state.PlanSecrets.Get(machineKey + "-machine-plan")
	return plans.State(d.Value.Data[plans.KeyPlanState])
}

const harbour = `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {}}}`

func TestAMachineWalksToActiveAcrossARestart(t *testing.T) {
	b := newBed(t)
	b.run()
	b.apply(harbour)
	b.register()
	b.wait("plan delivered", func(records.Machine) bool { return b.planState() == plans.StatePending })
	b.wait("waiting for the agent", b.inState(records.ApplyingPlan))
	b.agent(func(o *plans.Outcome) { o.State, o.Revision = plans.StateInProgress, 1 })

	// Another controller takes over in the middle; nothing is delivered twice.
	b.stop()
	before, _ := b.state.PlanSecrets.Get(machineKey + "-machine-plan")
	b.run()
	b.wait("still applying", b.inState(records.ApplyingPlan))
	b.agent(func(o *plans.Outcome) {
		o.State, o.AppliedChecksum, o.SuccessCount = plans.StateSucceeded, plans.Checksum(before.Value.Data[plans.KeyPlan]), 1
	})
	b.wait("probes", b.inState(records.WaitingForProbes))
	b.agent(func(o *plans.Outcome) {
		for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"} {
			o.ProbeStatuses[name] = plans.ProbeStatus{Healthy: true}
		}
	})
	waiting := b.wait("node", b.inState(records.WaitingForNode))
	if !strings.Contains(waiting.Status.Cause, "no tunnel is open") || waiting.Status.Since.IsZero() {
		t.Errorf("the wait does not name itself: %+v", waiting.Status)
	}
	b.set(func() {
		b.api = observed.API{Reachable: true, Version: "v1.34.4+k3s1", Nodes: map[string]records.NodeRef{
			"uid-1": {Name: "pier-1", ProviderID: "k3s://pier-1", KubeletVersion: "v1.34.4+k3s1", Ready: true},
		}}
	})
	active := b.wait("active", b.inState(records.Active))
	var walked []string
	for _, h := range active.Status.History {
		walked = append(walked, string(h.State))
	}
	if got := strings.Join(walked, " → "); !strings.HasSuffix(got, "Applying plan → Waiting for probes → Waiting to register with Kubernetes → Active") {
		t.Errorf("history = %s", got)
	}
	if d, _ := b.state.PlanSecrets.Get(machineKey + "-machine-plan"); plans.Checksum(d.Value.Data[plans.KeyPlan]) != plans.Checksum(before.Value.Data[plans.KeyPlan]) || d.Value.Data[plans.KeyPlanRevision][0] != '1' {
		t.Error("the plan was delivered more than once")
	}
	cluster, _ := b.state.Clusters.Get("fleet-default/harbour")
	if cluster.Value.Status.State != records.ClusterActive && !b.eventually(func() bool {
		c, _ := b.state.Clusters.Get("fleet-default/harbour")
		return c.Value.Status.State == records.ClusterActive && c.Value.Status.Initialized
	}) {
		t.Errorf("cluster = %+v", cluster.Value.Status)
	}
}

func (b *bed) eventually(ok func() bool) bool {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if ok() {
			return true
		}
		select {
		case <-b.Context().Done():
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return false
}

func TestAFailedPlanIsTriedAgainWithBackOff(t *testing.T) {
	b := newBed(t)
	b.run()
	b.apply(harbour)
	b.register()
	b.wait("plan delivered", func(records.Machine) bool { return b.planState() == plans.StatePending })
	fail := func() {
		b.agent(func(o *plans.Outcome) {
			o.State, o.FailureCount = plans.StateFailed, 1
			o.FailedOutput = map[string][]byte{"install": []byte("no space left on device\n")}
		})
	}
	fail()
	m := b.wait("error", b.inState(records.Failed))
	if f := m.Status.LastFailure; f == nil || f.Instruction != "install" || f.Output != "no space left on device\n" || !f.At.Equal(b.clock()) {
		t.Fatalf("last failure = %+v", f)
	}
	if want := b.clock().Add(30 * time.Second); !m.Status.NextRetry.Equal(want) {
		t.Errorf("next retry = %s, want %s", m.Status.NextRetry, want)
	}
	b.set(func() { b.now = b.now.Add(31 * time.Second) })
	m = b.wait("first retry", func(m records.Machine) bool { return m.Status.Retries == 1 && b.planState() == plans.StatePending })
	if m.Status.LastFailure == nil {
		t.Error("the failure is forgotten while the plan is tried again")
	}
	fail()
	m = b.wait("error again", b.inState(records.Failed))
	if want := b.clock().Add(time.Minute); !m.Status.NextRetry.Equal(want) {
		t.Errorf("second retry = %s, want %s", m.Status.NextRetry, want)
	}
	b.set(func() { b.now = b.now.Add(61 * time.Second) })
	b.wait("second retry", func(m records.Machine) bool { return m.Status.Retries == 2 && b.planState() == plans.StatePending })
	b.agent(func(o *plans.Outcome) { o.State = plans.StateSucceeded })
	m = b.wait("succeeded", b.inState(records.WaitingForProbes))
	if m.Status.LastFailure != nil || m.Status.Retries != 0 {
		t.Errorf("after success: %+v", m.Status)
	}
}

// TestEmptyValuesChangeNoPlan: a document that differs in what asks for nothing is kept as it is written, and its cluster keeps its
// generation and the version of its rendering, by which machines would be restarted. A cluster that may not change is left as it is.
func TestEmptyValuesChangeNoPlan(t *testing.T) {
	b := newBed(t)
	b.apply(harbour)
	set := func(f func(*records.Cluster)) {
		t.Helper()
		if _, err := b.state.Clusters.Modify(t.Context(), "fleet-default/harbour", func(c records.Cluster) (records.Cluster, error) { f(&c); return c, nil }); err != nil {
			t.Fatal(err)
		}
	}
	set(func(c *records.Cluster) { c.Status.Renderer = 1 })
	is := func(action asked.Action, text string) {
		t.Helper()
		d, _ := b.state.Clusters.Get("fleet-default/harbour")
		written, err := json.Marshal(d.Value.Spec)
		if err != nil || string(written) != text || d.Value.Generation != 1 || d.Value.Status.Renderer != 1 {
			t.Errorf("%s, generation %d, renderer %d, %v", written, d.Value.Generation, d.Value.Status.Renderer, err)
		}
		if action != "" {
			t.Errorf("the document was %s", action)
		}
	}
	empty := strings.Replace(harbour, "rkeConfig: {}", "enableNetworkPolicy: false, rkeConfig: {provisionGeneration: 0}", 1)
	const kept = `{"enableNetworkPolicy":false,"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{"provisionGeneration":0}}`
	for _, want := range []asked.Action{asked.Configured, asked.Unchanged} {
		got := b.apply(empty)[0].Action
		if got == want {
			got = ""
		}
		is(got, kept)
	}
	set(func(c *records.Cluster) { c.Exported = &records.Exported{} })
	got := b.apply(harbour)[0].Action
	if got == asked.Unchanged {
		got = ""
	}
	is(got, kept)
}

// TestAnAbortedChangeIsAppliedAgain: the document of a change whose roll-out was aborted is a change once more, and only then.
func TestAnAbortedChangeIsAppliedAgain(t *testing.T) {
	b := newBed(t)
	b.apply(harbour)
	for i, c := range []struct {
		halted, generation int64
		action             asked.Action
	}{{0, 1, asked.Unchanged}, {1, 2, asked.Configured}, {1, 2, asked.Unchanged}, {2, 3, asked.Configured}} {
		if _, err := b.state.Clusters.Modify(t.Context(), "fleet-default/harbour", func(is records.Cluster) (records.Cluster, error) {
			is.Status.Halted, is.Status.Renderer = c.halted, 1
			return is, nil
		}); err != nil {
			t.Fatal(err)
		}
		got := b.apply(harbour)[0].Action
		d, _ := b.state.Clusters.Get("fleet-default/harbour")
		if renderer := d.Value.Status.Renderer; got != c.action || d.Value.Generation != c.generation || (renderer == 0) != (c.action == asked.Configured) {
			t.Errorf("%d: %s, generation %d, renderer %d", i, got, d.Value.Generation, renderer)
		}
	}
}

func TestRemovingAClusterLeavesNothing(t *testing.T) {
	b := newBed(t)
	b.run()
	id := b.apply(harbour)[0].ID
	b.register()
	b.wait("plan delivered", func(records.Machine) bool { return b.planState() == plans.StatePending })
	if err := b.applier.Remove(t.Context(), "fleet-default/harbour", records.Leave{}); err != nil {
		t.Fatal(err)
	}
	if !b.eventually(func() bool {
		return len(b.state.Clusters.List())+len(b.state.Machines.List())+len(b.state.PlanSecrets.List())+
			len(b.state.ClusterSecrets.List())+len(b.state.RegistrationTokens.ListIn(id+"/")) == 0
	}) {
		t.Error("something of the cluster is left")
	}
}

func TestRemovingAMachine(t *testing.T) {
	b := newBed(t)
	b.run()
	b.apply(harbour)
	b.register()
	b.wait("plan delivered", func(records.Machine) bool { return b.planState() == plans.StatePending })
	if err := b.applier.RemoveMachine(t.Context(), machineKey, records.Leave{Force: true}, admission.Refuse); err != nil {
		t.Fatal(err)
	}
	if !b.eventually(func() bool { return len(b.state.Machines.List())+len(b.state.PlanSecrets.List()) == 0 }) {
		t.Error("something of the machine is left")
	}
	if _, ok := b.state.Clusters.Get("fleet-default/harbour"); !ok {
		t.Error("the cluster went with its machine")
	}
}

// Several machines share a transaction, and one that another writer changes meanwhile does not
// keep the others from being written.
func TestWritesOfManyMachines(t *testing.T) {
	b := newBed(t)
	b.apply(harbour)
	const all = 250
	var ops []store.Op
	for i := range all {
		m := records.Machine{
			Object:      records.Object{Namespace: "fleet-default", Name: fmt.Sprintf("custom-%012d", i), UID: fmt.Sprint(i)},
			ClusterName: "harbour", Roles: records.Roles{Worker: true}, Status: records.MachineStatus{Condition: records.Condition{State: records.Registering}},
		}
		ops = append(ops, b.state.Machines.Creating(m.Key(), m))
	}
	if _, err := b.state.Store.Commit(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	cluster, _ := b.state.Clusters.Get("fleet-default/harbour")
	snapshot, g := b.control.gather(cluster)
	decision := decide.Decide(snapshot)
	const changed = "fleet-default/custom-000000000123"
	if _, err := b.state.Machines.Modify(t.Context(), changed, func(m records.Machine) (records.Machine, error) {
		m.Refused = "by somebody else"
		return m, nil
	}); err != nil {
		t.Fatal(err)
	}
	before := b.state.Store.Revision()
	var conflict *store.ConflictError
	if err := b.control.commit(t.Context(), g, decision); !errors.As(err, &conflict) || conflict.Key != changed {
		t.Errorf("err = %v", err)
	}
	// 100 in one, 99 one by one, and the last 50 are left to the next pass.
	if used := b.state.Store.Revision() - before; used != 100 {
		t.Errorf("%d transactions", used)
	}
	if l, err := b.control.pass(t.Context(), "fleet-default/harbour"); err != nil || l.again != 0 {
		t.Errorf("second pass: again in %s, %v", l.again, err)
	}
	for _, d := range b.state.Machines.List() {
		if d.Value.Status.State != records.WaitingForPlan {
			t.Fatalf("%s is %s", d.Key, d.Value.Status.State)
		}
	}
	before = b.state.Store.Revision()
	if _, err := b.control.pass(t.Context(), "fleet-default/harbour"); err != nil || b.state.Store.Revision() != before {
		t.Errorf("a third pass wrote something: %v", err)
	}
}

// What the controller writes itself is no reason to look again.
func TestOwnStatusesDoNotWakeTheController(t *testing.T) {
	b := newBed(t)
	b.apply(harbour)
	b.register()
	queue := reconciletest.Record(t, b.control.watches())
	woken := func() bool { return len(queue.Take()) > 0 }
	once := func() {
		t.Helper()
		if _, err := b.control.pass(t.Context(), "fleet-default/harbour"); err != nil {
			t.Fatal(err)
		}
	}
	once()
	if !woken() {
		t.Error("a delivered plan, whose agent is shown next, did not wake it")
	}
	once()
	if m, _ := b.state.Machines.Get(machineKey); !strings.Contains(m.Value.Status.Cause, "has not taken plan") {
		t.Fatalf("the second pass wrote %+v", m.Value.Status)
	}
	if woken() {
		t.Error("its own statuses woke it")
	}
	for what, change := range map[string]func(*records.Machine){
		"roles": func(m *records.Machine) { m.Roles.Worker = false },
		"label": func(m *records.Machine) { m.NodeLabels = map[string]string{"a": "b"} },
		"gone":  func(m *records.Machine) { m.Deleting = b.clock() },
	} {
		if _, err := b.state.Machines.Modify(t.Context(), machineKey, func(m records.Machine) (records.Machine, error) { change(&m); return m, nil }); err != nil {
			t.Fatal(err)
		}
		if !woken() {
			t.Errorf("%s: a machine that somebody else changed did not wake it", what)
		}
	}
	b.apply(strings.Replace(harbour, "rkeConfig: {}", "rkeConfig: {provisionGeneration: 1}", 1))
	if !woken() {
		t.Error("a changed spec did not wake it")
	}
}

// noNodes performs no orders.
type noNodes struct{}

func (noNodes) Work(records.ClusterKey) map[records.MachineKey]observed.NodeWork { return nil }
func (noNodes) Want(records.ClusterKey, []pass.NodeOrder)                        {}
