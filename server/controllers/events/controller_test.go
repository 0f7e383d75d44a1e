package events

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/test/bed/reconciletest"
)

// bed is a store with clusters.
type bed struct {
	*testing.T
	dir   string
	state *state.State
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{T: t, dir: t.TempDir()}
	b.open()
	t.Cleanup(b.close)
	return b
}

func (b *bed) open() {
	b.Helper()
	var err error
	if b.state, err = state.Open(b.Context(), store.Options{DataDir: b.dir, UnsafeNoFsync: true}); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) close() {
	if err := b.state.Close(); err != nil {
		b.Error(err)
	}
}

func (b *bed) log() *Log {
	return New(Options{State: b.state, Now: func() time.Time { return noon }, Logger: slog.New(slog.DiscardHandler)})
}

func (b *bed) commit(ops ...store.Op) {
	b.Helper()
	if _, err := b.state.Store.Commit(b.Context(), ops...); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) cluster(name string) {
	b.Helper()
	c := records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: name}, ID: "c-m-" + name}
	b.commit(b.state.Clusters.Creating(c.Key(), c))
}

// machine writes a machine of a cluster in a state.
func (b *bed) machine(cluster, name string, to records.MachineState) store.Op {
	key := "fleet-default/" + name
	if d, ok := b.state.Machines.Get(key); ok {
		d.Value.Status.State = to
		return b.state.Machines.Updating(d)
	}
	return b.state.Machines.Creating(key, records.Machine{
		Object: records.Object{Namespace: "fleet-default", Name: name}, ClusterName: cluster, ClusterID: "c-m-" + cluster,
		Status: records.MachineStatus{Condition: records.Condition{State: to}},
	})
}

func (b *bed) write(l *Log) {
	b.Helper()
	if err := l.write(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) expect(l *Log, cluster string, want ...string) {
	b.Helper()
	got := []string{}
	for _, e := range l.From(cluster, 0) {
		got = append(got, fmt.Sprintf("%s %s→%s", e.Name, e.From, e.To))
	}
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("events: %s", diff)
	}
}

// What happened is shown at once by every server, once, and is still there after a restart.
func TestEventsAreKept(t *testing.T) {
	t.Parallel() // most of the time is waiting for etcd
	b := newBed(t)
	leader, other := b.log(), b.log()
	b.cluster("harbour")
	b.cluster("quay")
	b.commit(b.machine("harbour", "pier-1", records.Registering), b.machine("quay", "crane", records.Registering))
	more := leader.More()
	b.commit(b.machine("harbour", "pier-1", records.Active))
	select {
	case <-more:
	default:
		t.Error("nobody hears of another event")
	}
	o := operations.Operation{ID: "op-1", Subject: "fleet-default/harbour", State: operations.Running}
	b.commit(b.state.Operations.Creating(o.Key(), o))
	want := []string{"harbour →pending", "pier-1 →Registering", "pier-1 Registering→Active", "op-1 →running"}
	for _, l := range []*Log{leader, other} {
		b.expect(l, "c-m-harbour", want...)
	}
	b.write(leader)
	for _, l := range []*Log{leader, other, b.log()} {
		b.expect(l, "c-m-harbour", want...)
		b.expect(l, "c-m-quay", "quay →pending", "crane →Registering")
		if n := len(l.From("", 0)); n != 6 {
			t.Errorf("%d events in all", n)
		}
		if len(l.pending) != 0 {
			t.Errorf("what is written down is to be written again: %v", l.pending)
		}
	}
	// In the moment in which they are written down they are in both places.
	twice := b.log()
	for _, e := range twice.From("c-m-harbour", 0) {
		twice.add(e, true)
	}
	b.expect(twice, "c-m-harbour", want...)
	b.write(twice)
	b.expect(b.log(), "c-m-harbour", want...)
	// The leader goes without having written the next ones; the next leader has seen them.
	b.commit(b.machine("harbour", "pier-1", records.Unavailable))
	before := b.state.Store.Revision()
	b.write(other)
	want = append(want, "pier-1 Active→Unavailable")
	b.expect(b.log(), "c-m-harbour", want...)
	b.write(leader)
	b.write(other)
	if used := b.state.Store.Revision() - before; used != 1 {
		t.Errorf("%d writes of one event", used)
	}
	if pages := b.state.Events.ListIn("c-m-harbour/"); len(pages) != 1 {
		t.Errorf("%d pages of %d events", len(pages), len(want))
	}
	b.close()
	b.open()
	l := b.log()
	b.expect(l, "c-m-harbour", want...)
	b.commit(b.machine("harbour", "pier-1", records.Active))
	last := l.From("c-m-harbour", 0)
	b.write(l)
	if got := l.From("c-m-harbour", last[len(last)-1].Revision); len(got) != 1 || got[0].To != "Active" {
		t.Errorf("from the last revision on: %+v", got)
	}
}

