package requests

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/harbour"
)

const key = harbour.Key

var noon = harbour.Noon

// bench is a store with what is asked of it.
type bench struct {
	*harbour.Bench
	asker etcdops.Service
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s := harbour.New(t)
	return &bench{Bench: s, asker: etcdops.Service{State: s.State, Now: func() time.Time { return noon }}}
}

// document changes what the cluster's document asks for once.
func (b *bench) document(r clusterspec.Requests) {
	b.Helper()
	if _, err := b.Clusters.Modify(b.Context(), string(key), func(c records.Cluster) (records.Cluster, error) {
		rke := *c.Spec.RKEConfig
		rke.Requests = r
		c.Spec.RKEConfig = &rke
		return c, nil
	}); err != nil {
		b.Fatal(err)
	}
}

// ends ends the operation that runs.
func (b *bench) ends(to operations.State) {
	b.Helper()
	o, ok := operations.Active(string(key), b.OperationsOf(key))
	if !ok {
		b.Fatal("nothing runs")
	}
	d, _ := b.Operations.Get(o.Key())
	ended, err := o.To(to, "for a reason", noon)
	if err != nil {
		b.Fatal(err)
	}
	d.Value = ended
	b.Must(b.Operations.Update(b.Context(), d))
}

// reconciled has a cluster looked at; nothing may fail.
func reconciled(t *testing.T, r *Controller) {
	t.Helper()
	if _, err := r.reconcile(t.Context(), string(key)); err != nil {
		t.Fatal(err)
	}
}

// TestADocumentAsksOnce for each value, whatever server looks and how often; what became of it stands in the cluster.
func TestADocumentAsksOnce(t *testing.T) {
	b := newBench(t)
	b.Snapshot("one", "m2", nil)
	r := &Controller{Asker: &b.asker, Logger: slog.New(slog.DiscardHandler)}
	look := func() {
		for range 3 {
			reconciled(t, r)
		}
	}
	kinds := func() (all []string) {
		for _, o := range b.OperationsOf(key) {
			all = append(all, string(o.Kind)+" "+string(o.State))
		}
		return all
	}
	is := func(kind operations.Kind) records.Requested {
		d, _ := b.Clusters.Get(string(key))
		return d.Value.Requests[kind]
	}
	b.document(clusterspec.Requests{ETCDSnapshotCreate: &clusterspec.ETCDSnapshotCreate{}, RotateCertificates: &clusterspec.RotateCertificates{}})
	if look(); len(kinds()) != 0 {
		t.Errorf("values of nothing begin %q", kinds())
	}
	b.document(clusterspec.Requests{ETCDSnapshotCreate: &clusterspec.ETCDSnapshotCreate{Generation: 1}})
	look()
	if diff := cmp.Diff([]string{"snapshot running"}, kinds()); diff != "" || is(operations.KindSnapshot).Phase != records.RequestStarted {
		t.Error(diff, is(operations.KindSnapshot))
	}
	b.ends(operations.Succeeded)
	look()
	if len(kinds()) != 1 || is(operations.KindSnapshot).Phase != records.RequestFinished {
		t.Errorf("after its end: %q, %+v", kinds(), is(operations.KindSnapshot))
	}
	b.document(clusterspec.Requests{
		ETCDSnapshotCreate: &clusterspec.ETCDSnapshotCreate{Generation: 2}, ETCDSnapshotRestore: &clusterspec.ETCDSnapshotRestore{Name: "one", Generation: 7, RestoreRKEConfig: etcdops.ModeVersion},
		RotateCertificates: &clusterspec.RotateCertificates{Generation: 1, Services: []string{"admin"}}, RotateEncryptionKeys: &clusterspec.RotateEncryptionKeys{Generation: 1},
	})
	look()
	all := b.OperationsOf(key)
	if len(all) != 5 {
		t.Fatalf("there are %q", kinds())
	}
	for _, o := range all {
		request, err := steps.ReadRequest(o)
		if err != nil || o.Kind == operations.KindRestore && (request.Target != "m2" || request.Spec.KubernetesVersion != "v1.34.3+k3s1") || o.Kind == operations.KindRotateCertificates && len(request.Services) != 1 {
			t.Errorf("%s is %+v, %v", o.Kind, request, err)
		}
	}
	b.ends(operations.Failed)
	look()
	if got := is(operations.KindSnapshot); got.Phase != records.RequestFailed || got.Message != "for a reason" {
		t.Errorf("after a failure: %+v", got)
	}
	// The same generation with other services asks for nothing, and neither does what goes, but for its next time.
	b.document(clusterspec.Requests{RotateCertificates: &clusterspec.RotateCertificates{Generation: 1}})
	if look(); len(kinds()) != 5 || is(operations.KindSnapshot).Value != "" || is(operations.KindRotateCertificates).Value == "" {
		t.Errorf("%q, %+v", kinds(), is(operations.KindSnapshot))
	}
}

