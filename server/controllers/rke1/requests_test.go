package rke1

import (
	"errors"
	"strings"
	"testing"

	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/pki/pkitest"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
	"github.com/drover-project/drover/server/rke/desired"
)

// deployed puts a cluster of one host into the store which is what its document says, but for what more there is in it.
func (b *bed) deployed(more string) {
	b.Helper()
	b.cluster()
	spec := clusterspec.RancherKubernetesEngineConfig(`{"network":{"plugin":"canal"},"services":{"etcd":{"snapshot":false}}` + more + `}`)
	if _, err := b.state.Clusters.Modify(b.Context(), key, func(c records.Cluster) (records.Cluster, error) {
		c.Spec.RancherKubernetesEngineConfig = &spec
		return c, nil
	}); err != nil {
		b.Fatal(err)
	}
	s, _ := b.runner.gather(key)
	in := desired.Input{Cluster: s.Cluster, Machines: s.Machines, Versions: s.Versions}
	c, _, err := desired.Config(in)
	if err != nil {
		b.Fatal(err)
	}
	first, _, err := run.Init(run.Work{Config: c}, pkitest.Source(b.clock(), 0))
	if err != nil {
		b.Fatal(err)
	}
	stamp, err := desired.Stamp(in)
	if err != nil {
		b.Fatal(err)
	}
	r, err := rke.Record(records.RKEState{Done: stamp, Since: b.clock()}, first.Deployed())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := b.state.RKEStates.Create(b.Context(), key, r); err != nil {
		b.Fatal(err)
	}
}

// A request of the document that cannot begin fails with nothing changed, is not begun again, and is tried when a user asks.
func TestAWishThatCannotBegin(t *testing.T) {
	b := newBed(t)
	b.deployed(`,"rotateCertificates":{}`)
	stop := b.start()
	defer stop()
	failed := b.await(func(o operations.Operation) bool { return o.State == operations.Failed })
	if failed.Kind != operations.KindRotateCertificates || !strings.Contains(failed.Reason, "nobody is there") || !strings.Contains(failed.Reason, "nothing was changed") {
		t.Errorf("%+v", failed)
	}
	if task, ok := failed.Task("hosts"); !ok || task.State != operations.TaskFailed || task.Message != failed.Reason {
		t.Errorf("%+v", failed.Tasks)
	}
	kept, _ := b.state.RKEStates.Get(key)
	if kept.Value.Carried[operations.KindRotateCertificates] == "" {
		t.Error("the request is not remembered")
	}
	if _, err := b.state.Operations.Modify(t.Context(), failed.Key(), func(o operations.Operation) (operations.Operation, error) { return o.RetryBy("user", nil, b.clock()) }); err != nil {
		t.Fatal(err)
	}
	b.await(func(o operations.Operation) bool { return o.State == operations.Failed && o.Retry == 1 })
	if all := b.state.Operations.List(); len(all) != 1 {
		t.Errorf("%d operations", len(all))
	}
}