// A cluster's events go with it, those too that were not written down when it went.
func TestRemovedCluster(t *testing.T) {
	t.Parallel() // most of the time is waiting for etcd
	b := newBed(t)
	l := b.log()
	b.cluster("harbour")
	b.cluster("quay")
	b.commit(b.machine("harbour", "pier-1", records.Active))
	b.write(l)
	b.commit(b.state.Clusters.Deleting("fleet-default/harbour", 0), b.state.Machines.Deleting("fleet-default/pier-1", 0))
	b.write(l)
	b.expect(l, "", "quay →pending")
	if len(b.state.Events.ListIn("c-m-harbour/")) != 0 || len(l.pending) != 0 {
		t.Errorf("of the cluster that is removed there are %v and %v", b.state.Events.List(), l.pending)
	}
	// While no server led, none were removed.
	b.commit(b.state.Clusters.Deleting("fleet-default/quay", 0))
	b.write(b.log())
	if all := b.state.Events.List(); len(all) != 0 {
		t.Errorf("the next leader left %v", all)
	}
}

// Thousands of machines that change at once cost a few writes, and only the last of them are kept.
func TestManyAtOnce(t *testing.T) {
	t.Parallel() // most of the time is waiting for etcd
	b := newBed(t)
	l := b.log()
	b.cluster("harbour")
	const all = 3000
	for i := 0; i < all; i += 100 {
		var ops []store.Op
		for j := range 100 {
			ops = append(ops, b.machine("harbour", fmt.Sprintf("m-%06d", i+j), records.Active))
		}
		b.commit(ops...)
	}
	before := b.state.Store.Revision()
	b.write(l)
	if used := b.state.Store.Revision() - before; used != 1 {
		t.Errorf("%d writes", used)
	}
	kept := b.log().From("c-m-harbour", 0)
	if len(kept) != PerCluster || kept[0].Name != fmt.Sprintf("m-%06d", all-PerCluster) {
		t.Errorf("%d are kept", len(kept))
	}
	// More clusters: less for each.
	for i := range 99 {
		b.cluster(fmt.Sprintf("c%d", i))
	}
	b.write(l)
	if n := len(b.log().From("", 0)); n > InAll {
		t.Errorf("%d events in all", n)
	}
	if n := len(l.From("c-m-harbour", 0)); n > InAll/100 || n < InAll/100-fullPage {
		t.Errorf("%d of a hundredth", n)
	}
}

// While this server leads events are written down, and the last ones before leadership is given back.
func TestKeep(t *testing.T) {
	t.Parallel() // most of the time is waiting for etcd
	b := newBed(t)
	b.cluster("harbour")
	l := b.log()
	ctx, cancel := context.WithCancel(t.Context())
	_, wait := reconcile.Begin(ctx, l.Worker(), slog.New(slog.DiscardHandler))
	b.commit(b.machine("harbour", "pier-1", records.Active))
	for deadline := time.After(time.Minute); len(b.state.Events.List()) == 0; {
		select {
		case <-deadline:
			t.Fatal("nothing was written")
		case <-time.After(10 * time.Millisecond):
		}
	}
	b.commit(b.machine("harbour", "pier-2", records.Active))
	cancel()
	wait()
	b.expect(b.log(), "", "pier-1 →Active", "pier-2 →Active")
	b.commit(b.machine("harbour", "pier-3", records.Active))
	b.expect(b.log(), "", "pier-1 →Active", "pier-2 →Active")

	// A server that does not lead any more writes nothing.
	leadership, err := b.state.Store.Campaign(t.Context(), "clusters", "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := leadership.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.write(store.Fenced(t.Context(), leadership)); err == nil {
		t.Error("a server that is deposed has written events")
	}
}

// Events of a revision that this server has seen in part only are not written down in part.
func TestHalfARevision(t *testing.T) {
	t.Parallel() // most of the time is waiting for etcd
	b := newBed(t)
	l := b.log()
	b.cluster("harbour")
	b.write(l)
	next := b.state.Store.Revision() + 1
	l.add(records.Event{Revision: next, ClusterID: "c-m-harbour", Kind: "machine", Key: "a", To: "Active"}, true)
	queue := reconciletest.Record(t, []reconcile.Watch{l.dirty.Watch()})
	b.write(l)
	if pages := b.state.Events.List(); len(pages) != 1 || len(pages[0].Value.Events) != 1 {
		t.Errorf("pages: %+v", pages)
	}
	if len(queue.Take()) == 0 {
		t.Error("the rest is forgotten")
	}
	b.commit(b.state.Settings.Creating("a", records.Setting{Name: "a"}))
	b.write(l)
	b.expect(l, "", "harbour →pending", " →Active")
}
