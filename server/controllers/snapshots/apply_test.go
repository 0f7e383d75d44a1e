package snapshots

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/snapshotbucket"
	"github.com/drover-project/drover/test/bed/reconciletest"
	"github.com/drover-project/drover/test/harbour"
	"github.com/drover-project/drover/test/s3server"
)

// TestTheClusterGetsItsBucket by its own API, once for each change, and loses it with its settings.
func TestTheClusterGetsItsBucket(t *testing.T) {
	b := newBench(t)
	client := fake.NewClientset()
	m := &Controller{State: b.State, Client: func(records.ClusterKey) (kubernetes.Interface, error) { return client, nil }, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
	secret := func() map[string][]byte {
		t.Helper()
		client.ClearActions()
		if err := b.deliver(m); err != nil {
			t.Fatal(err)
		}
		s, err := client.CoreV1().Secrets(snapshotbucket.SecretNamespace).Get(t.Context(), snapshotbucket.SecretName, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return s.Data
	}
	if got := secret(); got != nil {
		t.Errorf("without a bucket there is %q", got)
	}
	b.Keys("AKIA", "hush")
	b.Bucket(&clusterspec.S3{Bucket: "harbour", CloudCredentialName: "fleet-default:keys"})
	if got := secret(); string(got["etcd-s3-secret-key"]) != "hush" || string(got["etcd-s3-bucket"]) != "harbour" {
		t.Errorf("it gets %d values", len(got))
	}
	if secret(); len(client.Actions()) != 2 { // both only look
		t.Errorf("an unchanged one: %v", client.Actions())
	}
	b.Keys("AKIA", "hush-2")
	if got := secret(); string(got["etcd-s3-secret-key"]) != "hush-2" {
		t.Error("a new key does not reach it")
	}
	b.Keys("AKIA", "hush-3")
	secrets := schema.GroupResource{Resource: "secrets"}
	for _, c := range []struct {
		fails error
		says  string
	}{{apierrors.NewConflict(secrets, snapshotbucket.SecretName, errors.New("written meanwhile")), ""}, {apierrors.NewForbidden(secrets, snapshotbucket.SecretName, errors.New("no")), "write secret kube-system/" + snapshotbucket.SecretName}} {
		refuse := true
		client.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return refuse, nil, c.fails })
		if err := b.deliver(m); (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.fails, err)
		}
		refuse = false
	}
	b.Bucket(nil)
	if got := secret(); got != nil {
		t.Error("the keys stay in a cluster without a bucket")
	}
	own := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: snapshotbucket.SecretName, Namespace: snapshotbucket.SecretNamespace}}
	if _, err := client.CoreV1().Secrets(snapshotbucket.SecretNamespace).Create(t.Context(), own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := secret(); got == nil && len(client.Actions()) != 2 {
		t.Errorf("somebody else's is removed: %v", client.Actions())
	}
}

