package clusters

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

// TestARehearsalIsKept: what a rehearsal came to stands with its snapshot, through servers that take one pass each, and the plan that
// has the cluster's token goes with its end.
func TestARehearsalIsKept(t *testing.T) {
	b := newBed(t)
	b.here = true
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const subject, snapshot = "drover-fleets/spare", "fleet-default/harbour/s3/one"
	must(b.state.Fleets.Create(t.Context(), subject, records.Fleet{Object: records.Object{Namespace: records.FleetNamespace, Name: "spare"}, ID: "f-spare000"}))
	m := records.Machine{Object: records.Object{Namespace: records.FleetNamespace, Name: "s1", UID: "s1"}, ClusterName: "spare", NodeName: "host-s1"}
	must(b.state.Machines.Create(t.Context(), m.Key(), m))
	secret := records.PlanSecret{Object: records.Object{Namespace: m.Namespace, Name: m.PlanSecretName()}}
	must(b.state.PlanSecrets.Create(t.Context(), secret.Key(), secret))
	before := b.now.Add(-time.Hour)
	must(b.state.Snapshots.Create(t.Context(), snapshot, records.Snapshot{Cluster: "fleet-default/harbour", Machine: "s3", File: "s3://b/one", Rehearsal: &records.Rehearsal{Operation: "op-before", Good: before}}))

	rehearse := func(id, output string) *records.Rehearsal {
		t.Helper()
		params, err := json.Marshal(map[string]any{"rehearsal": steps.Rehearsal{Cluster: "fleet-default/harbour", Snapshot: snapshot, Machine: "s1"}})
		must(nil, err)
		o, err := operations.Begin(operations.Operation{ID: id, Kind: operations.KindRehearse, Subject: subject, Created: b.now, Params: params}, nil, false)
		must(nil, err)
		for _, task := range []string{steps.TaskRehearse, steps.TaskCleanUp} {
			o = o.WithTask(operations.Task{ID: task}, b.now)
		}
		must(b.state.Operations.Create(t.Context(), o.Key(), o))
		given := records.GivenPlan{Plan: []byte(`{"instructions":[{"name":"rehearse","env":["` + id + `"]}]}`), After: []byte(`{"instructions":[{"name":"rehearse-clean-up","env":["` + id + `"]}]}`)}
		must(b.state.GivenPlans.Create(t.Context(), o.Key(), given))
		for _, printed := range []string{output, ""} {
			for range 3 { // the last one writes nothing
				if _, err := b.control.pass(t.Context(), subject); err != nil {
					t.Fatal(err)
				}
				b.control.forget(subject) // as another server begins
			}
			d, _ := b.state.PlanSecrets.Get(secret.Key())
			d.Value.Data = maps.Clone(d.Value.Data)
			outcome := plans.Outcome{State: plans.StateSucceeded, Revision: 1, AppliedChecksum: plans.Checksum(d.Value.Data[plans.KeyPlan]), AppliedOutput: map[string][]byte{hostjob.RehearseName: []byte(printed)}}
			must(nil, outcome.Write(d.Value.Data))
			must(b.state.PlanSecrets.Update(t.Context(), d))
		}
		if _, err := b.control.pass(t.Context(), subject); err != nil {
			t.Fatal(err)
		}
		if d, _ := b.state.Operations.Get(o.Key()); !d.Value.State.Ended() {
			t.Errorf("operation %s is %s: %+v", id, d.Value.State, d.Value.Tasks)
		}
		if _, kept := b.state.GivenPlans.Get(o.Key()); kept {
			t.Errorf("the plan of %s is still kept", id)
		}
		if d, _ := b.state.PlanSecrets.Get(secret.Key()); string(d.Value.Data[plans.KeyPlan]) != string(given.After) {
			t.Errorf("the machine still has plan %s", d.Value.Data[plans.KeyPlan])
		}
		d, _ := b.state.Snapshots.Get(snapshot)
		return d.Value.Rehearsal
	}
	want := &records.Rehearsal{Operation: "op-bad", At: b.now, Machine: "s1 (host-s1)", Cause: "it was cut", Good: before}
	if diff := cmp.Diff(want, rehearse("op-bad", `{"ok":false,"cause":"it was cut"}`)); diff != "" {
		t.Error(diff)
	}
	want = &records.Rehearsal{Operation: "op-good", At: b.now, Machine: "s1 (host-s1)", Objects: 7, Good: b.now}
	if diff := cmp.Diff(want, rehearse("op-good", `{"ok":true,"objects":7}`)); diff != "" {
		t.Error(diff)
	}
	must(nil, b.state.Snapshots.Delete(t.Context(), snapshot, 0))
	if is := rehearse("op-late", `{"ok":true,"objects":7}`); is != nil {
		t.Errorf("of a snapshot that is gone it is %+v", is)
	}
}
