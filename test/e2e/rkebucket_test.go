//go:build e2e && e2e_full

package e2e

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/rke1bed"
	"github.com/drover-project/drover/test/rke1images"
	"github.com/drover-project/drover/test/s3server"
)

// s3 starts a real S3 server with TLS on this machine, and returns it with the flags that lead there.
func (y *rkeYard) s3() (*s3server.Server, []string) {
	y.Helper()
	dir := y.TempDir()
	s, ca, err := s3server.StartTLS(y.ctx, s3server.Options{Module: "../..", Dir: dir})
	if err != nil {
		y.Fatal(err)
	}
	certificate := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(certificate, ca, 0o600); err != nil {
		y.Fatal(err)
	}
	y.Cleanup(func() {
		if err := s.Close(); err != nil {
			y.Error(err)
		}
	})
	if err := s.MakeBucket("harbour"); err != nil {
		y.Fatal(err)
	}
	y.Setenv("S3_ACCESS_KEY", s3server.AccessKey)
	y.Setenv("S3_SECRET_KEY", s3server.SecretKey)
	return s, []string{"--s3", "--s3-endpoint", s.Endpoint, "--s3-endpoint-ca", certificate, "--bucket-name", "harbour", "--folder", "clusters/yard", "--region", "us-east-1"}
}

// TestRKESnapshotInABucket puts a snapshot into a bucket of a real S3 server, loses the hosts' own, and restores that of the bucket. The
// keys of the bucket come to no container.
func TestRKESnapshotInABucket(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Minute)
	defer cancel()
	y := newRKEYard(t, ctx, rke1images.Version, "rke-s3")
	h := y.hosts[0]
	server, flags := y.s3()
	snapshot := func(verb string, args ...string) []string { return slices.Concat([]string{"etcd", verb}, args, flags) }
	y.newestTools()
	y.write(map[*rke1bed.Host]string{h: everyRole}, "")
	y.must("up")
	y.works("up")
	// Everything that Docker knows of each container that is made from now on.
	if _, err := h.Sh(ctx, `systemd-run --quiet --unit witness sh -c 'docker events --filter event=create --format "{{.ID}}" | while read -r id; do docker inspect "$id"; done >/tmp/witness'`); err != nil {
		t.Fatal(err)
	}
	if out, err := y.kubectl("create", "configmap", "kept", "--from-literal=word=kept"); err != nil {
		t.Fatal(out, err)
	}

	nowhere := slices.Clone(flags)
	nowhere[slices.Index(nowhere, server.Endpoint)] = "127.0.0.1:1"
	if _, err := y.rke(slices.Concat([]string{"etcd", "snapshot-save", "--name", "local"}, nowhere)...); err == nil ||
		!strings.Contains(err.Error(), "snapshot local is on 1 hosts, but not in the bucket") || !strings.Contains(err.Error(), "nothing listens there") {
		t.Errorf("a bucket that is not there: %v", err)
	}
	began := time.Now()
	y.must(snapshot("snapshot-save", "--name", "one")...)
	t.Logf("MEASURE rke etcd snapshot-save into a bucket: %s", time.Since(began).Round(time.Millisecond))
	object := server.File("harbour", "clusters/yard/one.zip")
	stored, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	if out := y.must(snapshot("snapshot-ls")...); strings.Count(out, "one ") != 2 || !strings.Contains(out, "bucket harbour/clusters/yard at "+server.Endpoint) || strings.Count(out, "local ") != 1 {
		t.Errorf("the list: %s", out)
	}

	if out, err := y.kubectl("delete", "configmap", "kept"); err != nil {
		t.Fatal(out, err)
	}
	if _, err := h.Sh(ctx, "rm /opt/rke/etcd-snapshots/one.zip"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(object, stored[:len(stored)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := y.rke(snapshot("snapshot-restore", "--name", "one", "--dry-run")...); err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "there are local") {
		t.Errorf("half an object: %v", err)
	}
	if err := os.WriteFile(object, stored, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := y.must(snapshot("snapshot-restore", "--name", "one", "--dry-run")...); !strings.Contains(out, "can be read") {
		t.Errorf("the preview of a restore: %s", out)
	}
	began = time.Now()
	y.must(snapshot("snapshot-restore", "--name", "one")...)
	t.Logf("MEASURE rke etcd snapshot-restore from a bucket: %s", time.Since(began).Round(time.Second))
	if out, err := y.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.word}"); err != nil || out != "kept" {
		t.Errorf("the ConfigMap of the snapshot: %s %v", out, err)
	}
	y.works("etcd snapshot-restore")

	witness, err := h.Sh(ctx, "cat /tmp/witness")
	if err != nil || !strings.Contains(witness, "etcd-snapshot-once") || !strings.Contains(witness, "etcd-download-backup") {
		t.Errorf("the witness saw %d bytes, %v", len(witness), err)
	}
	files, err := h.Sh(ctx, "grep -rl "+s3server.SecretKey+" /opt/rke /etc/kubernetes /var/lib/docker/containers 2>/dev/null || true")
	if err != nil || strings.TrimSpace(files) != "" {
		t.Errorf("files with the secret key: %s %v", files, err)
	}
	for _, secret := range []string{s3server.SecretKey, s3server.AccessKey} {
		if strings.Contains(witness, secret) || strings.Contains(witness, base64.StdEncoding.EncodeToString([]byte(secret))) {
			t.Errorf("a container was made with %s", secret)
		}
	}
}