// TestWhatIsInTheBucket is known also when the cluster is lost, and each says whether it can be restored and why not.
func TestWhatIsInTheBucket(t *testing.T) {
	b := newBench(t)
	end, settings, put := harbour.S3(t, "../../..")
	b.Keys(s3server.AccessKey, s3server.SecretKey)
	b.Bucket(&settings)
	at := noon.Add(-2 * time.Minute).Unix()
	own := installers.HashServerToken("word")
	put(fmt.Sprintf("a/on-demand-pier-m1-%d", at), own, 4128)
	put("a/etcd-snapshot-pier-m9-1700000000", own, 4128)
	put("a/etcd-snapshot-other-1700000001", "ffffffffffff", 4128)
	put("a/readme.txt", "", 10)
	put("a/.metadata/etcd-snapshot-pier-m9-1700000000", "", 10)
	put("b/etcd-snapshot-pier-m1-1700000002", own, 10)
	b.Snapshot(fmt.Sprintf("on-demand-pier-m1-%d", at), "m1", func(s *records.Snapshot) { s.By, s.SHA256, s.Size, s.Node = "op-1", "aa", 4128, "pier-m1" })
	m := &Controller{State: b.State, Client: func(records.ClusterKey) (kubernetes.Interface, error) { return nil, errors.New("no tunnel") }, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
	b.asker.Fault = m.Fault
	shown := func() (all []string) {
		t.Helper()
		_ = m.Refresh(t.Context(), key)
		for _, d := range b.Snapshots.ListIn(string(key) + "/") {
			v := d.Value
			_, why := b.asker.Restorable(v)
			if i := strings.Index(why, "list what is there"); i >= 0 {
				why = why[i:]
			}
			all = append(all, fmt.Sprintf("%s %s %d %s by %q %s %s", v.Machine, v.Name(), v.Size, v.Created.Format(time.RFC3339), v.By, v.Spec.KubernetesVersion, strings.SplitN(why, "(", 2)[0]))
		}
		return all
	}
	local := fmt.Sprintf("m1 on-demand-pier-m1-%d 4128 2026-01-02T11:00:00Z by \"op-1\" v1.34.3+k3s1 ", at)
	want := []string{
		local,
		`s3 etcd-snapshot-other-1700000001 4128 2023-11-14T22:13:21Z by ""  it was taken with another server token; if you have that, drover clusters token harbour --add FILE brings it`,
		`s3 etcd-snapshot-pier-m9-1700000000 4128 2023-11-14T22:13:20Z by ""  `,
		fmt.Sprintf(`s3 on-demand-pier-m1-%d 4128 2026-01-02T11:58:00Z by "op-1" v1.34.3+k3s1 `, at),
	}
	if diff := cmp.Diff(want, shown()); diff != "" {
		t.Error(diff)
	}
	revision := b.Store.Revision()
	if shown(); b.Store.Revision() != revision {
		t.Error("an unchanged bucket was written down again")
	}
	faulty := b.Snapshots.ListIn(string(key) + "/")[2]
	if _, err := b.Snapshots.Modify(t.Context(), faulty.Key, func(s records.Snapshot) (records.Snapshot, error) { s.Fault = "cannot be read"; return s, nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, shown()); diff != "" {
		t.Errorf("a snapshot that had a fault is not looked at again: %s", diff)
	}
	for _, c := range []struct {
		request steps.Request
		mode    string
		want    string
		machine string
		s3      bool
	}{
		{steps.Request{Snapshot: fmt.Sprintf("on-demand-pier-m1-%d", at)}, "", "", "m1", false},
		{steps.Request{Snapshot: fmt.Sprintf("on-demand-pier-m1-%d", at), Target: "m2"}, "", "", "m2", true},
		{steps.Request{Snapshot: "etcd-snapshot-pier-m9-1700000000"}, "", "", "m1", true},
		{steps.Request{Snapshot: "s3://harbour/a/etcd-snapshot-pier-m9-1700000000", Target: "m2"}, "", "", "m2", true},
		{steps.Request{Snapshot: "etcd-snapshot-pier-m9-1700000000", Target: "m9"}, "", "has no machine m9 with etcd", "", true},
		{steps.Request{Snapshot: "etcd-snapshot-pier-m9-1700000000"}, etcdops.ModeVersion, "does not know what the cluster was", "", true},
		{steps.Request{Snapshot: "etcd-snapshot-other-1700000001"}, "", "another server token", "", true},
	} {
		o, err := b.asker.Draft(key, etcdops.Request{Kind: operations.KindRestore, Request: c.request, Mode: c.mode, Foreign: true})
		asked, _ := steps.ReadRequest(o)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v", c.request, err)
		case c.want == "" && (err != nil || asked.Target != c.machine || asked.FromS3 != c.s3 || c.s3 && (asked.Size != 4128 || strings.Contains(asked.Snapshot, "/"))):
			t.Errorf("%+v: %v, %+v", c.request, err, asked)
		}
	}
	b.Keys(s3server.AccessKey, "wrong")
	if got := shown(); len(got) != 4 || !strings.Contains(got[2], "SignatureDoesNotMatch") {
		t.Errorf("with other keys: %q", got)
	}
	b.Keys(s3server.AccessKey, s3server.SecretKey)
	settings.EndpointCA = ""
	b.Bucket(&settings)
	if got := shown(); len(got) != 4 || !strings.Contains(got[2], "its certificate is not of an authority that is known here") {
		t.Errorf("without its CA: %q", got)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if got := shown(); len(got) != 4 || !strings.Contains(got[2], "nothing listens there") || got[0] != local {
		t.Errorf("while nothing listens: %q", got)
	}
	b.Bucket(nil)
	if got := shown(); !strings.Contains(got[2], "the cluster has no bucket any more") {
		t.Errorf("without settings: %q", got)
	}
}

// TestAnotherClustersSnapshotsAreNotShown: what is in a bucket that several clusters share, and was taken with none of the cluster's
// server tokens, is neither listed, restored, handed out nor rehearsed for people who may not read the keys.
func TestAnotherClustersSnapshotsAreNotShown(t *testing.T) {
	b := newBench(t)
	_, settings, put := harbour.S3(t, "../../..")
	b.Keys(s3server.AccessKey, s3server.SecretKey)
	b.Bucket(&settings)
	put("a/etcd-snapshot-pier-m1-1700000000", installers.HashServerToken("word"), 4128)
	put("a/etcd-snapshot-other-1700000001", "ffffffffffff", 4128)
	put("a/etcd-snapshot-unknown-1700000002", "", 4128)
	m := &Controller{State: b.State, Client: func(records.ClusterKey) (kubernetes.Interface, error) { return nil, errors.New("no tunnel") }, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
	_ = m.Refresh(t.Context(), key)
	d, _ := b.Clusters.Get(string(key))
	names := func(foreign bool) (all []string) {
		for _, s := range etcdops.Known(b.State, d.Value, foreign) {
			if s.Value.Machine == records.SnapshotInS3 {
				all = append(all, s.Value.Name())
			}
		}
		return all
	}
	if got := names(true); len(got) != 3 {
		t.Errorf("who may read the keys sees %q", got)
	}
	if got := names(false); !slices.Equal(got, []string{"etcd-snapshot-pier-m1-1700000000"}) {
		t.Errorf("others see %q", got)
	}
	files := &etcdops.Files{State: b.State}
	for _, name := range []string{"etcd-snapshot-other-1700000001", "etcd-snapshot-unknown-1700000002"} {
		ask := etcdops.Request{Kind: operations.KindRestore, Request: steps.Request{Snapshot: name}}
		if _, err := b.asker.Draft(key, ask); err == nil || !strings.Contains(err.Error(), "has no snapshot") {
			t.Errorf("restore of %s: %v", name, err)
		}
		if f, err := files.Open(t.Context(), d.Value, etcdops.FileRequest{Snapshot: name}); err == nil {
			f.Close()
			t.Errorf("%s is handed out", name)
		}
	}
}

// TestNothingIsSignedForAnEndpointOfOnesOwn: who names the keys of another user's bucket beside an endpoint of their own learns nothing there.
func TestNothingIsSignedForAnEndpointOfOnesOwn(t *testing.T) {
	b := newBench(t)
	var asked atomic.Int32
	evil := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(evil.Close)
	b.Keys("AKIA", "hush")
	b.Bucket(&clusterspec.S3{Endpoint: strings.TrimPrefix(evil.URL, "https://"), SkipSSLVerify: true, Bucket: "harbour", CloudCredentialName: "fleet-default:keys"})
	m := &Controller{State: b.State, Client: func(records.ClusterKey) (kubernetes.Interface, error) { return nil, errors.New("no tunnel") }, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
	for name, granted := range map[string]map[string]records.Granted{
		"no right":                       nil,
		"a right for its own place":      {"Secret/fleet-default/keys": {UID: "uid-keys"}},
		"a right to another of its name": {"Secret/fleet-default/keys": {UID: "uid-before", Bucket: &clusterspec.S3{}}},
	} {
		if _, err := b.Clusters.Modify(t.Context(), string(key), func(c records.Cluster) (records.Cluster, error) {
			c.Granted = granted
			return c, nil
		}); err != nil {
			t.Fatal(err)
		}
		_ = m.Refresh(t.Context(), key)
		d, _ := b.Clusters.Get(string(key))
		place, _, err := etcdops.PlaceOf(b.State, d.Value)
		if err == nil || place.AccessKey != "" || asked.Load() != 0 {
			t.Errorf("%s: %v, and %d requests", name, err, asked.Load())
		}
	}
}

// TestWhatTheClusterListsOfS3 counts where the server has no keys of the bucket itself.
func TestWhatTheClusterListsOfS3(t *testing.T) {
	b := newBench(t)
	b.Bucket(&clusterspec.S3{Bucket: "harbour", Endpoint: "s3.lan"})
	items := []map[string]any{item("away", "s3", "s3://harbour/away"), item("refused", "s3", "")}
	items[0]["metadata"] = map[string]any{"annotations": map[string]string{"etcd.k3s.cattle.io/snapshot-token-hash": "ffffffffffff"}}
	items[1]["status"].(map[string]any)["error"] = map[string]any{"message": "Access Denied."}
	m := &Controller{State: b.State, Client: api(t, &items), Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
	if err := m.Refresh(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"away": "it was taken with another server token; if you have that, drover clusters token harbour --add FILE brings it", "refused": "it could not be taken: Access Denied."} {
		d, ok := b.Snapshots.Get(string(key) + "/s3/" + name)
		if _, why := b.asker.Restorable(d.Value); !ok || why != want {
			t.Errorf("%s: %v, %q", name, ok, why)
		}
	}
}

// TestWhatIsWatched: another document, another Secret, and operations that begin and end.
func TestWhatIsWatched(t *testing.T) {
	b := newBench(t)
	m := &Controller{State: b.State, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
	queue := reconciletest.Record(t, m.watches())
	expect := func(what string, keys ...string) {
		t.Helper()
		if got := queue.Take(); !slices.Equal(got, keys) {
			t.Errorf("%s queues %q", what, got)
		}
	}
	b.Bucket(&clusterspec.S3{Bucket: "harbour", CloudCredentialName: "fleet-default:keys"})
	expect("another document", string(key))
	b.Keys("AKIA", "hush")
	expect("another Secret", string(key))
	if _, err := b.asker.Begin(t.Context(), key, etcdops.Request{Kind: operations.KindRotateCertificates}); err != nil {
		t.Fatal(err)
	}
	expect("an operation", string(key))
	if _, err := b.Clusters.Modify(context.WithoutCancel(t.Context()), string(key), func(c records.Cluster) (records.Cluster, error) {
		c.Status.Message = "x"
		return c, nil
	}); err != nil {
		t.Fatal(err)
	}
	b.Must(b.Objects.Create(t.Context(), "ConfigMap/fleet-default/other", objects.Object{Kind: objects.ConfigMap, Metadata: objects.Metadata{Namespace: "fleet-default", Name: "other"}}))
	b.Bucket(nil)
	expect("the next document", string(key))
	b.Must(b.Clusters.Modify(t.Context(), string(key), func(c records.Cluster) (records.Cluster, error) { c.Status.Message = "y"; return c, nil }))
	expect("a status")
	b.Must(b.Objects.Create(t.Context(), "ConfigMap/fleet-default/another", objects.Object{Kind: objects.ConfigMap, Metadata: objects.Metadata{Namespace: "fleet-default", Name: "another"}}))
	expect("an object that no cluster names")
}
