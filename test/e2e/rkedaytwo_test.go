//go:build e2e && e2e_full

package e2e

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/test/rke1bed"
	"github.com/drover-project/drover/test/rke1images"
)

// killed runs `drover rke` and kills it at some moment, and then again until it comes to its end.
func (y *rkeYard) killed(within time.Duration, args ...string) {
	y.Helper()
	for range 3 {
		after := time.Duration(rand.Int64N(int64(within)))
		ctx, cancel := context.WithTimeout(y.ctx, after)
		cmd := exec.CommandContext(ctx, y.program, append(append([]string{"rke"}, args...), "--known-hosts", filepath.Join(y.dir, "known_hosts"))...)
		cmd.Dir = y.dir
		out, err := cmd.CombinedOutput()
		cancel()
		last := strings.TrimSpace(string(out))
		if i := strings.LastIndexByte(last, '\n'); i >= 0 {
			last = last[i+1:]
		}
		y.Logf("killed after %s: %v: %s", after.Round(time.Millisecond), err, last)
	}
	y.must(args...)
}

// raw is what etcd has under a key.
func (y *rkeYard) raw(key string) string {
	y.Helper()
	out, err := y.hosts[0].Sh(y.ctx, "docker exec etcd etcdctl get --print-value-only "+key+" | head -c 48 | tr -c '[:print:]' '?'")
	if err != nil {
		y.Fatal(err)
	}
	return out
}

// secret is what the API has in the test's Secret.
func (y *rkeYard) secret() string {
	y.Helper()
	out, err := y.kubectl("get", "secret", "mine", "-o", "jsonpath={.data.word}")
	if err != nil {
		y.Fatal(err)
	}
	return out
}

// encrypt turns the encryption of Secrets on or off in cluster.yml.
func (y *rkeYard) encrypt(on bool) {
	y.Helper()
	file := filepath.Join(y.dir, "cluster.yml")
	text, err := os.ReadFile(file)
	if err != nil {
		y.Fatal(err)
	}
	const without, with = "services:\n", "services:\n  kube-api: {secrets_encryption_config: {enabled: true}}\n"
	is := strings.Replace(string(text), with, without, 1)
	if on {
		is = strings.Replace(is, without, with, 1)
	}
	if err := os.WriteFile(file, []byte(is), 0o600); err != nil {
		y.Fatal(err)
	}
}

// newestTools gives hosts the image that snapshots are made with, which is the newest of the version data.
func (y *rkeYard) newestTools() {
	y.Helper()
	data, err := versions.Load(y.ctx, "", versions.Options{})
	if err != nil {
		y.Fatal(err)
	}
	tools := rke1images.SystemImages(y.version)["alpine"]
	newest := data.ToolsImage(tools)
	if newest == tools {
		return
	}
	for _, h := range y.hosts {
		if err := h.Rename(y.ctx, map[string]string{tools: newest}); err != nil {
			y.Fatal(err)
		}
	}
}

// works says whether all nodes are ready and nothing is left to do.
func (y *rkeYard) works(what string) {
	y.Helper()
	if out, err := y.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=3m"); err != nil {
		y.Fatalf("%s: %v %s", what, err, out)
	}
	if out := y.must("up", "--dry-run"); !strings.HasPrefix(strings.TrimSpace(out), "0 changes") {
		y.Errorf("%s: a run would change something: %s", what, out)
	}
}

// TestRKERestoreOfThree restores a snapshot on three members, one of which has lost its archive.
func TestRKERestoreOfThree(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Minute)
	defer cancel()
	y := newRKEYard(t, ctx, rke1images.Version, "rke-one", "rke-two", "rke-three")
	y.newestTools()
	y.write(map[*rke1bed.Host]string{y.hosts[0]: "controlplane, etcd, worker", y.hosts[1]: "etcd, worker", y.hosts[2]: "etcd"}, "")
	y.must("up", "--disable-port-check") // the ports are another test's
	y.works("up")
	if out, err := y.kubectl("create", "configmap", "kept", "--from-literal=word=kept"); err != nil {
		t.Fatal(out, err)
	}
	if out := y.must("etcd", "snapshot-save", "--name", "three"); strings.Count(out, "three.zip") != 3 {
		t.Errorf("snapshot-save: %s", out)
	}
	if _, err := y.hosts[2].Sh(ctx, "rm /opt/rke/etcd-snapshots/three.zip"); err != nil {
		t.Fatal(err)
	}
	if out, err := y.kubectl("delete", "configmap", "kept"); err != nil {
		t.Fatal(out, err)
	}
	y.must("etcd", "snapshot-restore", "--name", "three")
	if out, err := y.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.word}"); err != nil || out != "kept" {
		t.Errorf("the ConfigMap of the snapshot: %s %v", out, err)
	}
	y.works("etcd snapshot-restore")
	y.must("cert", "rotate", "--service", "etcd")
	y.works("cert rotate --service etcd")
}

// TestRKEDayTwo looks after a cluster: certificates, encryption, snapshots, each killed on its way.
func TestRKEDayTwo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Minute)
	defer cancel()
	y := newRKEYard(t, ctx, rke1images.Version, "rke-ops")
	h := y.hosts[0]
	y.newestTools()
	y.write(map[*rke1bed.Host]string{h: "controlplane, etcd, worker"}, "")
	y.must("up")
	y.works("up")
	if out, err := y.kubectl("create", "secret", "generic", "mine", "--from-literal=word=plain"); err != nil {
		t.Fatal(out, err)
	}
	y.dayRotate()
	y.dayEncrypt()
	y.daySnapshot()
}