// TestADocumentThatCannotBeFollowed is refused with a sentence, once.
func TestADocumentThatCannotBeFollowed(t *testing.T) {
	b := newBench(t)
	r := &Controller{Asker: &b.asker, Logger: slog.New(slog.DiscardHandler)}
	b.document(clusterspec.Requests{ETCDSnapshotRestore: &clusterspec.ETCDSnapshotRestore{Name: "two", Generation: 1}})
	reconciled(t, r)
	d, _ := b.Clusters.Get(string(key))
	if is := d.Value.Requests[operations.KindRestore]; is.Phase != records.RequestFailed || !strings.Contains(is.Message, `has no snapshot "two"`) {
		t.Errorf("it says %+v", is)
	}
	revision := b.Store.Revision()
	if reconciled(t, r); b.Store.Revision() != revision {
		t.Error("it was refused again")
	}
}

// TestADocumentWaits for a cluster that can be changed, and for the end of a restore, which nothing but another one brings; it is not said
// to have failed meanwhile.
func TestADocumentWaits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*records.Cluster)
		kinds  int // that begin
	}{
		"nothing stands in the way":         {func(*records.Cluster) {}, 2},
		"a restore has not come to its end": {func(c *records.Cluster) { c.Status.Restoring = "op-h4lf0" }, 1},
		"it has not been up":                {func(c *records.Cluster) { c.Status.Initialized = false }, 0},
		"it goes":                           {func(c *records.Cluster) { c.Deleting = noon }, 0},
		"it was handed over":                {func(c *records.Cluster) { c.Exported = &records.Exported{} }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Snapshot("one", "m2", nil)
			b.document(clusterspec.Requests{ETCDSnapshotCreate: &clusterspec.ETCDSnapshotCreate{Generation: 1}, ETCDSnapshotRestore: &clusterspec.ETCDSnapshotRestore{Name: "one", Generation: 1}})
			b.Must(b.Clusters.Modify(t.Context(), string(key), func(is records.Cluster) (records.Cluster, error) { c.change(&is); return is, nil }))
			r := &Controller{Asker: &b.asker, Logger: slog.New(slog.DiscardHandler)}
			reconciled(t, r)
			d, _ := b.Clusters.Get(string(key))
			if got := b.OperationsOf(key); len(got) != c.kinds || len(d.Value.Requests) != c.kinds {
				t.Errorf("there are %+v; noted is %+v", got, d.Value.Requests)
			}
		})
	}
}

// TestADocumentIsFollowedOnce: what another server has begun a moment ago is neither begun again nor said to have failed.
func TestADocumentIsFollowedOnce(t *testing.T) {
	b := newBench(t)
	r := &Controller{Asker: &b.asker, Logger: slog.New(slog.DiscardHandler)}
	b.document(clusterspec.Requests{RotateCertificates: &clusterspec.RotateCertificates{Generation: 1}})
	before, _ := b.Clusters.Get(string(key))
	ask := due(before.Value)[0]
	reconciled(t, r)
	ask.Turn = admission.Queue
	if _, err := b.asker.Begin(t.Context(), key, ask); err == nil || !strings.Contains(err.Error(), "was asked for that before") || len(b.OperationsOf(key)) != 1 {
		t.Errorf("once more: %v", err)
	}
	started, _ := b.Clusters.Get(string(key))
	b.ends(operations.Succeeded)
	reconciled(t, r)
	// A generation counts on, whether or not the document has it.
	b.document(clusterspec.Requests{})
	reconciled(t, r)
	b.document(clusterspec.Requests{RotateCertificates: &clusterspec.RotateCertificates{Generation: 1}})
	reconciled(t, r)
	if all := b.OperationsOf(key); len(all) != 1 {
		t.Errorf("the same generation begins %d operations", len(all))
	}
	// Who has looked before the next request began says nothing of it.
	old := started
	b.Must(b.Clusters.Modify(t.Context(), string(key), func(c records.Cluster) (records.Cluster, error) {
		c.Requests = map[operations.Kind]records.Requested{operations.KindRotateCertificates: {Value: "another", Operation: "op-2", Phase: records.RequestStarted}}
		return c, nil
	}))
	if err := r.follow(t.Context(), key, old.Value); err != nil {
		t.Fatal(err)
	}
	if now, _ := b.Clusters.Get(string(key)); now.Value.Requests[operations.KindRotateCertificates].Phase != records.RequestStarted {
		t.Errorf("it says %+v", now.Value.Requests)
	}
}

// TestWhatBecame of a request whose operation is not known, and of one that another server has begun.
func TestWhatBecame(t *testing.T) {
	b := newBench(t)
	b.document(clusterspec.Requests{RotateCertificates: &clusterspec.RotateCertificates{Generation: 1}})
	d, _ := b.Clusters.Get(string(key))
	ask := due(d.Value)[0]
	c := &Controller{Asker: &b.asker, Logger: slog.New(slog.DiscardHandler)}
	for range 2 {
		if waits, err := c.begin(t.Context(), key, ask); waits != "" || err != nil {
			t.Fatal(waits, err)
		}
		if d, _ = b.Clusters.Get(string(key)); d.Value.Requests[ask.Kind].Phase != records.RequestStarted {
			t.Errorf("it says %+v", d.Value.Requests)
		}
	}
	none := func(string) (operations.Operation, bool) { return operations.Operation{}, false }
	if is, keep := became(d.Value, ask.Kind, none); !keep || is.Phase != records.RequestFailed || is.Message != "its operation is not known any more" {
		t.Errorf("%v, %+v", keep, is)
	}
}
