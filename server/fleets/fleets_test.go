package fleets_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/controllers/clusters"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/fleets"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// bed is a store with the fleet "edge" of three hosts, a cluster, and controllers that a test starts.
type bed struct {
	*testing.T
	state *state.State
	*fleets.Fleets
	edge records.Fleet
}

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

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
	b := &bed{T: t, state: st}
	b.Fleets = &fleets.Fleets{State: st, Preview: b.controller(nil).PreviewFleet, Now: noon}
	edge, made, err := b.Ensure(t.Context(), "edge", "user-x")
	if err != nil || !made {
		t.Fatalf("the fleet is made: %v, %v", made, err)
	}
	b.edge = edge.Value
	for i, site := range []string{"north", "north", "south"} {
		b.add(records.FleetNamespace, "edge", fmt.Sprintf("custom-%d", i), func(m *records.Machine) {
			m.NodeName, m.Labels, m.ClusterID = fmt.Sprintf("host-%d", i), map[string]string{"site": site}, edge.Value.ID
		})
	}
	return b
}

func (b *bed) add(namespace, cluster, name string, shape func(*records.Machine)) {
	b.Helper()
	m := records.Machine{
		Object: records.Object{Namespace: namespace, Name: name, UID: "uid-" + name}, ClusterName: cluster, OS: "linux",
		Status: records.MachineStatus{Condition: records.Condition{State: records.Registering}},
	}
	shape(&m)
	s := records.PlanSecret{Object: records.Object{Namespace: namespace, Name: m.PlanSecretName(), UID: "uid-s-" + name, Labels: map[string]string{"rke.cattle.io/cluster-name": cluster}}}
	if _, err := b.state.Store.Commit(b.Context(), b.state.Machines.Creating(m.Key(), m), b.state.PlanSecrets.Creating(s.Key(), s)); err != nil {
		b.Fatal(err)
	}
}

// deliveries gets each plan that is written for a machine.
type deliveries func(retry bool)

func (d deliveries) Delivered(retry bool) {
	if d != nil {
		d(retry)
	}
}

func (deliveries) Passed(time.Duration)       {}
func (deliveries) Failed()                    {}
func (deliveries) Ended(operations.Operation) {}

// connected are hosts whose agents all hold their watch open.
type connected struct{}

func (connected) Watching(string) (time.Time, bool)      { return noon(), true }
func (connected) Tunnel(records.Subject) observed.Tunnel { return observed.Tunnel{} }

func (b *bed) controller(delivered func(bool)) *clusters.Controller {
	return clusters.New(clusters.Options{
		State: b.state, Versions: func() *versions.Data { return &versions.Data{} }, InstallerImage: func() string { return "" },
		Nodes: noNodes{}, Hosts: connected{},
		API:     func(records.ClusterKey) observed.API { return observed.API{} },
		Observe: deliveries(delivered),
		Logger:  slog.New(slog.DiscardHandler), Now: noon,
	})
}

