package rehearsals

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// clock has the bench live at a time, as a server that was started anew then: nothing but the store is left of before.
func (b *bench) clock(at time.Time) {
	b.Helper()
	b.asker = Service{
		State: b.State, Snapshots: b.asker.Snapshots, Watching: b.asker.Watching, InstallerImage: b.asker.InstallerImage, DefaultRegistry: b.asker.DefaultRegistry,
		Files: b.asker.Files, Server: b.asker.Server, Logger: b.asker.Logger, Now: func() time.Time { return at },
	}
}

// idle has the machine s2 wait for a plan, as it does when its agent has come.
func (b *bench) idle(state records.MachineState) {
	b.Helper()
	b.must(b.Machines.Modify(b.Context(), "drover-fleets/s2", func(m records.Machine) (records.Machine, error) { m.Status.State = state; return m, nil }))
}

// scheduled has rehearsals every six hours.
func (b *bench) scheduled() {
	b.Helper()
	b.idle(records.WaitingForPlan)
	b.must(nil, b.asker.SetPlan(b.Context(), key, Plan{Every: 6 * time.Hour, Fleet: "spare", By: "user-a"}))
}

// looks has the leader look twice, as what it did the first time must not be done again, and returns what there is.
func (b *bench) looks() (under []operations.Operation, kept records.Rehearsals) {
	b.Helper()
	for range 2 {
		b.must(nil, b.asker.look(b.Context()))
	}
	d, _ := b.State.Rehearsals.Get(string(key))
	for _, o := range b.OperationsOf("drover-fleets/spare") {
		if !o.State.Ended() {
			under = append(under, o)
		}
	}
	return under, d.Value
}

// ends has the one operation end at a time, with what its machine counted, or with a cause.
func (b *bench) ends(o operations.Operation, at time.Time, counted, cause string) {
	b.Helper()
	b.must(b.Operations.Modify(b.Context(), o.Key(), func(o operations.Operation) (operations.Operation, error) {
		work := operations.Task{ID: steps.TaskRehearse, State: operations.TaskSucceeded, Message: counted}
		to := operations.Succeeded
		if cause != "" {
			work.State, work.Message, to = operations.TaskFailed, cause, operations.Failed
		}
		return o.WithTask(work, at).To(to, cause, at)
	}))
}

// TestAScheduledRehearsal begins when it is due, once, and the next one when the last has ended and its time has come.
func TestAScheduledRehearsal(t *testing.T) {
	b := newBench(t)
	b.scheduled()
	under, kept := b.looks()
	if len(under) != 1 || kept.Last != nil || kept.Held != nil {
		t.Fatalf("%d begin, and %+v is kept", len(under), kept)
	}
	first := under[0]
	if is, err := steps.ReadRehearsal(first); err != nil || is.Snapshot != "fleet-default/harbour/s3/off" || is.Machine != "s2" {
		t.Errorf("it is %+v, %v", is, err)
	}
	b.clock(noon.Add(99 * time.Hour))
	if under, _ = b.looks(); len(under) != 1 || under[0].ID != first.ID {
		t.Fatalf("while it lasts there are %d", len(under))
	}
	b.clock(noon.Add(100 * time.Hour))
	b.ends(first, b.asker.Now(), "3 nodes, 412 objects", "")
	under, kept = b.looks()
	good := records.RehearsalEnd{Operation: first.ID, State: "succeeded", At: b.asker.Now(), Snapshot: "off", Machine: "s2", Counted: "3 nodes, 412 objects"}
	want := records.Rehearsals{Every: 6 * time.Hour, Fleet: "spare", By: "user-a", Since: noon, Last: &good, Good: &good}
	if diff := cmp.Diff(want, kept); diff != "" || len(under) != 0 {
		t.Errorf("%d begin as the last one ends; %s", len(under), diff)
	}
	d, _ := b.Clusters.Get(string(key))
	if s := b.asker.Standing(d.Value); !s.Next.Equal(noon.Add(106*time.Hour)) || s.Waits != "" {
		t.Errorf("it stands at %+v", s)
	}
	b.clock(noon.Add(106*time.Hour - time.Second))
	if under, _ = b.looks(); len(under) != 0 {
		t.Fatal("it begins too early")
	}
	b.clock(noon.Add(300 * time.Hour)) // no server led meanwhile
	if under, _ = b.looks(); len(under) != 1 {
		t.Fatalf("%d begin for all that were missed", len(under))
	}
	b.clock(noon.Add(301 * time.Hour))
	b.ends(under[0], b.asker.Now(), "", "it was cut")
	if _, kept = b.looks(); kept.Last.Cause != "it was cut" || kept.Last.State != "failed" || kept.Good == nil || kept.Good.Operation != first.ID {
		t.Errorf("of one that failed there is kept %+v, %+v", kept.Last, kept.Good)
	}
	b.must(nil, b.asker.SetPlan(t.Context(), key, Plan{}))
	b.clock(noon.Add(900 * time.Hour))
	if under, kept = b.looks(); len(under) != 0 || kept.Good == nil || kept.Every != 0 || kept.Fleet != "" {
		t.Errorf("without a schedule %d begin, and %+v is kept", len(under), kept)
	}
}