// What a person asks for is an operation once it can be carried out, and a snapshot that failed is remembered.
func TestAsk(t *testing.T) {
	b := newBed(t)
	b.deployed("")
	ask := func(w desired.Request, turn admission.Turn) (operations.Operation, error) {
		return b.runner.Ask(t.Context(), key, w, "user", turn)
	}
	for name, c := range map[string]struct {
		request desired.Request
		says    string
	}{
		"no kind":       {desired.Request{Kind: "dance"}, "is not a kind of operation"},
		"no encryption": {desired.Request{Kind: operations.KindRotateKeys}, "no Secret is encrypted: set services.kube-api.secrets_encryption_config.enabled: true in the document, and apply it"},
		"no name":       {desired.Request{Kind: operations.KindRestore}, "is not a valid name"},
	} {
		_, err := ask(c.request, admission.Refuse)
		if refused, is := errors.AsType[*records.RefusedError](err); !is || refused.Cluster != "yard" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	first, err := ask(desired.Request{Kind: operations.KindSnapshot}, admission.Refuse)
	if err != nil || first.State != operations.Running || first.By != "user" {
		t.Fatalf("%v: %+v", err, first)
	}
	if _, err := ask(desired.Request{Kind: operations.KindSnapshot}, admission.Refuse); err == nil || !strings.Contains(err.Error(), first.ID) {
		t.Errorf("a second one in the same moment: %v", err)
	}
	queued, err := ask(desired.Request{Kind: operations.KindRotateCertificates}, admission.Queue)
	if err != nil || queued.State != operations.Queued || desired.ReadParams(queued).Request == nil {
		t.Fatalf("%v: %+v", err, queued)
	}
	stop := b.start()
	defer stop()
	b.await(func(o operations.Operation) bool { return o.ID == first.ID && o.State == operations.Failed })
	kept, _ := b.state.RKEStates.Get(key)
	if all := kept.Value.Snapshots; len(all) != 1 || all[0].Failure == "" || all[0].By != "user" || !all[0].At.Equal(b.clock()) {
		t.Errorf("snapshots: %+v", all)
	}
}

// A snapshot is removed by an operation. While no host can be reached it stays in the list, and a try that failed goes without its
// namesake's archive.
func TestRemovingSnapshots(t *testing.T) {
	b := newBed(t)
	b.deployed("")
	if _, err := b.state.RKEStates.Modify(t.Context(), key, func(r records.RKEState) (records.RKEState, error) {
		r.Snapshots = []records.RKESnapshot{{ID: "first", Name: "one", Failure: "no space", At: b.clock()}, {ID: "second", Name: "one", At: b.clock()}}
		return r, nil
	}); err != nil {
		t.Fatal(err)
	}
	remove := func(w desired.Request) (operations.Operation, error) {
		w.Kind = operations.KindRemoveSnapshot
		return b.runner.Ask(t.Context(), key, w, "user", admission.Refuse)
	}
	if _, err := remove(desired.Request{Snapshot: "two"}); err == nil || !strings.Contains(err.Error(), "it has no snapshot two") {
		t.Errorf("one that is not there: %v", err)
	}
	stop := b.start()
	defer stop()
	for _, c := range []struct {
		id    string
		state operations.State
		left  int
	}{{"first", operations.Succeeded, 1}, {"second", operations.Failed, 1}} {
		o, err := remove(desired.Request{ID: c.id, Snapshot: "one"})
		if err != nil || o.Title != "remove snapshot one of the etcd of cluster yard" {
			t.Fatalf("%s: %v: %+v", c.id, err, o)
		}
		b.await(func(is operations.Operation) bool { return is.ID == o.ID && is.State == c.state })
		if kept, _ := b.state.RKEStates.Get(key); len(kept.Value.Snapshots) != c.left || kept.Value.Snapshots[0].ID != "second" {
			t.Errorf("after %s: %+v", c.id, kept.Value.Snapshots)
		}
	}
}

// A scheduled snapshot is no operation; one that fails is remembered and comes again.
func TestScheduledSnapshots(t *testing.T) {
	b := newBed(t)
	b.deployed("")
	spec := clusterspec.RancherKubernetesEngineConfig(`{"network":{"plugin":"canal"},"services":{"etcd":{"backupConfig":{"intervalHours":1}}}}`)
	s, _ := b.runner.gather(key)
	s.Cluster.Spec.RancherKubernetesEngineConfig = &spec
	before, err := rke.State(s.Record)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.runner.scheduled(t.Context(), s, desired.Decision{Config: before.Current.Config, Before: before}); err != nil {
		t.Fatal(err)
	}
	kept, _ := b.state.RKEStates.Get(key)
	if all := kept.Value.Snapshots; len(all) != 1 || !all[0].Scheduled || !strings.Contains(all[0].Failure, "nobody is there") || !strings.HasPrefix(all[0].Name, "c-abcde-rl-") {
		t.Errorf("snapshots: %+v", all)
	}
	if all := b.state.Operations.List(); len(all) != 0 {
		t.Errorf("operations: %+v", all)
	}
}

// Hosts are asked for a state through their tunnels, and named when they do not answer.
func TestOnHosts(t *testing.T) {
	b := newBed(t)
	if _, err := b.runner.OnHosts(t.Context(), records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "other"}}); err == nil || !strings.Contains(err.Error(), "none of its hosts has a node agent") {
		t.Errorf("without machines: %v", err)
	}
	b.deployed("")
	c, _ := b.state.Clusters.Get(key)
	if _, err := b.runner.OnHosts(t.Context(), c.Value); err == nil || !strings.Contains(err.Error(), "none of the 1 hosts can be looked at") || !strings.Contains(err.Error(), "nobody is there") {
		t.Errorf("a host without a tunnel: %v", err)
	}
}

