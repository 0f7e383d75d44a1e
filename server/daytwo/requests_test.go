package daytwo

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/clusterspec/etcdspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner/ops"
	"github.com/drover-project/drover/server/records"
)

// document changes what the cluster's document asks for once.
func (b *bench) document(r etcdspec.Requests) {
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
	b.must(b.Operations.Update(b.Context(), d))
}

// reconciled has a cluster looked at; nothing may fail.
func reconciled(t *testing.T, r *Requests) {
	t.Helper()
	if _, err := r.reconcile(t.Context(), string(key)); err != nil {
		t.Fatal(err)
	}
}

// TestADocumentAsksOnce for each value, whatever server looks and how often; what became of it stands in the cluster.
func TestADocumentAsksOnce(t *testing.T) {
	b := newBench(t)
	b.snapshot("one", "m2", nil)
	r := &Requests{Asker: &b.asker, Logger: slog.New(slog.DiscardHandler)}
	look := func() {
		for range 3 {
			reconciled(t, r)
		}
	}
	kinds := func() (all []string) {
		for _, o := range b.OperationsOf(key) {
			all = append(all, o.Kind+" "+string(o.State))
		}
		return all
	}
	is := func(kind string) records.Requested {
		d, _ := b.Clusters.Get(string(key))
		return d.Value.Requests[kind]
	}
	b.document(etcdspec.Requests{ETCDSnapshotCreate: &etcdspec.ETCDSnapshotCreate{}, RotateCertificates: &etcdspec.RotateCertificates{}})
	if look(); len(kinds()) != 0 {
		t.Errorf("values of nothing begin %q", kinds())
	}
	b.document(etcdspec.Requests{ETCDSnapshotCreate: &etcdspec.ETCDSnapshotCreate{Generation: 1}})
	look()
	if diff := cmp.Diff([]string{"snapshot running"}, kinds()); diff != "" || is(ops.KindSnapshot).Phase != PhaseStarted {
		t.Error(diff, is(ops.KindSnapshot))
	}
	b.ends(operations.Succeeded)
	look()
	if len(kinds()) != 1 || is(ops.KindSnapshot).Phase != PhaseFinished {
		t.Errorf("after its end: %q, %+v", kinds(), is(ops.KindSnapshot))
	}
	b.document(etcdspec.Requests{
		ETCDSnapshotCreate: &etcdspec.ETCDSnapshotCreate{Generation: 2}, ETCDSnapshotRestore: &etcdspec.ETCDSnapshotRestore{Name: "one", Generation: 7, RestoreRKEConfig: ModeVersion},
		RotateCertificates: &etcdspec.RotateCertificates{Generation: 1, Services: []string{"admin"}}, RotateEncryptionKeys: &etcdspec.RotateEncryptionKeys{Generation: 1},
	})
	look()
	all := b.OperationsOf(key)
	if len(all) != 5 {
		t.Fatalf("there are %q", kinds())
	}
	for _, o := range all {
		request, err := ops.ReadRequest(o)
		if err != nil || o.Kind == ops.KindRestore && (request.Target != "m2" || request.Spec.KubernetesVersion != "v1.34.3+k3s1") || o.Kind == ops.KindCertificates && len(request.Services) != 1 {
			t.Errorf("%s is %+v, %v", o.Kind, request, err)
		}
	}
	b.ends(operations.Failed)
	look()
	if got := is(ops.KindSnapshot); got.Phase != PhaseFailed || got.Message != "for a reason" {
		t.Errorf("after a failure: %+v", got)
	}
	// The same generation with other services asks for nothing, and neither does what goes, but for its next time.
	b.document(etcdspec.Requests{RotateCertificates: &etcdspec.RotateCertificates{Generation: 1}})
	if look(); len(kinds()) != 5 || is(ops.KindSnapshot).Value != "" || is(ops.KindCertificates).Value == "" {
		t.Errorf("%q, %+v", kinds(), is(ops.KindSnapshot))
	}
}

// TestADocumentThatCannotBeFollowed is refused with a sentence, once.
func TestADocumentThatCannotBeFollowed(t *testing.T) {
	b := newBench(t)
	r := &Requests{Asker: &b.asker, Logger: slog.New(slog.DiscardHandler)}
	b.document(etcdspec.Requests{ETCDSnapshotRestore: &etcdspec.ETCDSnapshotRestore{Name: "two", Generation: 1}})
	reconciled(t, r)
	d, _ := b.Clusters.Get(string(key))
	if is := d.Value.Requests[ops.KindRestore]; is.Phase != PhaseFailed || !strings.Contains(is.Message, `has no snapshot "two"`) {
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
			b.snapshot("one", "m2", nil)
			b.document(etcdspec.Requests{ETCDSnapshotCreate: &etcdspec.ETCDSnapshotCreate{Generation: 1}, ETCDSnapshotRestore: &etcdspec.ETCDSnapshotRestore{Name: "one", Generation: 1}})
			b.must(b.Clusters.Modify(t.Context(), string(key), func(is records.Cluster) (records.Cluster, error) { c.change(&is); return is, nil }))
			r := &Requests{Asker: &b.asker, Logger: slog.New(slog.DiscardHandler)}
			reconciled(t, r)
			d, _ := b.Clusters.Get(string(key))
			if got := b.OperationsOf(key); len(got) != c.kinds || len(d.Value.Requests) != c.kinds {
				t.Errorf("there are %+v; noted is %+v", got, d.Value.Requests)
			}
		})
	}
}
