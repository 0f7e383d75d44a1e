package agents

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/harbour"
)

// bench is a server of v0.3.0 with a cluster whose agents are of the releases that a test says.
type bench struct {
	*harbour.Bench
	*Controller
	releases  map[string]string // by the name of the machine
	automatic bool
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Bench: harbour.New(t), releases: map[string]string{"m1": "v0.2.0", "m2": "v0.3.0"}, automatic: true}
	at := harbour.Noon
	now := func() time.Time { at = at.Add(time.Second); return at }
	b.Controller = &Controller{
		Asker: &etcdops.Service{State: b.State, Now: now, Agents: &etcdops.Agents{
			Release: "v0.3.0", Server: func() (string, string) { return "https://drover", "pem" },
			Checksum: func(name string) (string, error) {
				if strings.HasSuffix(name, "-arm64") {
					return "", fs.ErrNotExist
				}
				return "sum of " + name, nil
			},
			Of: func(subject string) string {
				for name, release := range b.releases {
					if d, _ := b.Machines.Get("fleet-default/" + name); string(d.Value.Subject()) == subject {
						return release
					}
				}
				return ""
			},
		}},
		Automatic: func() bool { return b.automatic }, Servers: func() []string { return []string{"v0.3.0"} }, Logger: slog.New(slog.DiscardHandler), Now: now,
	}
	return b
}

// looks has the cluster looked at, and says what it waits for and what there is.
func (b *bench) looks() (waits string, all []operations.Operation) {
	b.Helper()
	result, err := b.reconcile(b.Context(), string(harbour.Key))
	if err != nil {
		b.Fatal(err)
	}
	if result.Wait != nil {
		waits = result.Wait.Cause
	}
	return waits, b.OperationsOf(harbour.Key)
}

// annotate gives the cluster an annotation.
func (b *bench) annotate(name, text string) {
	b.Helper()
	b.Must(clusters.Annotate(b.Context(), b.State, harbour.Key, name, text, func(records.Cluster) error { return nil }))
}

// ends ends the operation that runs.
func (b *bench) ends(to operations.State) {
	b.Helper()
	o, _ := operations.Active(string(harbour.Key), b.OperationsOf(harbour.Key))
	b.Must(b.Operations.Modify(b.Context(), o.Key(), func(o operations.Operation) (operations.Operation, error) { return o.To(to, "", harbour.Noon) }))
}

// TestAgentsAreUpdatedByThemselves where the setting says so, nothing is in the way, and none has failed.
func TestAgentsAreUpdatedByThemselves(t *testing.T) {
	b := newBench(t)
	b.automatic = false
	if waits, all := b.looks(); waits != "" || len(all) > 0 {
		t.Errorf("by hand it waits for %q and begins %v", waits, all)
	}
	b.automatic = true
	b.annotate(clusterspec.PinAgents, "true")
	if waits, all := b.looks(); waits != "" || len(all) > 0 {
		t.Errorf("pinned it waits for %q and begins %v", waits, all)
	}
	b.annotate(clusterspec.PinAgents, "")
	b.annotate(clusterspec.MaintenanceWindow, "Sat 01:00-02:00 UTC")
	if waits, all := b.looks(); !strings.Contains(waits, "window Sat 01:00-02:00 UTC") || len(all) > 0 {
		t.Errorf("outside of its window it waits for %q and begins %v", waits, all)
	}
	b.annotate(clusterspec.MaintenanceWindow, "")
	waits, all := b.looks()
	if waits != "" || len(all) != 1 || all[0].Title != "update agents of cluster harbour to v0.3.0" {
		t.Fatalf("it waits for %q and begins %+v", waits, all)
	}
	asked, err := steps.ReadRequest(all[0])
	want := steps.Request{Machines: []string{"m1"}, Agent: &steps.Agent{
		Release: "v0.3.0", From: "https://drover/assets/rancher-system-agent", SHA256: map[string]string{"amd64": "sum of rancher-system-agent-amd64", "arm64": ""}, CA: "pem",
	}}
	if diff := cmp.Diff(want, asked); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if waits, all := b.looks(); !strings.Contains(waits, "updates those of fleet-default/harbour first") || len(all) != 1 {
		t.Errorf("while it runs it waits for %q, and there are %v", waits, all)
	}
	b.ends(operations.Failed)
	if waits, all := b.looks(); !strings.Contains(waits, "has ended as failed; drover operations retry op-") || len(all) != 1 {
		t.Errorf("after a failure it waits for %q, and there are %v", waits, all)
	}
	for _, c := range []struct {
		state operations.TaskState
		want  int // operations
	}{{operations.TaskSkipped, 3}, {operations.TaskSucceeded, 3}} { // one that was away is updated when it is back, and one that has what it was given is not
		if c.state == operations.TaskSkipped {
			b.Must(b.Asker.Begin(b.Context(), harbour.Key, etcdops.Request{Kind: operations.KindUpdateAgents}))
		}
		o, _ := operations.Active(string(harbour.Key), b.OperationsOf(harbour.Key))
		b.Must(b.Operations.Modify(b.Context(), o.Key(), func(o operations.Operation) (operations.Operation, error) {
			return o.WithTask(operations.Task{ID: "agent m1", Step: "agent", Machine: "m1", State: c.state}, harbour.Noon), nil
		}))
		b.ends(operations.Succeeded)
		if waits, all := b.looks(); waits != "" || len(all) != c.want {
			t.Errorf("%s: it waits for %q, and there are %d operations, want %d", c.state, waits, len(all), c.want)
		}
	}
	b.releases["m1"] = "v0.3.0" // by hand
	if waits, _ := b.looks(); waits != "" {
		t.Errorf("with nothing to do it waits for %q", waits)
	}
}

