package daytwo

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drover-project/drover/server/clusterspec/etcdspec"
	"github.com/drover-project/drover/server/objects"
	"github.com/drover-project/drover/server/offsite"
	"github.com/drover-project/drover/server/planner/ops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/bed/reconciletest"
	"github.com/drover-project/drover/test/s3server"
)

// spec changes the cluster's bucket.
func (b *bench) bucket(s *etcdspec.S3) {
	b.Helper()
	_, err := b.Clusters.Modify(b.Context(), string(key), func(c records.Cluster) (records.Cluster, error) {
		rke := *c.Spec.RKEConfig
		rke.ETCD = &etcdspec.ETCD{S3: s}
		c.Spec.RKEConfig = &rke
		c.Generation++
		if c.Granted = nil; s != nil {
			place := s.Place()
			c.Granted = map[string]records.Granted{"Secret/fleet-default/keys": {UID: "uid-keys", Bucket: &place}}
		}
		return c, nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// keys is the Secret with the keys of a bucket.
func (b *bench) keys(access, secret string) {
	b.Helper()
	o := objects.Object{Kind: objects.Secret, UID: "uid-keys", Metadata: objects.Metadata{Namespace: "fleet-default", Name: "keys"}, Data: map[string][]byte{
		"s3credentialConfig-accessKey": []byte(access), "s3credentialConfig-secretKey": []byte(secret),
	}}
	if d, ok := b.Objects.Get(o.Key()); ok {
		d.Value = o
		b.must(b.Objects.Update(b.Context(), d))
		return
	}
	b.must(b.Objects.Create(b.Context(), o.Key(), o))
}

// TestTheClusterGetsItsBucket by its own API, once for each change, and loses it with its settings.
func TestTheClusterGetsItsBucket(t *testing.T) {
	b := newBench(t)
	client := fake.NewClientset()
	m := &Mirror{State: b.State, Client: func(records.ClusterKey) (kubernetes.Interface, error) { return client, nil }, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
	secret := func() map[string][]byte {
		t.Helper()
		client.ClearActions()
		if err := m.deliver(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		s, err := client.CoreV1().Secrets(offsite.SecretNamespace).Get(t.Context(), offsite.SecretName, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return s.Data
	}
	if got := secret(); got != nil {
		t.Errorf("without a bucket there is %q", got)
	}
	b.keys("AKIA", "hush")
	b.bucket(&etcdspec.S3{Bucket: "harbour", CloudCredentialName: "fleet-default:keys"})
	if got := secret(); string(got["etcd-s3-secret-key"]) != "hush" || string(got["etcd-s3-bucket"]) != "harbour" {
		t.Errorf("it gets %d values", len(got))
	}
	if secret(); len(client.Actions()) != 2 { // both only look
		t.Errorf("an unchanged one: %v", client.Actions())
	}
	b.keys("AKIA", "hush-2")
	if got := secret(); string(got["etcd-s3-secret-key"]) != "hush-2" {
		t.Error("a new key does not reach it")
	}
	b.bucket(nil)
	if got := secret(); got != nil {
		t.Error("the keys stay in a cluster without a bucket")
	}
	own := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: offsite.SecretName, Namespace: offsite.SecretNamespace}}
	if _, err := client.CoreV1().Secrets(offsite.SecretNamespace).Create(t.Context(), own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := secret(); got == nil && len(client.Actions()) != 2 {
		t.Errorf("somebody else's is removed: %v", client.Actions())
	}
}

// real is a real S3 server with what k3s has put there.
func real(t *testing.T) (end func() error, settings etcdspec.S3, put func(name, token string, size int)) {
	t.Helper()
	s, ca, err := s3server.StartTLS(t.Context(), s3server.Options{Module: "../..", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	end = sync.OnceValue(s.Close)
	t.Cleanup(func() { _ = end() })
	if err := s.MakeBucket("harbour"); err != nil {
		t.Fatal(err)
	}
	place := offsite.Place{S3: etcdspec.S3{Endpoint: s.Endpoint, EndpointCA: string(ca), Bucket: "harbour", Region: "us-east-1", Folder: "a"}, AccessKey: s3server.AccessKey, SecretKey: s3server.SecretKey}
	settings = place.S3
	settings.CloudCredentialName = "fleet-default:keys"
	return end, settings, func(name, token string, size int) {
		t.Helper()
		client, err := minio.New(s.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(s3server.AccessKey, s3server.SecretKey, ""), Secure: true, Region: "us-east-1", Transport: trusting(t, ca)})
		if err != nil {
			t.Fatal(err)
		}
		meta := map[string]string{}
		if token != "" {
			meta["K3s-Token-Hash"], meta["K3s-Node-Name"] = token, "pier-m1"
		}
		if _, err := client.PutObject(t.Context(), "harbour", name, bytes.NewReader(make([]byte, size)), int64(size), minio.PutObjectOptions{UserMetadata: meta}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatIsInTheBucket is known also when the cluster is lost, and each says whether it can be restored and why not.
func TestWhatIsInTheBucket(t *testing.T) {
	b := newBench(t)
	end, settings, put := real(t)
	b.keys(s3server.AccessKey, s3server.SecretKey)
	b.bucket(&settings)
	at := noon.Add(-2 * time.Minute).Unix()
	own := ops.TokenHash("word")
	put(fmt.Sprintf("a/on-demand-pier-m1-%d", at), own, 4128)
	put("a/etcd-snapshot-pier-m9-1700000000", own, 4128)
	put("a/etcd-snapshot-other-1700000001", "ffffffffffff", 4128)
	put("a/readme.txt", "", 10)
	put("a/.metadata/etcd-snapshot-pier-m9-1700000000", "", 10)
	put("b/etcd-snapshot-pier-m1-1700000002", own, 10)
	b.snapshot(fmt.Sprintf("on-demand-pier-m1-%d", at), "m1", func(s *records.Snapshot) { s.By, s.SHA256, s.Size, s.Node = "op-1", "aa", 4128, "pier-m1" })
	m := &Mirror{State: b.State, Client: func(records.ClusterKey) (kubernetes.Interface, error) { return nil, errors.New("no tunnel") }, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
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
	for _, c := range []struct {
		request ops.Request
		mode    string
		want    string
		machine string
		s3      bool
	}{
		{ops.Request{Snapshot: fmt.Sprintf("on-demand-pier-m1-%d", at)}, "", "", "m1", false},
		{ops.Request{Snapshot: fmt.Sprintf("on-demand-pier-m1-%d", at), Target: "m2"}, "", "", "m2", true},
		{ops.Request{Snapshot: "etcd-snapshot-pier-m9-1700000000"}, "", "", "m1", true},
		{ops.Request{Snapshot: "s3://harbour/a/etcd-snapshot-pier-m9-1700000000", Target: "m2"}, "", "", "m2", true},
		{ops.Request{Snapshot: "etcd-snapshot-pier-m9-1700000000", Target: "m9"}, "", "has no machine m9 with etcd", "", true},
		{ops.Request{Snapshot: "etcd-snapshot-pier-m9-1700000000"}, ModeVersion, "does not know what the cluster was", "", true},
		{ops.Request{Snapshot: "etcd-snapshot-other-1700000001"}, "", "another server token", "", true},
	} {
		ask := Ask{Kind: ops.KindRestore, Request: c.request, Mode: c.mode, Foreign: true}
		d, _ := b.Clusters.Get(string(key))
		err := b.asker.fits(d.Value, &ask)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v", c.request, err)
		case c.want == "" && (err != nil || ask.Request.Target != c.machine || ask.Request.FromS3 != c.s3 || c.s3 && (ask.Request.Size != 4128 || strings.Contains(ask.Request.Snapshot, "/"))):
			t.Errorf("%+v: %v, %+v", c.request, err, ask.Request)
		}
	}
	b.keys(s3server.AccessKey, "wrong")
	if got := shown(); len(got) != 4 || !strings.Contains(got[2], "SignatureDoesNotMatch") {
		t.Errorf("with other keys: %q", got)
	}
	b.keys(s3server.AccessKey, s3server.SecretKey)
	settings.EndpointCA = ""
	b.bucket(&settings)
	if got := shown(); len(got) != 4 || !strings.Contains(got[2], "its certificate is not of an authority that is known here") {
		t.Errorf("without its CA: %q", got)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if got := shown(); len(got) != 4 || !strings.Contains(got[2], "nothing listens there") || got[0] != local {
		t.Errorf("while nothing listens: %q", got)
	}
	b.bucket(nil)
	if got := shown(); !strings.Contains(got[2], "the cluster has no bucket any more") {
		t.Errorf("without settings: %q", got)
	}
}

// TestAnotherClustersSnapshotsAreNotShown: what is in a bucket that several clusters share, and was taken with none of the cluster's
// server tokens, is neither listed, restored, handed out nor rehearsed for people who may not read the keys.
func TestAnotherClustersSnapshotsAreNotShown(t *testing.T) {
	b := newBench(t)
	_, settings, put := real(t)
	b.keys(s3server.AccessKey, s3server.SecretKey)
	b.bucket(&settings)
	put("a/etcd-snapshot-pier-m1-1700000000", ops.TokenHash("word"), 4128)
	put("a/etcd-snapshot-other-1700000001", "ffffffffffff", 4128)
	put("a/etcd-snapshot-unknown-1700000002", "", 4128)
	m := &Mirror{State: b.State, Client: func(records.ClusterKey) (kubernetes.Interface, error) { return nil, errors.New("no tunnel") }, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
	_ = m.Refresh(t.Context(), key)
	d, _ := b.Clusters.Get(string(key))
	names := func(foreign bool) (all []string) {
		for _, s := range Known(b.State, d.Value, foreign) {
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
	files := &Files{State: b.State}
	for _, name := range []string{"etcd-snapshot-other-1700000001", "etcd-snapshot-unknown-1700000002"} {
		ask := Ask{Kind: ops.KindRestore, Request: ops.Request{Snapshot: name}}
		if err := b.asker.fits(d.Value, &ask); err == nil || !strings.Contains(err.Error(), "has no snapshot") {
			t.Errorf("restore of %s: %v", name, err)
		}
		if f, err := files.Open(t.Context(), d.Value, FileWish{Snapshot: name}); err == nil {
			f.Close()
			t.Errorf("%s is handed out", name)
		}
	}
}

// TestNothingIsSignedForAnEndpointOfOnesOwn: who names the keys of somebody else's bucket beside an endpoint of their own learns nothing there.
func TestNothingIsSignedForAnEndpointOfOnesOwn(t *testing.T) {
	b := newBench(t)
	var asked atomic.Int32
	evil := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(evil.Close)
	b.keys("AKIA", "hush")
	b.bucket(&etcdspec.S3{Endpoint: strings.TrimPrefix(evil.URL, "https://"), SkipSSLVerify: true, Bucket: "harbour", CloudCredentialName: "fleet-default:keys"})
	m := &Mirror{State: b.State, Client: func(records.ClusterKey) (kubernetes.Interface, error) { return nil, errors.New("no tunnel") }, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
	for name, granted := range map[string]map[string]records.Granted{
		"no right":                       nil,
		"a right for its own place":      {"Secret/fleet-default/keys": {UID: "uid-keys"}},
		"a right to another of its name": {"Secret/fleet-default/keys": {UID: "uid-before", Bucket: &etcdspec.S3{}}},
	} {
		if _, err := b.Clusters.Modify(t.Context(), string(key), func(c records.Cluster) (records.Cluster, error) {
			c.Granted = granted
			return c, nil
		}); err != nil {
			t.Fatal(err)
		}
		_ = m.Refresh(t.Context(), key)
		d, _ := b.Clusters.Get(string(key))
		place, _, err := PlaceOf(b.State, d.Value)
		if err == nil || place.AccessKey != "" || asked.Load() != 0 {
			t.Errorf("%s: %v, and %d requests", name, err, asked.Load())
		}
	}
}

// TestWhatTheClusterListsOfS3 counts where the server has no keys of the bucket itself.
func TestWhatTheClusterListsOfS3(t *testing.T) {
	b := newBench(t)
	b.bucket(&etcdspec.S3{Bucket: "harbour", Endpoint: "s3.lan"})
	items := []map[string]any{item("away", "s3", "s3://harbour/away"), item("refused", "s3", "")}
	items[0]["metadata"] = map[string]any{"annotations": map[string]string{"etcd.k3s.cattle.io/snapshot-token-hash": "ffffffffffff"}}
	items[1]["status"].(map[string]any)["error"] = map[string]any{"message": "Access Denied."}
	m := &Mirror{State: b.State, Client: api(t, &items), Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
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

// TestWhatTheMirrorWatches: another document, another Secret, and operations that begin and end.
func TestWhatTheMirrorWatches(t *testing.T) {
	b := newBench(t)
	m := &Mirror{State: b.State, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
	queue := reconciletest.Record(t, m.watches())
	expect := func(what string, keys ...string) {
		t.Helper()
		if got := queue.Take(); !slices.Equal(got, keys) {
			t.Errorf("%s queues %q", what, got)
		}
	}
	b.bucket(&etcdspec.S3{Bucket: "harbour", CloudCredentialName: "fleet-default:keys"})
	expect("another document", string(key))
	b.keys("AKIA", "hush")
	expect("another Secret", string(key))
	if _, err := b.asker.Begin(t.Context(), key, Ask{Kind: ops.KindCertificates}); err != nil {
		t.Fatal(err)
	}
	expect("an operation", string(key))
	if _, err := b.Clusters.Modify(context.WithoutCancel(t.Context()), string(key), func(c records.Cluster) (records.Cluster, error) {
		c.Status.Message = "x"
		return c, nil
	}); err != nil {
		t.Fatal(err)
	}
	b.must(b.Objects.Create(t.Context(), "ConfigMap/fleet-default/other", objects.Object{Kind: objects.ConfigMap, Metadata: objects.Metadata{Namespace: "fleet-default", Name: "other"}}))
	b.bucket(nil)
	expect("the next document", string(key))
	b.must(b.Clusters.Modify(t.Context(), string(key), func(c records.Cluster) (records.Cluster, error) { c.Status.Message = "y"; return c, nil }))
	expect("a status")
	b.must(b.Objects.Create(t.Context(), "ConfigMap/fleet-default/another", objects.Object{Kind: objects.ConfigMap, Metadata: objects.Metadata{Namespace: "fleet-default", Name: "another"}}))
	expect("an object that no cluster names")
}

func trusting(t *testing.T, ca []byte) *http.Transport {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	web := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(web.CloseIdleConnections)
	return web
}
