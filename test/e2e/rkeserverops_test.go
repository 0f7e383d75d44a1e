//go:build e2e && e2e_full

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/test/bed"
)

// encrypted is the document of a cluster whose Secrets are encrypted.
func (s *rkeServer) encrypted(more string) string {
	s.Helper()
	file := s.document(more)
	text, err := os.ReadFile(file)
	must(s.T, err)
	const etcd = "      etcd: {snapshot: false}\n"
	if !strings.Contains(string(text), etcd) {
		s.Fatalf("the document has no %q", etcd)
	}
	must(s.T, os.WriteFile(file, []byte(strings.Replace(string(text), etcd, etcd+"      kube-api: {secrets_encryption_config: {enabled: true}}\n", 1)), 0o600))
	return file
}

// operationOf waits for an operation of a kind that is as wanted.
func (s *rkeServer) operationOf(kind operations.Kind, limit time.Duration, is func(apitypes.Operation) bool) apitypes.Operation {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	var found apitypes.Operation
	must(s.T, bed.Await(ctx, "an operation of kind "+string(kind), 200*time.Millisecond, func(ctx context.Context) error {
		all, err := s.operations(ctx)
		if err != nil {
			return err
		}
		for _, one := range all {
			if one.Kind != kind {
				continue
			}
			out, err := s.tryDrover(ctx, s.server, "operations", "show", one.ID, "-o", "json")
			if err != nil {
				return err
			}
			var o apitypes.Operation
			if err := json.Unmarshal([]byte(out), &o); err != nil {
				return err
			}
			if is(o) {
				found = o
				return nil
			}
		}
		return fmt.Errorf("operations: %+v", all)
	}))
	return found
}

// TestRKEServerOperations takes a snapshot of an RKE1 cluster of the server, rotates its certificates by the document while the
// server is killed, rotates the encryption key, and restores the snapshot, which has the certificates and the key of before.
func TestRKEServerOperations(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Minute)
	defer cancel()
	s := newRKEServer(t, ctx)
	h := s.yard.hosts[0]
	s.drover(s.server, "apply", "-f", s.encrypted(""))
	must(t, h.LoadImage(ctx, s.archive))
	if _, err := h.Sh(ctx, s.joinLine(s.server, "yard")); err != nil {
		t.Fatal(redact(err.Error()))
	}
	active := func(c apitypes.Cluster) bool { return c.State == "active" && c.Ready }
	s.awaitCluster("active", 20*time.Minute, active)
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := s.kubectl(args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	certificate := func() string {
		t.Helper()
		out, err := h.Sh(ctx, "sha256sum /etc/kubernetes/ssl/kube-apiserver.pem")
		must(t, err)
		return strings.TrimSpace(out)
	}
	kubectl("create", "secret", "generic", "before", "--from-literal=word=mast")
	first := certificate()
	s.yard.newestTools()

	began := time.Now()
	s.drover(s.server, "snapshots", "create", "yard", "--name", "one", "--wait")
	t.Logf("MEASURE rke over the tunnel, snapshot: %s", time.Since(began).Round(time.Millisecond))
	if out := s.drover(s.server, "snapshots", "ls", "yard"); !strings.Contains(out, "one ") || !strings.Contains(out, "MiB") {
		t.Errorf("snapshots: %s", out)
	}
	if out, err := s.tryDrover(ctx, s.server, "snapshots", "create", "yard", "--name", "one"); err == nil || !strings.Contains(out+err.Error(), "there is a snapshot one already") {
		t.Errorf("a second snapshot of one name: %v: %s", err, out)
	}

	began = time.Now()
	file := s.encrypted("rotate_certificates: {}\n")
	s.drover(s.server, "apply", "-f", file)
	under := s.operationOf(operations.KindRotateCertificates, 2*time.Minute, func(o apitypes.Operation) bool {
		return len(o.Tasks) > 3 // the state is kept, and certificates are being deployed
	})
	s.kill(s.server)
	s.start(s.server)
	rotated := s.operationOf(operations.KindRotateCertificates, 15*time.Minute, func(o apitypes.Operation) bool { return o.State == operations.Succeeded })
	if rotated.ID != under.ID {
		t.Errorf("the rotation that was under way when the server was killed is %s, the one that succeeded %s", under.ID, rotated.ID)
	}
	t.Logf("MEASURE rke over the tunnel, certificates by the document, the server killed once: %s", time.Since(began).Round(time.Second))
	s.awaitCluster("active", 5*time.Minute, active)
	if second := certificate(); second == first {
		t.Error("the API server has the certificate of before")
	}
	kubectl("get", "secret", "before")
	s.drover(s.server, "apply", "-f", file)

	began = time.Now()
	s.drover(s.server, "clusters", "rotate", "encryption-keys", "yard", "--wait")
	t.Logf("MEASURE rke over the tunnel, encryption key: %s", time.Since(began).Round(time.Second))
	kubectl("create", "secret", "generic", "after", "--from-literal=word=keel")

	began = time.Now()
	if out := s.drover(s.server, "snapshots", "restore", "yard", "one", "--dry-run"); !strings.Contains(out, "snapshot one of host") {
		t.Errorf("the preview of a restore: %s", out)
	}
	s.drover(s.server, "snapshots", "restore", "yard", "one", "--yes", "--wait")
	t.Logf("MEASURE rke over the tunnel, restore: %s", time.Since(began).Round(time.Second))
	s.awaitCluster("active", 5*time.Minute, active)
	if out := kubectl("get", "secret", "before", "-o", "jsonpath={.data.word}"); out != "bWFzdA==" {
		t.Errorf("the Secret from before the snapshot: %q", out)
	}
	if out, err := s.kubectl("get", "secret", "after"); err == nil || !strings.Contains(out, "NotFound") {
		t.Errorf("the Secret from after the snapshot: %v: %s", err, out)
	}
	if restored := certificate(); restored != first {
		t.Error("the API server does not have the certificate of the snapshot")
	}
	all, err := s.operations(ctx)
	must(t, err)
	kinds := map[operations.Kind]int{}
	for _, o := range all {
		kinds[o.Kind]++
	}
	if kinds[operations.KindRotateCertificates] != 1 || kinds[operations.KindRestore] != 1 || kinds[operations.KindRotateKeys] != 1 || kinds[operations.KindSnapshot] != 1 {
		t.Errorf("each request is carried out once: %v", kinds)
	}
}