// TestFleetsAreUpdatedToo but for machines that have not carried out what people gave them.
func TestFleetsAreUpdatedToo(t *testing.T) {
	b := newBench(t)
	key := records.FleetKey("edge")
	b.Must(b.Fleets.Create(b.Context(), string(key), records.Fleet{Object: records.Object{Namespace: records.FleetNamespace, Name: "edge"}, ID: "f-edge"}))
	of := map[string]string{}
	for name, state := range map[string]records.MachineState{"e1": records.Active, "e2": records.Failed, "e3": records.WaitingForPlan} {
		m := records.Machine{Object: records.Object{Namespace: records.FleetNamespace, Name: name}, ClusterName: "edge", ClusterID: "f-edge", Status: records.MachineStatus{Condition: records.Condition{State: state}}}
		b.Must(b.Machines.Create(b.Context(), m.Key(), m))
		of[string(m.Subject())] = "v0.2.0"
	}
	b.Asker.Agents.Of = func(subject string) string { return of[subject] }
	begun := func() (wait string, all []operations.Operation) {
		b.Helper()
		result, err := b.reconcile(b.Context(), string(key))
		b.Must(nil, err)
		if result.Wait != nil {
			wait = result.Wait.Object + ": " + result.Wait.Cause
		}
		return wait, b.OperationsOf(key)
	}
	b.Must(nil, clusters.PinAgents(b.Context(), b.State, key, true))
	if wait, all := begun(); wait != "" || len(all) > 0 {
		t.Errorf("pinned it waits for %q, and begins %v", wait, all)
	}
	b.Must(nil, clusters.PinAgents(b.Context(), b.State, key, false))
	wait, all := begun()
	if wait != "" || len(all) != 1 || all[0].Title != "update agents of fleet edge to v0.3.0" {
		t.Fatalf("it waits for %q, and begins %+v", wait, all)
	}
	if asked, err := steps.ReadRequest(all[0]); err != nil || !slices.Equal(asked.Machines, []string{"e1", "e3"}) {
		t.Errorf("it concerns %v: %v", asked.Machines, err)
	}
	if wait, _ := begun(); !strings.HasPrefix(wait, "the update of the agents of fleet edge: operation op-") {
		t.Errorf("while it runs it waits for %q", wait)
	}
	_, err := b.Asker.Begin(b.Context(), key, etcdops.Request{Kind: operations.KindSnapshot})
	if bad, ok := errors.AsType[*admission.InvalidError](err); !ok || !strings.Contains(bad.Reason, "fleet edge has no Kubernetes for snapshot") {
		t.Errorf("a snapshot of a fleet: %v", err)
	}
}

// TestWhatIsRefused is refused with a sentence, and nothing begins.
func TestWhatIsRefused(t *testing.T) {
	ctx := context.Background()
	b := newBench(t)
	begin := func(machines ...string) error {
		_, err := b.Asker.Begin(ctx, harbour.Key, etcdops.Request{Kind: operations.KindUpdateAgents, Request: steps.Request{Machines: machines}})
		return err
	}
	refused := func(err error, want string) {
		t.Helper()
		if bad, ok := errors.AsType[*admission.InvalidError](err); !ok || !strings.Contains(bad.Reason, want) {
			t.Errorf("it says %v, want %q", err, want)
		}
	}
	b.annotate(clusterspec.PinAgents, "true")
	refused(begin(), "are pinned: drover agents unpin harbour")
	b.annotate(clusterspec.PinAgents, "")
	b.releases = map[string]string{"m2": "v0.3.0"}
	refused(begin(), "no machine of cluster harbour has an agent of another release than v0.3.0")
	refused(begin("m2", "m3"), `cluster harbour has no machine "m3"`)
	if err := begin("m2"); err != nil {
		t.Errorf("a machine that is named: %v", err)
	}
	b.Asker.Agents = nil
	refused(begin("m2"), "this server has no agents")
}