// dayRotate rotates leaves, and then the CA.
func (y *rkeYard) dayRotate() {
	ca := func() string {
		out, err := y.hosts[0].Sh(y.ctx, "sha256sum /etc/kubernetes/ssl/kube-ca.pem /etc/kubernetes/ssl/kube-apiserver.pem | cut -c 1-12")
		if err != nil {
			y.Fatal(err)
		}
		return strings.Join(strings.Fields(out), " ")
	}
	before := strings.Fields(ca())
	if out := y.must("cert", "rotate", "--dry-run"); !strings.Contains(out, "step 1 of 1") || !strings.Contains(out, "restart: etcd, kube-apiserver") {
		y.Errorf("the preview of a rotation: %s", out)
	}
	began := time.Now()
	y.must("cert", "rotate")
	y.Logf("MEASURE rke cert rotate: %s", time.Since(began).Round(time.Second))
	after := strings.Fields(ca())
	if before[0] != after[0] || before[1] == after[1] {
		y.Errorf("CA and API server's certificate: %v, then %v", before, after)
	}
	y.works("cert rotate")

	if out := y.must("cert", "rotate", "--rotate-ca", "--dry-run"); !strings.Contains(out, "step 3 of 3") {
		y.Errorf("the preview of a rotation of the CA: %s", out)
	}
	y.killed(80*time.Second, "cert", "rotate", "--rotate-ca")
	if last := strings.Fields(ca()); last[0] == after[0] || last[1] == after[1] {
		y.Errorf("CA and API server's certificate: %v, then %v", after, last)
	}
	y.works("cert rotate --rotate-ca")
}

// dayEncrypt turns encryption on, rotates the key, and turns it off.
func (y *rkeYard) dayEncrypt() {
	if is := y.raw("/registry/secrets/default/mine"); strings.HasPrefix(is, "k8s:enc:") {
		y.Errorf("etcd has %q before", is)
	}
	y.encrypt(true)
	y.must("up")
	first := y.raw("/registry/secrets/default/mine")
	if !strings.HasPrefix(first, "k8s:enc:aescbc:v1:k-") || y.secret() != "cGxhaW4=" {
		y.Errorf("etcd has %q, the API %q", first, y.secret())
	}
	y.works("encryption")
	y.killed(20*time.Second, "encrypt", "rotate-key")
	second := y.raw("/registry/secrets/default/mine")
	if !strings.HasPrefix(second, "k8s:enc:aescbc:v1:k-") || second[:23] == first[:23] || y.secret() != "cGxhaW4=" {
		y.Errorf("etcd has %q and had %q, the API %q", second, first, y.secret())
	}
	if file, err := y.hosts[0].Sh(y.ctx, "grep -c 'name: k-' /etc/kubernetes/ssl/encryption.yaml"); err != nil || strings.TrimSpace(file) != "1" {
		y.Errorf("keys on the host: %s %v", file, err)
	}
	y.works("encrypt rotate-key")
	y.encrypt(false)
	y.must("up")
	if is := y.raw("/registry/secrets/default/mine"); strings.HasPrefix(is, "k8s:enc:") || y.secret() != "cGxhaW4=" {
		y.Errorf("etcd has %q after", is)
	}
	if _, err := y.hosts[0].Sh(y.ctx, "test ! -e /etc/kubernetes/ssl/encryption.yaml"); err != nil {
		y.Error("the keys are still on the host")
	}
	y.works("no encryption")
}

// daySnapshot brings back what was deleted.
func (y *rkeYard) daySnapshot() {
	if out, err := y.kubectl("create", "configmap", "kept", "--from-literal=word=kept"); err != nil {
		y.Fatal(out, err)
	}
	if out := y.must("etcd", "snapshot-save", "--name", "one"); !strings.Contains(out, "/opt/rke/etcd-snapshots/one.zip") {
		y.Errorf("snapshot-save: %s", out)
	}
	if _, err := y.rke("etcd", "snapshot-save", "--name", "one"); err == nil {
		y.Error("a second snapshot of the same name is taken")
	}
	if out, err := y.rke("etcd", "snapshot-restore", "--name", "two", "--dry-run"); err == nil || !strings.Contains(err.Error(), "there are one") {
		y.Errorf("a snapshot that is not there: %s %v", out, err)
	}
	if out, err := y.kubectl("delete", "configmap", "kept"); err != nil {
		y.Fatal(out, err)
	}
	if out, err := y.kubectl("create", "configmap", "later", "--from-literal=word=later"); err != nil {
		y.Fatal(out, err)
	}
	if out := y.must("etcd", "snapshot-restore", "--name", "one", "--dry-run"); !strings.Contains(out, "can be read") {
		y.Errorf("the preview of a restore: %s", out)
	}
	y.killed(60*time.Second, "etcd", "snapshot-restore", "--name", "one")
	if out, err := y.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.word}"); err != nil || out != "kept" {
		y.Errorf("the ConfigMap of the snapshot: %s %v", out, err)
	}
	if out, err := y.kubectl("get", "configmap", "later"); err == nil {
		y.Errorf("a ConfigMap from after the snapshot is there: %s", out)
	}
	if out, err := y.hosts[0].Sh(y.ctx, "ls /var/lib/etcd"); err != nil || strings.TrimSpace(out) != "member" {
		y.Errorf("etcd's directory has %s %v", out, err)
	}
	y.works("etcd snapshot-restore")
}
