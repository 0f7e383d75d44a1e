//go:build e2e && e2e_full

package e2e

// New CAs on the real k3s: who trusts the old ones goes on, a pod too, a host joins afterwards, and a snapshot of before is restored.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/realk3s"
)

func TestNewCAs(t *testing.T) {
	walkMany(t, sealedK3s, []string{realk3s.Version}, []manyStep{
		{"a server and a worker join", func(f *fleet) {
			f.join(f.start("pier-1", serverFlags), f.start("pier-2", workerFlags))
			f.awaitActive(2)
		}},
		{"a pod runs", (*fleet).podThatAsks},
		{"the CAs are rotated", (*fleet).rotatesCAs},
		{"a machine joins after it", func(f *fleet) { f.join(f.start("pier-3", workerFlags)); f.awaitActive(3); f.awaitNodes(3) }},
		{"the snapshot of before is restored", (*fleet).restoresOldCAs},
		{"they are rotated twice, and those of before count no more", (*fleet).rotatesTwice},
		{"a machine joins after that", func(f *fleet) { f.join(f.start("pier-4", workerFlags)); f.awaitActive(4); f.awaitNodes(4) }},
	})
}

// askingPod is one whose account's token and CA the tests use.
const askingPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "quay"}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [
  {"name": "quay", "image": "` + realk3s.BusyboxImage + `", "imagePullPolicy": "Never", "command": ["sleep", "86400"]}]}}`

func (f *fleet) podThatAsks() {
	file := filepath.Join(f.Dir, "pod.json")
	must(f.T, os.WriteFile(file, []byte(askingPod), 0o600))
	ctx, cancel := context.WithTimeout(f.ctx, manyPatience)
	defer cancel()
	must(f.T, bed.Await(ctx, "the service account of pods", time.Second, func(ctx context.Context) error {
		_, err := f.Kubectl(ctx, "--kubeconfig", f.kubeconfig(), "apply", "-f", file)
		return err
	}))
	_, err := f.Kubectl(f.ctx, "--kubeconfig", f.kubeconfig(), "wait", "--for=condition=Ready", "pod/quay", "--timeout=180s")
	must(f.T, err)
	f.mark("before")
	f.keepsAccount("old")
	f.asks("old")
	f.on(f.servers()[0], "cp /etc/rancher/k3s/k3s.yaml /root/old.yaml && cp "+f.data+"/server/tls/server-ca.crt /root/old-ca.crt")
}

// inPod is a file of the account of the pod.
func (f *fleet) inPod(name string) string {
	f.Helper()
	out, err := f.Kubectl(f.ctx, "--kubeconfig", f.kubeconfig(), "exec", "quay", "--", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/"+name)
	must(f.T, err)
	return out
}

// keepsAccount writes the CA and the token that the pod has now to the worker's host.
func (f *fleet) keepsAccount(name string) {
	f.Helper()
	for _, file := range []string{"ca.crt", "token"} {
		must(f.T, (*f.ships)[1].WriteFile(f.ctx, "/root/"+name+"-"+file, []byte(f.inPod(file)), 0o600))
	}
}

// asks asks the API from the worker's host as the pod with that account does.
func (f *fleet) asks(name string) {
	f.Helper()
	if out := f.on((*f.ships)[1], `curl -sS --cacert /root/`+name+`-ca.crt -H "Authorization: Bearer $(cat /root/`+name+`-token)" https://10.43.0.1/version`); !strings.Contains(out, "gitVersion") {
		f.Errorf("with the %s CA and token of the pod the API answers %s", name, out)
	}
}