// lead has a controller lead until stop is called, or the test ends.
func (b *bed) lead(identity string, delivered func(bool)) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	c, done := b.controller(delivered), make(chan struct{})
	go func() {
		defer close(done)
		if err := reconcile.New(reconcile.Options{Store: b.state.Store, Identity: identity, Logger: slog.New(slog.DiscardHandler), Now: time.Now}, c.Worker()).Run(ctx); err != nil {
			b.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	b.Cleanup(stop)
	return stop
}

func (b *bed) eventually(what string, ok func() bool) {
	b.Helper()
	deadline := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-deadline:
			b.Fatalf("never: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (b *bed) given(name string) string {
	d, _ := b.state.PlanSecrets.Get(string(records.NewMachineKey(records.FleetNamespace, name).PlanSecret()))
	return string(d.Value.Data[plans.KeyPlan])
}

// succeeds has the agent of a machine report that its plan is carried out.
func (b *bed) succeeds(name string) {
	b.Helper()
	_, err := b.state.PlanSecrets.Modify(b.Context(), string(records.NewMachineKey(records.FleetNamespace, name).PlanSecret()), func(s records.PlanSecret) (records.PlanSecret, error) {
		data := map[string][]byte{}
		maps.Copy(data, s.Data)
		s.Data = data
		return s, plans.Outcome{State: plans.StateSucceeded, Revision: 1, AppliedChecksum: plans.Checksum(data[plans.KeyPlan])}.Write(data)
	})
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bed) operation(id string) operations.Operation {
	d, _ := b.state.OperationsByID.First(id)
	return d.Value
}

// greets is a plan with a file of so many bytes.
func greets(bytes int) plans.Plan {
	return plans.Plan{
		Files:        []plans.File{{Path: "/etc/greeting", Content: plans.EncodeContent([]byte(strings.Repeat("x", bytes)))}},
		Instructions: []plans.OneTimeInstruction{{Instruction: plans.Instruction{Name: "greet", Command: "true"}}},
	}
}

// TestGive: the operation has the machines that a preview names, they get the plan, and given again it changes nothing.
func TestGive(t *testing.T) {
	b := newBed(t)
	b.lead("one", nil)
	request := fleets.Request{Fleet: "edge", Labels: map[string]string{"site": "north"}, Plan: greets(4), Concurrency: "0", By: "user-x", DryRun: true}
	preview, err := b.Give(t.Context(), request)
	if err != nil || preview.Preview == nil || preview.Operation != "" || len(b.state.Operations.List()) != 0 {
		t.Fatalf("the preview is %+v, %v", preview, err)
	}
	var shown []string
	for _, m := range preview.Preview.Machines {
		shown = append(shown, m.ID)
	}
	if diff := cmp.Diff([]string{"drover-fleets/custom-0", "drover-fleets/custom-1"}, shown); diff != "" {
		t.Error(diff)
	}
	request.DryRun = false
	result, err := b.Give(t.Context(), request)
	if err != nil || result.Action != fleets.Given || !slices.Equal(result.Machines, []string{"custom-0", "custom-1"}) {
		t.Fatalf("the result is %+v, %v", result, err)
	}
	b.eventually("both have the plan", func() bool { return b.given("custom-0") != "" && b.given("custom-1") != "" })
	if b.given("custom-2") != "" {
		t.Error("a machine without the label has the plan, too")
	}
	if _, err := b.Give(t.Context(), fleets.Request{Fleet: "edge", Plan: greets(5)}); err == nil || !strings.Contains(err.Error(), result.Operation) {
		t.Errorf("a second plan meanwhile: %v", err)
	}
	b.succeeds("custom-0")
	b.succeeds("custom-1")
	b.eventually("the operation succeeds", func() bool { return b.operation(result.Operation).State == operations.Succeeded })
	if o := b.operation(result.Operation); o.By != "user-x" || len(o.Tasks) != 2 {
		t.Errorf("the operation is %+v", o)
	}
	if again, err := b.Give(t.Context(), request); err != nil || again.Action != fleets.Unchanged || again.Operation != "" || again.Alone != 2 {
		t.Errorf("given again: %+v, %v", again, err)
	}
	all, err := b.Give(t.Context(), fleets.Request{Fleet: "edge", Plan: greets(4)})
	if err != nil || !slices.Equal(all.Machines, []string{"custom-2"}) {
		t.Errorf("given to all: %+v, %v", all, err)
	}
}

// TestALeaderDies after the record is written, and after the first of the machines has its plan: the next one goes on, and
// gives nothing twice.
func TestALeaderDies(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(map[bool]string{true: "before the first delivery", false: "between two deliveries"}[before], func(t *testing.T) {
			b := newBed(t)
			// Counted in the store: a write whose leader dies meanwhile may have been taken, and the leader not know.
			var deliveries atomic.Int64
			defer b.state.PlanSecrets.Observe(func(e store.Event[records.PlanSecret]) {
				if e.Type == store.Put && plans.State(e.Value.Data[plans.KeyPlanState]) == plans.StatePending {
					deliveries.Add(1)
				}
			})()
			ctx, kill := context.WithCancel(t.Context())
			ended := make(chan struct{})
			if before {
				kill()
				close(ended)
			} else {
				c := b.controller(func(bool) { kill() }) // before the next transaction
				go func() {
					defer close(ended)
					_ = reconcile.New(reconcile.Options{Store: b.state.Store, Identity: "one", Logger: slog.New(slog.DiscardHandler), Now: time.Now}, c.Worker()).Run(ctx) // it is killed
				}()
			}
			// So large that each machine takes a transaction of its own.
			result, err := b.Give(t.Context(), fleets.Request{Fleet: "edge", Plan: greets(500 << 10), Concurrency: "0"})
			if err != nil {
				t.Fatal(err)
			}
			<-ended
			had := 0
			for i := range 3 {
				if b.given(fmt.Sprintf("custom-%d", i)) != "" {
					had++
				}
			}
			if before && had != 0 || !before && had == 0 {
				t.Fatalf("%d machines have the plan when the leader has died", had)
			}
			b.lead("two", nil)
			for i := range 3 {
				name := fmt.Sprintf("custom-%d", i)
				b.eventually(name+" has the plan", func() bool { return b.given(name) != "" })
				b.succeeds(name)
			}
			b.eventually("the operation succeeds", func() bool { return b.operation(result.Operation).State == operations.Succeeded })
			if n := deliveries.Load(); n != 3 {
				t.Errorf("%d plans were delivered to 3 machines", n)
			}
		})
	}
}

// TestTurns: a plan waits behind another one, or takes its place.
func TestTurns(t *testing.T) {
	b := newBed(t)
	give := func(bytes int, turn admission.Turn) fleets.Result {
		t.Helper()
		r, err := b.Give(t.Context(), fleets.Request{Fleet: "edge", Machines: []string{"host-0"}, Plan: greets(bytes), Turn: turn})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := give(1, admission.Refuse)
	if _, err := b.Give(t.Context(), fleets.Request{Fleet: "edge", Plan: greets(2)}); err == nil {
		t.Error("a second one runs")
	} else if busy, ok := errors.AsType[*operations.BusyError](err); !ok || busy.First.ID != first.Operation {
		t.Errorf("a second one: %v", err)
	}
	second := give(2, admission.Replace)
	third := give(3, admission.Queue)
	if third.Action != fleets.Queued || b.operation(first.Operation).State != operations.Aborted {
		t.Errorf("the third is %s, the first %s", third.Action, b.operation(first.Operation).State)
	}
	b.lead("one", nil)
	for _, r := range []fleets.Result{second, third} {
		given, _ := b.state.GivenPlans.Get(b.operation(r.Operation).Key())
		b.eventually("its turn comes", func() bool { return b.given("custom-0") == string(given.Value.Plan) })
		b.succeeds("custom-0")
		b.eventually("it succeeds", func() bool { return b.operation(r.Operation).State == operations.Succeeded })
	}
}

func TestRefused(t *testing.T) {
	b := newBed(t)
	b.add("fleet-default", "harbour", "custom-c", func(m *records.Machine) { m.NodeName = "pier" })
	b.add(records.FleetNamespace, "other", "custom-o", func(m *records.Machine) { m.NodeName = "elsewhere" })
	b.add(records.FleetNamespace, "edge", "custom-t", func(m *records.Machine) { m.NodeName = "host-0" })
	b.add(records.FleetNamespace, "edge", "custom-l", func(m *records.Machine) { m.Deleting = noon() })
	for want, r := range map[string]fleets.Request{
		"there is no fleet \"nowhere\"":                       {Fleet: "nowhere"},
		"no machine of fleet edge has label site=west":        {Labels: map[string]string{"site": "west"}},
		"machine pier is of cluster harbour, whose document":  {Machines: []string{"pier"}},
		"machine elsewhere is of fleet other, and not of":     {Machines: []string{"elsewhere"}},
		"there is no machine \"nobody\"":                      {Machines: []string{"custom-1", "nobody"}},
		"are called; name the machines":                       {Machines: []string{"host-0"}},
		"machine custom-l is being removed":                   {Machines: []string{"custom-l"}},
		"\"many\" is neither a number of machines nor a part": {Concurrency: "many"},
		"\"0%\" is not a part from 1% to 100%":                {Concurrency: "0%"},
		"a plan has at most 1048576":                          {Plan: greets(1 << 20)},
		"plan field files[0].path: \"x\" is not absolute":     {Plan: plans.Plan{Files: []plans.File{{Path: "x"}}}},
	} {
		if r.Fleet == "" {
			r.Fleet = "edge"
		}
		if _, err := b.Give(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", r.Machines, err, want)
		}
	}
	if n := len(b.state.Operations.List()) + len(b.state.GivenPlans.List()); n != 0 {
		t.Errorf("%d documents are written", n)
	}
	for i := range fleets.MaxMachines {
		b.add(records.FleetNamespace, "edge", fmt.Sprintf("many-%d", i), func(*records.Machine) {})
	}
	if _, err := b.Give(t.Context(), fleets.Request{Fleet: "edge"}); err == nil || !strings.Contains(err.Error(), "choose some of them") {
		t.Errorf("too many: %v", err)
	}
}

func TestNames(t *testing.T) {
	b := newBed(t)
	if _, err := b.state.Clusters.Create(t.Context(), "fleet-default/harbour", records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "harbour"}, ID: "c-m-1"}); err != nil {
		t.Fatal(err)
	}
	if again, made, err := b.Ensure(t.Context(), "edge", "user-y"); err != nil || made || again.Value.UID != b.edge.UID {
		t.Errorf("the fleet again: %+v, %v, %v", again.Value, made, err)
	}
	for name, want := range map[string]string{"harbour": "cluster fleet-default/harbour has that name", "Edge": "is not a valid name", "": "is not a valid name", "a/b": "is not a valid name"} {
		if _, _, err := b.Ensure(t.Context(), name, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

// TestRemove: a fleet with machines needs force, and takes all that belongs to it along.
func TestRemove(t *testing.T) {
	b := newBed(t)
	if _, err := b.Give(t.Context(), fleets.Request{Fleet: "edge", Plan: greets(1)}); err != nil {
		t.Fatal(err)
	}
	if err := b.Remove(t.Context(), "edge", false); err == nil || !strings.Contains(err.Error(), "fleet edge has 3 machines") {
		t.Errorf("without force: %v", err)
	}
	b.lead("one", nil)
	if err := b.Remove(t.Context(), "edge", true); err != nil {
		t.Fatal(err)
	}
	b.eventually("the fleet is gone", func() bool { return len(b.state.Fleets.List()) == 0 })
	left := len(b.state.Machines.List()) + len(b.state.PlanSecrets.List()) + len(b.state.RegistrationTokens.List()) + len(b.state.Operations.List()) + len(b.state.GivenPlans.List())
	if left != 0 {
		t.Errorf("%d documents of it are left", left)
	}
	if err := b.Remove(t.Context(), "edge", true); err == nil || !strings.Contains(err.Error(), "there is no fleet") {
		t.Errorf("once more: %v", err)
	}
}

// TestPlansAreBounded: of the operations that have ended the last plans are kept.
func TestPlansAreBounded(t *testing.T) {
	b := newBed(t)
	for i := range 14 {
		r, err := b.Give(t.Context(), fleets.Request{Fleet: "edge", Machines: []string{"host-0"}, Plan: greets(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		o := b.operation(r.Operation)
		if _, err := b.state.Operations.Modify(t.Context(), o.Key(), func(o operations.Operation) (operations.Operation, error) {
			return o.To(operations.Succeeded, "", noon().Add(time.Duration(i)*time.Minute))
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.state.GivenPlans.List()); n != 11 { // ten, and that of the last one, which had not ended
		t.Errorf("%d plans are kept", n)
	}
}

// noNodes performs no orders.
type noNodes struct{}

func (noNodes) Work(records.ClusterKey) map[records.MachineKey]observed.NodeWork { return nil }
func (noNodes) Want(records.ClusterKey, []pass.NodeOrder)                        {}