// TestAScheduledRehearsalThatIsHeldUp begins when nothing is in its way any more.
func TestAScheduledRehearsalThatIsHeldUp(t *testing.T) {
	operation := func(b *bench, subject string, state operations.State) {
		b.Helper()
		o := operations.Operation{ID: "op-other", Kind: "restore", Subject: subject, State: state, Created: noon}
		if _, there := b.Operations.Get(o.Key()); there {
			b.must(b.Operations.Modify(b.Context(), o.Key(), func(operations.Operation) (operations.Operation, error) { return o, nil }))
			return
		}
		b.must(b.Operations.Create(b.Context(), o.Key(), o))
	}
	for name, c := range map[string]struct {
		hinder, help func(*bench)
		// waits is what is shown, held whether it is kept for people at once.
		waits string
		held  bool
	}{
		"no machine is free": {
			func(b *bench) { b.idle(records.ApplyingPlan) }, func(b *bench) { b.idle(records.Active) }, "no machine of fleet spare can rehearse now: the agent on machine s1 is not connected", true,
		},
		"the cluster is restored": {
			func(b *bench) { operation(b, string(key), operations.Running) }, func(b *bench) { operation(b, string(key), operations.Succeeded) },
			"operation op-other (restore) of cluster harbour is under way", false,
		},
		"the fleet is busy": {
			func(b *bench) { operation(b, "drover-fleets/spare", operations.Running) }, func(b *bench) { operation(b, "drover-fleets/spare", operations.Failed) },
			"operation op-other (restore) of fleet spare is under way", false,
		},
		"no snapshot can be had": {
			func(b *bench) {
				b.asker.Snapshots.Fault = func(records.ClusterKey) string { return "it refuses" }
			},
			func(b *bench) { b.host = has }, "none of the snapshots of cluster harbour can be had; the newest, ", true,
		},
		"the file is gone": {
			func(b *bench) {
				b.asker.Snapshots.Fault = func(records.ClusterKey) string { return "it refuses" }
				b.host = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no file", http.StatusNotFound) }
			},
			func(b *bench) { b.host = has }, "", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.scheduled()
			c.hinder(b)
			d, _ := b.Clusters.Get(string(key))
			if s := b.asker.Standing(d.Value); !strings.HasPrefix(s.Waits, c.waits) {
				t.Errorf("it waits for %q", s.Waits)
			}
			rehearsing := func() (n int) {
				under, _ := b.looks()
				for _, o := range under {
					if o.Kind == operations.KindRehearse {
						n++
					}
				}
				return n
			}
			if n := rehearsing(); n != 0 {
				t.Fatalf("%d begin", n)
			}
			kept, _ := b.State.Rehearsals.Get(string(key))
			if (kept.Value.Held != nil) != c.held {
				t.Errorf("it is held up by %+v", kept.Value.Held)
			}
			b.clock(noon.Add(2 * time.Hour))
			if n := rehearsing(); n != 0 {
				t.Fatalf("%d begin after a while", n)
			}
			if kept, _ = b.State.Rehearsals.Get(string(key)); kept.Value.Held == nil {
				t.Error("nobody hears of one that is held up for hours")
			}
			c.help(b)
			if n := rehearsing(); n != 1 {
				t.Errorf("%d begin when nothing is in the way any more", n)
			}
		})
	}
}

