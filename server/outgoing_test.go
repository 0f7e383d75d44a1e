package server

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/snapshots/inbucket"
	"github.com/drover-project/drover/server/controllers/rke1"
	"github.com/drover-project/drover/server/options"
	"github.com/drover-project/drover/server/outgoing"
)

// TestBucketsInsideAreNotReached: the bucket that a cluster names is looked into only where the setting allows it.
func TestBucketsInsideAreNotReached(t *testing.T) {
	inside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var seen atomic.Int32
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			c, err := inside.Accept()
			if err != nil {
				return
			}
			seen.Add(1)
			c.Close()
		}
	}()
	t.Cleanup(func() { inside.Close(); <-gone })
	s := startWhole(t, "", "")
	admin := s.administrator()
	s.apply(admin, fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: keys, namespace: fleet-default}
stringData: {accessKey: hunter2, secretKey: hunter3}
---
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: harbour, namespace: fleet-default}
spec:
  kubernetesVersion: v1.34.4+k3s1
  rkeConfig: {etcd: {s3: {bucket: harbour, endpoint: "%s", cloudCredentialName: "fleet-default:keys"}}}
`, inside.Addr()))
	refused := "the server does not connect to 127.0.0.1, which is the server's own host: an administrator can allow it by adding 127.0.0.1/32, or the range it is in, to setting outgoing-allowed-ranges"
	s.until("the bucket is refused", func() bool { return strings.Contains(s.logged.String(), refused) })
	if n := seen.Load(); n != 0 {
		t.Errorf("%d connections came inside", n)
	}
	for body, want := range map[string]int{`{"value":"127.0.0.1"}`: http.StatusUnprocessableEntity, `{"value":"127.0.0.1/32"}`: http.StatusOK} {
		if status, text := s.ask(admin, http.MethodPut, "/v3/settings/outgoing-allowed-ranges", body); status != want {
			t.Fatal(status, text)
		}
	}
	s.apply(admin, strings.Replace(harbour, "rkeConfig: {}", fmt.Sprintf(`rkeConfig: {etcd: {s3: {bucket: harbour, folder: again, endpoint: "%s", cloudCredentialName: "fleet-default:keys"}}}`, inside.Addr()), 1))
	s.until("the bucket is asked", func() bool { return seen.Load() > 0 })
}

// TestRKE1ClustersNameNothingInside: of the configs of clusters neither add-ons nor buckets are fetched inside, and nothing that is
// there is shown.
func TestRKE1ClustersNameNothingInside(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	defer inside.Close()
	d := &data{Options: options.Options{DataDir: t.TempDir(), Process: options.Process{Logger: slog.New(slog.DiscardHandler)}}, outgoing: &outgoing.Outgoing{}}
	if err := d.readRKE1Versions(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked := newRKE(d, &ways{}).Engine(nil, rke1.Silent{})
	const refused = "the server does not connect to 127.0.0.1, which is the server's own host"
	_, err := addons.Users(t.Context(), &config.Cluster{AddonsInclude: []string{inside.URL + "/secret"}}, asked.Addons)
	if err == nil || !strings.Contains(err.Error(), "addons_include[0]: fetch "+inside.URL+"/secret: "+refused) {
		t.Error(err)
	}
	b, err := inbucket.Open(&config.S3Backup{Endpoint: inside.Listener.Addr().String(), BucketName: "harbour", AccessKey: "hunter2", SecretKey: "hunter3"}, inbucket.Options(asked.Buckets))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Archives(t.Context()); err == nil || !strings.Contains(err.Error(), refused) {
		t.Error(err)
	}
}

// TestDirectoriesLeadToNoMetadata: an administrator's directory may be in a private network, but is no way to the keys of a cloud.
func TestDirectoriesLeadToNoMetadata(t *testing.T) {
	s := startWhole(t, "", "")
	admin := s.administrator()
	if status, text := s.ask(admin, http.MethodPost, "/v1-drover/directories/set", "kind: openldap\nldap: {url: 'ldap://169.254.169.254:80', plaintext: true, bindDN: cn=a, bindPassword: b, users: {base: dc=x}}\n"); status != http.StatusOK {
		t.Fatal(status, text)
	}
	if _, text := s.ask(admin, http.MethodPost, "/v1-drover/directories/openldap/test", "{}"); !strings.Contains(text, "the server does not connect to 169.254.169.254") {
		t.Error(text)
	}
}