// An upgrade of which the snapshot cannot be taken has not begun, says so, and tries the same snapshot again; one that
// was taken is the way back.
func TestAnUpgradeBeginsWithASnapshot(t *testing.T) {
	b := newBed(t)
	b.deployed("")
	spec := clusterspec.RancherKubernetesEngineConfig(`{"network":{"plugin":"canal"},"services":{"etcd":{"snapshot":false}},"kubernetesVersion":"v1.30.5-rancher1-1"}`)
	if _, err := b.state.Clusters.Modify(b.Context(), key, func(c records.Cluster) (records.Cluster, error) {
		c.Spec.RancherKubernetesEngineConfig = &spec
		return c, nil
	}); err != nil {
		t.Fatal(err)
	}
	retry := func(operation string) {
		t.Helper()
		if _, err := b.state.Operations.Modify(t.Context(), operation, func(o operations.Operation) (operations.Operation, error) { return o.RetryBy("user", nil, b.clock()) }); err != nil {
			t.Fatal(err)
		}
	}
	stop := b.start()
	o := b.await(func(o operations.Operation) bool { return o.Wait != nil })
	if !strings.Contains(o.Wait.Cause, "before the upgrade, of which nothing was begun (the annotation drover.dev/no-snapshot") || !strings.Contains(o.Wait.Cause, "nobody is there") || strings.Contains(o.Wait.NextStep, "way back") {
		t.Errorf("%+v", o.Wait)
	}
	kept, _ := b.state.RKEStates.Get(key)
	guard := desired.ReadParams(o).Guard
	if all := kept.Value.Snapshots; len(all) != 1 || all[0].Failure == "" || all[0].Name != guard || !strings.HasPrefix(guard, all[0].ID+"_") {
		t.Errorf("snapshots: %+v, want one of %s", all, guard)
	}
	retry(o.Key())
	again := b.await(func(o operations.Operation) bool { p := desired.ReadParams(o); return o.Wait != nil && p.Tries == 2 })
	kept, _ = b.state.RKEStates.Get(key)
	if p := desired.ReadParams(again); p.Guard != guard || len(kept.Value.Snapshots) != 1 {
		t.Errorf("the second try is of %q, snapshots %+v", p.Guard, kept.Value.Snapshots)
	}
	stop()

	// One that was taken is not taken again, and is named as the way back.
	if _, err := b.state.RKEStates.Modify(t.Context(), key, func(r records.RKEState) (records.RKEState, error) {
		r.Snapshots[0].Failure = ""
		return r, nil
	}); err != nil {
		t.Fatal(err)
	}
	retry(o.Key())
	stop = b.start()
	o = b.await(func(o operations.Operation) bool {
		return o.Wait != nil && !strings.Contains(o.Wait.Cause, "before the upgrade")
	})
	if !strings.Contains(o.Wait.NextStep, "the way back is `drover snapshots restore yard "+guard+"`") {
		t.Errorf("%+v", o.Wait)
	}
	stop()
}
