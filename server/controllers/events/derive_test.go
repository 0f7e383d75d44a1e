package events

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

func machine(shape func(*records.Machine)) *records.Machine {
	m := &records.Machine{Object: records.Object{Namespace: "fleet-default", Name: "custom-1"}, ClusterName: "harbour", ClusterID: "c-m-1"}
	if shape != nil {
		shape(m)
	}
	return m
}

func in(state records.MachineState, since int, cause string) func(*records.Machine) {
	return func(m *records.Machine) {
		m.Status.Condition, m.Status.Since = records.Condition{State: state, Code: "Code" + cause, Cause: cause}, at(since)
	}
}

func TestMachines(t *testing.T) {
	base := records.Event{Revision: 7, ClusterID: "c-m-1", Kind: "machine", Key: "fleet-default/custom-1", Name: "custom-1"}
	for _, c := range []struct {
		name          string
		before, after *records.Machine
		deleted       bool
		want          func(*records.Event) // nil: no event
	}{
		{name: "it joins", after: machine(in(records.Registering, 1, "x")), want: func(e *records.Event) {
			e.At, e.To, e.Code, e.Cause = at(1), "Registering", "Codex", "x"
		}},
		{name: "another state", before: machine(in(records.Registering, 1, "x")), after: machine(in(records.Failed, 2, "full")), want: func(e *records.Event) {
			e.At, e.From, e.To, e.Code, e.Cause = at(2), "Registering", "Error", "Codefull", "full"
		}},
		{name: "another cause", before: machine(in(records.Failed, 1, "x")), after: machine(in(records.Failed, 2, "y"))},
		{name: "something else", before: machine(in(records.Active, 1, "")), after: machine(func(m *records.Machine) { in(records.Active, 1, "")(m); m.Refused = "a" })},
		{name: "somebody removes it", before: machine(in(records.Failed, 1, "x")), after: machine(func(m *records.Machine) { in(records.Failed, 1, "x")(m); m.Deleting = at(3) }),
			want: func(e *records.Event) { e.At, e.From, e.To = at(60), "Error", "Removing" }},
		{name: "it is removed", after: machine(func(m *records.Machine) { in(records.Removing, 1, "x")(m); m.NodeName = "pier-1" }), deleted: true,
			want: func(e *records.Event) { e.At, e.From, e.To, e.Name = at(60), "Removing", "Removed", "pier-1" }},
		{name: "it has a node", before: machine(in(records.WaitingForNode, 1, "x")), after: machine(func(m *records.Machine) {
			in(records.Active, 2, "")(m)
			m.NodeName, m.Status.Code, m.Status.Node = "asked", "", &records.NodeRef{Name: "pier-1.lan"}
		}), want: func(e *records.Event) {
			e.At, e.From, e.To, e.Name = at(2), "Waiting to register with Kubernetes", "Active", "pier-1.lan"
		}},
		{name: "a long cause", before: machine(nil), after: machine(in(records.Failed, 1, strings.Repeat("é\n", 300))), want: func(e *records.Event) {
			e.At, e.From, e.To, e.Cause = at(1), "Registering", "Error", strings.Repeat("é ", 169)+"é"+"…"
			e.Code = "Code" + strings.Repeat("é\n", 300)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			change := store.Event[records.Machine]{Type: store.Put, Key: "fleet-default/custom-1", Revision: 7, Value: *c.after, Old: c.before}
			if c.deleted {
				change.Type = store.Deleted
			}
			got, ok := ofMachine(change, func() time.Time { return at(60) })
			if ok != (c.want != nil) {
				t.Fatalf("an event: %v: %+v", ok, got)
			}
			if c.want == nil {
				return
			}
			want := base
			c.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if len(got.Cause) > maxCause {
				t.Errorf("the cause has %d bytes", len(got.Cause))
			}
		})
	}
}

func TestClustersAndOperations(t *testing.T) {
	cluster := func(state, message string, since int) records.Cluster {
		return records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "harbour"}, ID: "c-m-1",
			Status: records.ClusterStatus{State: records.ClusterState(state), Message: message, Since: at(since)}}
	}
	before, after := cluster("updating", "1 of 3", 1), cluster("error", "pier-2 is full", 2)
	now := func() time.Time { return at(60) }
	put := store.Event[records.Cluster]{Type: store.Put, Key: "fleet-default/harbour", Revision: 7, Value: after, Old: &before}
	want := records.Event{Revision: 7, At: at(2), ClusterID: "c-m-1", Kind: "cluster", Key: "fleet-default/harbour", Name: "harbour", From: "updating", To: "error", Cause: "pier-2 is full"}
	got, ok := ofCluster(put, now)
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Error(ok, diff)
	}
	put.Value = cluster("updating", "2 of 3", 2)
	if e, ok := ofCluster(put, now); ok {
		t.Errorf("another message is an event: %+v", e)
	}
	put.Type = store.Deleted
	if e, ok := ofCluster(put, now); ok {
		t.Errorf("a removal is an event: %+v", e)
	}

	o, err := operations.Begin(operations.Operation{ID: "op-1", Subject: "fleet-default/harbour", Title: "Upgrade harbour", Created: at(1)}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := o.To(operations.Failed, "pier-2 is full", at(5))
	if err != nil {
		t.Fatal(err)
	}
	change := store.Event[operations.Operation]{Type: store.Put, Key: o.Key(), Revision: 7, Value: o}
	want = records.Event{Revision: 7, At: at(1), ClusterID: "c-m-1", Kind: "operation", Key: "fleet-default/harbour/op-1", Name: "op-1", To: "running", Cause: "Upgrade harbour"}
	got, ok = ofOperation(change, "c-m-1", now)
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Error(ok, diff)
	}
	change.Value, change.Old = ended, &o
	want.At, want.From, want.To, want.Cause = at(5), "running", "failed", "pier-2 is full"
	got, ok = ofOperation(change, "c-m-1", now)
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Error(ok, diff)
	}
	change.Value = o.WithTask(operations.Task{ID: "m", State: operations.TaskSucceeded}, at(2))
	if e, ok := ofOperation(change, "c-m-1", now); ok {
		t.Errorf("a task is an event: %+v", e)
	}
}

