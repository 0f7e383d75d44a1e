// Package harbour is a store with one cluster of two machines, for tests of what is done on a cluster that runs.
package harbour

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/snapshotbucket"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/test/s3server"
)

// Noon is when tests of it happen.
var Noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// Key is that of the cluster.
const Key = records.ClusterKey("fleet-default/harbour")

// Bench is the store.
type Bench struct {
	*testing.T
	*state.State
}

// New opens a store with the cluster in it, until the test ends.
func New(t *testing.T) *Bench {
	t.Helper()
	s, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	b := &Bench{T: t, State: s}
	cluster := records.Cluster{
		Object: records.Object{Namespace: "fleet-default", Name: "harbour", UID: "u", Generation: 3}, ID: "c-m-h4rb0r55",
		Spec:   clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: &clusterspec.RKEConfig{MachineGlobalConfig: map[string]any{"debug": true}}},
		Status: records.ClusterStatus{Initialized: true},
	}
	b.Must(s.Clusters.Create(t.Context(), string(Key), cluster))
	b.Must(s.ClusterSecrets.Create(t.Context(), string(Key), records.ClusterSecrets{ServerToken: "word"}))
	for _, name := range []string{"m1", "m2"} {
		m := records.Machine{
			Object: records.Object{Namespace: "fleet-default", Name: name, UID: name}, ClusterName: "harbour", NodeName: "pier-" + name, Roles: records.Roles{Etcd: true, ControlPlane: true},
		}
		b.Must(s.Machines.Create(t.Context(), m.Key(), m))
	}
	return b
}

// Must fails the test where something does.
func (b *Bench) Must(_ any, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// Snapshot stores a snapshot on a machine, an hour old; change changes its record before, nil does not.
func (b *Bench) Snapshot(name, machine string, change func(*records.Snapshot)) {
	b.Helper()
	s := records.Snapshot{
		Cluster: Key, Machine: machine, File: "/d/" + name, Size: 1, Created: Noon.Add(-time.Hour), TokenHash: installers.HashServerToken("word"),
		Spec: clusterspec.Spec{KubernetesVersion: "v1.34.3+k3s1", RKEConfig: &clusterspec.RKEConfig{MachineGlobalConfig: map[string]any{"debug": false}}},
	}
	if change != nil {
		change(&s)
	}
	b.Must(b.Snapshots.Create(b.Context(), s.Key(), s))
}

// Bucket gives the cluster another bucket, and nil none.
func (b *Bench) Bucket(s *clusterspec.S3) {
	b.Helper()
	_, err := b.Clusters.Modify(b.Context(), string(Key), func(c records.Cluster) (records.Cluster, error) {
		rke := *c.Spec.RKEConfig
		rke.ETCD = &clusterspec.ETCD{S3: s}
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

// Keys stores the Secret with the keys of a bucket.
func (b *Bench) Keys(access, secret string) {
	b.Helper()
	o := objects.Object{Kind: objects.Secret, UID: "uid-keys", Metadata: objects.Metadata{Namespace: "fleet-default", Name: "keys"}, Data: map[string][]byte{
		"s3credentialConfig-accessKey": []byte(access), "s3credentialConfig-secretKey": []byte(secret),
	}}
	if d, ok := b.Objects.Get(o.Key()); ok {
		d.Value = o
		b.Must(b.Objects.Update(b.Context(), d))
		return
	}
	b.Must(b.Objects.Create(b.Context(), o.Key(), o))
}

// S3 starts a real S3 server with a bucket, until end or the end of the test; put puts objects there as k3s does. module
// is the module's directory.
func S3(t *testing.T, module string) (end func() error, settings clusterspec.S3, put func(name, token string, size int)) {
	t.Helper()
	s, ca, err := s3server.StartTLS(t.Context(), s3server.Options{Module: module, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	end = sync.OnceValue(s.Close)
	t.Cleanup(func() { _ = end() })
	if err := s.MakeBucket("harbour"); err != nil {
		t.Fatal(err)
	}
	place := snapshotbucket.Place{S3: clusterspec.S3{Endpoint: s.Endpoint, EndpointCA: string(ca), Bucket: "harbour", Region: "us-east-1", Folder: "a"}, AccessKey: s3server.AccessKey, SecretKey: s3server.SecretKey}
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

func trusting(t *testing.T, ca []byte) *http.Transport {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	web := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(web.CloseIdleConnections)
	return web
}
