// Package life tests the stand-in k3s as a whole: the real binary, started, watched, killed and started again in a
// network namespace of its own, so that it may have the ports of k3s on any machine. It needs root.
package life

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLife(t *testing.T) {
	needRoot(t)
	h := newHost(t)
	h.write("manifests.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: deployed, namespace: kube-system}\ndata: {round: one}\n")
	manifest := filepath.Join(h.data, "server/manifests/rancher/addons.yaml")
	h.move("manifests.yaml", manifest)

	// First start.
	first := h.start()
	first.awaitReady()
	h.awaitProbes()
	h.awaitNode()
	h.awaitOutput("one", "get", "configmap", "deployed", "-n", "kube-system", "-o", "jsonpath={.data.round}")
	h.write("manifests.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: deployed, namespace: kube-system}\ndata: {round: two}\n")
	h.move("manifests.yaml", manifest)
	h.awaitOutput("two", "get", "configmap", "deployed", "-n", "kube-system", "-o", "jsonpath={.data.round}")
	h.write("manifests.yaml", "")
	h.move("manifests.yaml", manifest)
	h.awaitOutput("", "get", "configmap", "deployed", "-n", "kube-system", "--ignore-not-found", "-o", "name")
	h.kubectl("create", "configmap", "survivor")
	certificates := h.certificates()

	// The machine's memory runs out, or somebody is careless: nothing of it is left, and nothing is lost.
	children := first.children()
	if len(children) != 5 {
		t.Errorf("the server has %d components, want 5", len(children))
	}
	first.signal(syscall.SIGKILL)
	if err := first.wait(); err == nil {
		t.Error("a killed server ended well")
	}
	awaitGone(t, children)
	second := h.start()
	second.awaitReady()
	h.awaitProbes()
	h.awaitNode()
	h.kubectl("get", "configmap", "survivor")
	if diff := cmp.Diff(certificates, h.certificates()); diff != "" {
		t.Errorf("certificates changed over the restart (-before +after):\n%s", diff)
	}

	// A component that dies ends the server, which the service manager starts again.
	children = second.children()
	if err := syscall.Kill(children["kube-scheduler"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := second.wait(); err == nil {
		t.Error("the server ended well though a component died")
	}
	second.mustSay("kube-scheduler ended (signal: killed)")
	awaitGone(t, children)

	third := h.start()
	third.awaitReady()
	children = third.children()
	third.signal(syscall.SIGTERM)
	if err := third.wait(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	awaitGone(t, children)
}

func TestRefusals(t *testing.T) {
	needRoot(t)
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"agent", []string{"agent"}, "k3s stand-in: `k3s agent` is refused: the stand-in runs clusters of one server with all roles and cannot join another\n"},
		{"other commands", []string{"etcd-snapshot", "save"}, "k3s stand-in: `k3s etcd-snapshot` is not part of the stand-in; it has server, kubectl and --version\n"},
		{"joining", []string{"server", "--config=/nonexistent", "--server=https://10.0.0.1:6443"}, "k3s stand-in: command line: key \"server\" is refused by the k3s stand-in: it runs a cluster of one server with all roles and cannot join another server\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := exec.Command(os.Getenv(binaryPath), tt.args...).CombinedOutput()
			if err == nil {
				t.Error("no error")
			}
			if diff := cmp.Diff(tt.want, string(out)); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}

	h := newHost(t)
	h.write("data/server/token", "K10aa::server:the-first\n")
	p := h.start()
	if err := p.wait(); err == nil {
		t.Error("the server took another token than the cluster was made with")
	}
	p.mustSay("the token given is not the one this cluster was made with")
}

func TestVersion(t *testing.T) {
	needRoot(t)
	out, err := exec.Command(os.Getenv(binaryPath), "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	if line, _, _ := strings.Cut(string(out), "\n"); line != "k3s version v1.34.4+k3s1 (drover stand-in)" {
		t.Errorf("version line %q", line)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for a network namespace")
	}
}

// awaitNode waits for the Node to be Ready and initialised and compares what it says of itself.
func (h *host) awaitNode() {
	h.t.Helper()
	type address struct{ Type, Address string }
	type taint struct{ Key, Value, Effect string }
	type node struct {
		Metadata struct{ Labels map[string]string }
		Spec     struct {
			ProviderID string
			Taints     []taint
		}
		Status struct {
			Addresses  []address
			Conditions []struct{ Type, Status string }
			NodeInfo   struct{ KubeletVersion string }
		}
	}
	var n node
	await(h.t, "the node to be Ready and initialised", 4*time.Minute, func() error {
		out, err := h.tryKubectl("get", "node", "node-a", "-o", "json")
		if err != nil {
			return err
		}
		n = node{}
		if err := json.Unmarshal(out, &n); err != nil {
			return err
		}
		if len(n.Spec.Taints) != 1 {
			return fmt.Errorf("taints %v", n.Spec.Taints)
		}
		for _, c := range n.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("not Ready: %v", n.Status.Conditions)
	})
	if n.Spec.ProviderID != "k3s://node-a" || n.Status.NodeInfo.KubeletVersion != "v1.34.4+k3s1" {
		h.t.Errorf("provider ID %q, version %q", n.Spec.ProviderID, n.Status.NodeInfo.KubeletVersion)
	}
	if diff := cmp.Diff([]address{{"InternalIP", nodeIP}, {"ExternalIP", "203.0.113.4"}, {"Hostname", "node-a"}}, n.Status.Addresses); diff != "" {
		h.t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]taint{{"example.com/dedicated", "tests", "PreferNoSchedule"}}, n.Spec.Taints); diff != "" {
		h.t.Errorf("taints (-want +got):\n%s", diff)
	}
	for label, want := range map[string]string{
		"rke.cattle.io/machine": "0c0f", "node-role.kubernetes.io/control-plane": "true", "node-role.kubernetes.io/etcd": "true",
	} {
		if got := n.Metadata.Labels[label]; got != want {
			h.t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
}
