//go:build e2e

package e2e

// The cluster as an object of Kubernetes: made by kubectl from the document that drover apply takes, and waited for.

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// ownKubectl runs kubectl against the server itself, as the administrator.
func (w *walk) ownKubectl(args ...string) (string, error) {
	w.Helper()
	file := filepath.Join(w.Dir, "kubeconfig-server")
	ca, err := os.ReadFile(filepath.Join(w.DataDir, "tls", "ca.crt"))
	must(w.T, err)
	config, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "server",
		"clusters": []any{map[string]any{"name": "server", "cluster": map[string]any{"server": w.URL, "certificate-authority-data": ca}}},
		"users":    []any{map[string]any{"name": "admin", "user": map[string]any{"token": w.administrator().token}}},
		"contexts": []any{map[string]any{"name": "server", "context": map[string]any{"cluster": "server", "user": "admin", "namespace": "fleet-default"}}},
	})
	must(w.T, err)
	must(w.T, os.WriteFile(file, config, 0o600))
	return w.Kubectl(w.ctx, append([]string{"--kubeconfig", file}, args...)...)
}

// kubectlApplies makes the cluster; to kubectl and to drover it is what the file says from then on.
func (w *walk) kubectlApplies(file string) {
	w.Helper()
	if out, err := w.ownKubectl("diff", "-f", file); err == nil || !strings.Contains(out, "kubernetesVersion: v1.34.4+k3s1") {
		w.Errorf("kubectl diff of what is not there yet: %v\n%s", err, out)
	}
	for _, want := range []string{"created", "unchanged"} {
		out, err := w.ownKubectl("apply", "-f", file)
		must(w.T, err)
		if strings.TrimSpace(out) != "cluster.provisioning.cattle.io/harbour "+want {
			w.Errorf("kubectl apply says %q, want %s", out, want)
		}
	}
	if out, err := w.ownKubectl("diff", "-f", file); err != nil || out != "" {
		w.Errorf("kubectl diff of what was applied: %v\n%s", err, out)
	}
}

// kubectlWaits is until the cluster's condition says that it is ready.
func (w *walk) kubectlWaits() {
	w.Helper()
	out, err := w.ownKubectl("wait", "--for=condition=Ready", "cluster/harbour", "--timeout=5m")
	must(w.T, err)
	w.T.Log(strings.TrimSpace(out))
	out, err = w.ownKubectl("get", "cluster", "harbour", "-o", "wide")
	must(w.T, err)
	w.T.Logf("%s", out)
}