// TestRehearsalsOfAnEarlierCluster of the name, and of files that are no listed snapshots, are not the cluster's.
func TestRehearsalsOfAnEarlierCluster(t *testing.T) {
	b := newBench(t)
	b.clock(noon.Add(-time.Hour))
	o, err := b.asker.Begin(t.Context(), key, Request{Snapshot: "off", Fleet: "spare"})
	b.must(nil, err)
	b.ends(o, noon.Add(-time.Minute), "3 nodes", "")
	b.must(b.Clusters.Modify(t.Context(), string(key), func(c records.Cluster) (records.Cluster, error) { c.Created = noon.Add(-time.Second); return c, nil }))
	b.clock(noon)
	if o, err = b.asker.Begin(t.Context(), key, Request{Snapshot: "/root/other", Fleet: "spare"}); err != nil {
		t.Fatal(err)
	}
	b.ends(o, noon, "3 nodes", "")
	if _, kept := b.looks(); kept.Last != nil {
		t.Errorf("%+v is kept", kept.Last)
	}
}

func TestAScheduleThatIsRefused(t *testing.T) {
	b := newBench(t)
	for want, plan := range map[string]Plan{
		"a rehearsal every 1s is not possible": {Every: time.Second, Fleet: "spare"}, `there is no fleet "none"`: {Every: time.Hour, Fleet: "none"}, `there is no fleet ""`: {Every: time.Hour},
	} {
		err := b.asker.SetPlan(t.Context(), key, plan)
		if _, is := errors.AsType[*admission.InvalidError](err); !is || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", plan, err)
		}
	}
	b.must(b.Clusters.Modify(t.Context(), string(key), func(c records.Cluster) (records.Cluster, error) {
		c.Spec.KubernetesVersion = "v1.34.4+rke2r1"
		return c, nil
	}))
	if err := b.asker.SetPlan(t.Context(), key, Plan{Every: time.Hour, Fleet: "spare"}); err == nil || !strings.Contains(err.Error(), "its Kubernetes API is a pod") {
		t.Errorf("of RKE2: %v", err)
	}
	if _, missing := errors.AsType[*store.NotFoundError](b.asker.SetPlan(t.Context(), "fleet-default/none", Plan{})); !missing {
		t.Error("a cluster that is not there has a schedule")
	}
	if n := len(b.State.Rehearsals.List()); n != 0 {
		t.Errorf("%d schedules are kept", n)
	}
}

// TestTheLeaderIsCalled: one that is asked for begins at once, what has ended is kept at once, and all of it ends with the leadership.
func TestTheLeaderIsCalled(t *testing.T) {
	b := newBench(t)
	b.idle(records.Active)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	_, wait := reconcile.Begin(ctx, b.asker.Worker(), slog.New(slog.DiscardHandler))
	begun, ended := make(chan operations.Operation, 1), make(chan struct{}, 1)
	stop := b.Operations.Observe(func(e store.Event[operations.Operation]) {
		if e.Old == nil {
			begun <- e.Value
		}
	})
	defer stop()
	stopKept := b.State.Rehearsals.Observe(func(e store.Event[records.Rehearsals]) {
		if e.Value.Last != nil {
			ended <- struct{}{}
		}
	})
	defer stopKept()
	b.scheduled()
	o := <-begun
	b.ends(o, noon, "3 nodes", "")
	<-ended
	end()
	wait()
}