func (f *fleet) rotatesCAs() {
	first := f.servers()[0]
	sum := "sha256sum <" + f.data + "/server/tls/"
	before := f.on(first, sum+"server-ca.crt")
	if out := f.drover("clusters", "rotate", "ca", "harbour", "--dry-run"); strings.Count(out, "\n") != 6 || !strings.Contains(out, "make new CAs on ") || f.on(first, sum+"server-ca.crt") != before {
		f.Errorf("a dry run says %s", out)
	}
	leaves := `for c in serving-kube-apiserver client-admin etcd/server-client etcd/peer-server-client client-auth-proxy; do openssl x509 -noout -serial -in ` + f.data + `/server/tls/$c.crt; done; echo | openssl s_client -connect 127.0.0.1:6443 2>/dev/null | openssl x509 -noout -serial`
	were := strings.Split(f.on(first, leaves), "\n")
	began := time.Now()
	f.drover("clusters", "rotate", "ca", "harbour", "--wait")
	f.Logf("new CAs of all machines: %s", time.Since(began).Round(100*time.Millisecond))
	f.awaitActive(2)
	f.wantOneByOne(began)
	for _, verb := range []string{"guard", "newcas", "takecas", "reload", "tidy"} {
		f.once(verb, 1)
	}
	if f.on(first, sum+"server-ca.crt") == before {
		f.Error("the server has the CA of before")
	}
	for i, serial := range strings.Split(f.on(first, leaves), "\n") {
		if i >= len(were) || serial == were[i] {
			f.Errorf("certificate %d is the one of before: %s", i, serial)
		}
	}
	if out := f.on(first, "ls -d "+f.data+"/drover/cas* 2>/dev/null || true"); out != "" {
		f.Errorf("what the rotation kept is still there: %s", out)
	}
	if !f.marked("before") {
		f.Error("a Secret of before is gone")
	}
	// Who has what the cluster gave out before goes on.
	if out := f.on(first, "k3s kubectl --kubeconfig /root/old.yaml get nodes -o name"); strings.Count(out, "node/") != 2 {
		f.Errorf("with the kubeconfig of before there are the nodes %s", out)
	}
	f.asks("old")
	old := f.on((*f.ships)[1], "cat /root/old-ca.crt")
	ctx, cancel := context.WithTimeout(f.ctx, manyPatience)
	defer cancel()
	must(f.T, bed.Await(ctx, "the pod has the new CAs", time.Second, func(context.Context) error {
		if strings.TrimSpace(f.inPod("ca.crt")) == strings.TrimSpace(old) {
			return fmt.Errorf("it has those of before")
		}
		return nil
	}))
	f.keepsAccount("new")
	f.asks("new")
}

// restoresOldCAs goes back to the snapshot that the rotation began with. The CAs of then come with it.
func (f *fleet) restoresOldCAs() {
	f.mark("after")
	first := f.servers()[0]
	var name string
	for _, s := range f.listSnapshots() {
		if strings.HasPrefix(s.Name, "before-rotate-ca-") {
			name = s.Name
		}
	}
	began := time.Now()
	f.drover("snapshots", "restore", "harbour", name, "--yes", "--wait")
	f.Logf("the restore of %s: %s", name, time.Since(began).Round(100*time.Millisecond))
	f.awaitActive(3)
	f.awaitNodes(3)
	if !f.marked("before") || f.marked("after") {
		f.Error("the cluster does not have what the snapshot has")
	}
	f.on(first, "cmp /root/old-ca.crt "+f.data+"/server/tls/server-ca.crt")
	ctx, cancel := context.WithTimeout(f.ctx, manyPatience)
	defer cancel()
	must(f.T, bed.Await(ctx, "the pod reaches the API", time.Second, func(context.Context) error {
		f.keepsAccount("old")
		out := f.on((*f.ships)[1], `curl -sS --cacert /root/old-ca.crt -H "Authorization: Bearer $(cat /root/old-token)" https://10.43.0.1/version || true`)
		if !strings.Contains(out, "gitVersion") {
			return fmt.Errorf("the API answers %s", out)
		}
		return nil
	}))
}

// rotatesTwice leaves nothing that the CAs of the beginning count for.
func (f *fleet) rotatesTwice() {
	first := f.servers()[0]
	for range 2 {
		began := time.Now()
		f.drover("clusters", "rotate", "ca", "harbour", "--no-snapshot", "--wait")
		f.awaitActive(3)
		f.wantOneByOne(began)
	}
	f.awaitNodes(3)
	if out, err := first.Sh(f.ctx, "k3s kubectl --kubeconfig /root/old.yaml get nodes -o name 2>&1"); err == nil || !strings.Contains(out+err.Error(), "x509") {
		f.Errorf("with the kubeconfig of before two rotations: %v: %s", err, out)
	}
	if out := f.on(first, "cp "+f.data+"/server/tls/server-ca.crt /root/new-ca.crt; curl -sS --cacert /root/new-ca.crt https://127.0.0.1:6443/ping"); out != "pong" {
		f.Errorf("the server answers %q", out)
	}
	if _, err := first.Sh(f.ctx, "curl -sS --cacert /root/old-ca.crt https://127.0.0.1:6443/ping"); err == nil {
		f.Error("the server has a certificate that the CA of the beginning vouches for")
	}
}