// A warning is an event though the cluster's state stays.
func TestWarningsOfClusters(t *testing.T) {
	cluster := func(w records.Warning) *records.Cluster {
		return &records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "yard"}, ID: "c-abcde", Status: records.ClusterStatus{State: "active", Since: at(1), Warning: w}}
	}
	ending := records.Warning{Code: "certificates-ending", Cause: "kube-node ends", NextStep: "rotate"}
	for name, c := range map[string]struct {
		before, after records.Warning
		want          string
	}{
		"a new one":   {records.Warning{}, ending, "certificates-ending: kube-node ends"},
		"another one": {ending, records.Warning{Code: "certificates-ended", Cause: "kube-node ended"}, "certificates-ended: kube-node ended"},
		"the same":    {ending, records.Warning{Code: ending.Code, Cause: "in other words"}, ""},
		"over":        {ending, records.Warning{}, ""},
	} {
		made, is := ofCluster(store.Event[records.Cluster]{Revision: 7, Type: store.Put, Old: cluster(c.before), Value: *cluster(c.after)}, func() time.Time { return at(60) })
		got := ""
		if is {
			got = made.Code + ": " + made.Cause
		}
		if got != c.want || is && (made.From != "active" || made.To != "active" || !made.At.Equal(at(60))) {
			t.Errorf("%s: %+v", name, made)
		}
	}
}

// TestRehearsals: each end of a rehearsal is an event, and each reason for which one does not begin.
func TestRehearsals(t *testing.T) {
	good := &records.RehearsalEnd{Operation: "op-1", State: "succeeded", At: at(1), Snapshot: "one", Counted: "3 nodes"}
	bad := &records.RehearsalEnd{Operation: "op-2", State: "failed", At: at(2), Snapshot: "two", Cause: "it was cut"}
	held := &records.HeldRehearsal{Why: "no machine is free", At: at(3)}
	for _, c := range []struct {
		name          string
		before, after *records.Rehearsals
		deleted       bool
		want          *records.Event
	}{
		{name: "a schedule", after: &records.Rehearsals{Every: time.Hour}},
		{name: "the first that ends", after: &records.Rehearsals{Last: good}, want: &records.Event{At: at(1), Name: "one", To: "succeeded", Cause: "3 nodes"}},
		{name: "one that fails", before: &records.Rehearsals{Last: good}, after: &records.Rehearsals{Last: bad, Good: good}, want: &records.Event{At: at(2), Name: "two", To: "failed", Cause: "it was cut"}},
		{name: "it is held up", before: &records.Rehearsals{Last: bad}, after: &records.Rehearsals{Last: bad, Held: held}, want: &records.Event{At: at(3), Name: "harbour", To: "held up", Cause: "no machine is free"}},
		{name: "it is held up still", before: &records.Rehearsals{Held: held}, after: &records.Rehearsals{Held: &records.HeldRehearsal{Why: held.Why, At: held.At}, Every: time.Hour}},
		{name: "nothing is in its way", before: &records.Rehearsals{Last: bad, Held: held}, after: &records.Rehearsals{Last: bad}},
		{name: "the cluster goes", after: &records.Rehearsals{Last: bad}, deleted: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := store.Event[records.Rehearsals]{Revision: 7, Key: "fleet-default/harbour", Type: store.Put, Value: *c.after, Old: c.before}
			if c.deleted {
				e.Type = store.Deleted
			}
			got, is := ofRehearsals(e, records.Cluster{Object: records.Object{Name: "harbour"}, ID: "c-m-1"})
			if is != (c.want != nil) {
				t.Fatalf("an event: %v, %+v", is, got)
			}
			if !is {
				return
			}
			c.want.Revision, c.want.ClusterID, c.want.Kind, c.want.Key = 7, "c-m-1", "rehearsal", "fleet-default/harbour"
			if diff := cmp.Diff(*c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRightsChangedByHand: an event when something begins to differ, and when nothing does any more.
func TestRightsChangedByHand(t *testing.T) {
	kept := records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "harbour"}, ID: "c-m-1", Status: records.ClusterStatus{State: "active", Since: at(1)}}
	changed := kept
	changed.Differs = &records.Differs{Since: at(5), What: []string{"cluster role rt-1 was changed"}, Count: 3}
	now := func() time.Time { return at(60) }
	for name, c := range map[string]struct {
		before, after   records.Cluster
		from, to, cause string
	}{
		"it differs":        {kept, changed, RightsKept, RightsDiffer, "cluster role rt-1 was changed; and 2 more"},
		"it is as it was":   {changed, kept, RightsDiffer, RightsKept, ""},
		"nothing new of it": {changed, changed, "", "", ""},
	} {
		e, ok := ofCluster(store.Event[records.Cluster]{Type: store.Put, Key: "fleet-default/harbour", Revision: 7, Value: c.after, Old: &c.before}, now)
		if ok != (c.to != "") {
			t.Errorf("%s: an event %v", name, ok)
		}
		if ok && (e.Kind != records.EventOfRights || e.From != c.from || e.To != c.to || e.Cause != c.cause || !e.At.Equal(at(60))) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
