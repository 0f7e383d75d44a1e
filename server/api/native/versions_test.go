package native_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

func names(r apibed.Result) string {
	var all []string
	for _, one := range r.Data() {
		all = append(all, fmt.Sprint(one["version"]))
	}
	return strings.Join(all, " ")
}

// TestVersionsOfACluster: what a cluster may be upgraded to follows what runs in it, and is shown to users who may see it.
func TestVersionsOfACluster(t *testing.T) {
	b := apibed.New(t)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", func(c *records.Cluster) {
		c.Spec.KubernetesVersion = "v1.33.5+k3s1"
		c.Status.Version = "v1.33.1+k3s1"
	})
	b.AddMachine(cl, "000000000001", func(m *records.Machine) {
		m.Status.Node = &records.NodeRef{Name: "host-1", KubeletVersion: "v1.32.5+k3s1"}
	})
	b.AddCluster("quay", "c-m-qqqqqqqq", func(c *records.Cluster) { c.Spec.KubernetesVersion = "v1.33.5+rke2r1" })
	for _, tc := range []struct{ query, from, want string }{
		{"?cluster=c-m-h4rb0r55", "v1.32.5+k3s1", "v1.33.6+k3s1 v1.33.1+k3s1"},
		{"?cluster=c-m-h4rb0r55&runtime=rke2", "v1.32.5+k3s1", ""},
		{"?cluster=c-m-qqqqqqqq", "v1.33.5+rke2r1", "v1.34.4+rke2r1 v1.34.3+rke2r1 v1.34.2+rke2r1 v1.34.1+rke2r1 v1.33.6+rke2r1"},
	} {
		r := b.Get("/v1-drover/versions" + tc.query)
		if got := names(r); got != tc.want || r.Text("from") != tc.from {
			t.Errorf("%s: from %s to %q, want %s to %q", tc.query, r.Text("from"), got, tc.from, tc.want)
		}
	}
	if r := b.Request("GET", "/v1-drover/versions?cluster=c-m-qqqqqqqq", b.User, ""); r.Status != 404 {
		t.Errorf("somebody who may not see the cluster gets %d: %s", r.Status, r.Raw)
	}
	b.AddCluster("dockyard", "c-dockr", func(c *records.Cluster) {
		c.Spec = clusterspec.Spec{RancherKubernetesEngineConfig: &clusterspec.RancherKubernetesEngineConfig{}}
	})
	if r := b.Get("/v1-drover/versions?cluster=c-dockr"); r.Status != 422 || !strings.Contains(r.Text("message"), "dockyard is a cluster of Docker hosts") {
		t.Errorf("a cluster of Docker hosts: %d %s", r.Status, r.Raw)
	}
	if r := b.Get("/v1-drover/versions?runtime=k8s"); r.Status != 422 || !strings.Contains(r.Text("message"), "neither k3s nor rke2") {
		t.Errorf("a runtime that is none: %d %s", r.Status, r.Raw)
	}
	if r := b.Get("/v1-drover/versions/v1.34.99+k3s1"); r.Status != 404 || !strings.Contains(r.Text("message"), "known are v1.34.4+k3s1") {
		t.Errorf("an unknown version: %d %s", r.Status, r.Raw)
	}
	if r := b.Get("/v1-k3s-release/releases/v1.34.4+rke2r1"); r.Status != 404 {
		t.Errorf("a version of the other distribution: %d %s", r.Status, r.Raw)
	}
}

// TestReleasesInRanchersForm: all versions with their settings, as a collection.
func TestReleasesInRanchersForm(t *testing.T) {
	b := apibed.New(t)
	r := b.Get("/v1-rke2-release/releases")
	if all := strings.Fields(names(r)); r.Text("type") != "collection" || r.Text("resourceType") != "release" || len(all) != 14 || all[0] != "v1.30.5+rke2r1" {
		t.Errorf("%s of %s with %q", r.Text("type"), r.Text("resourceType"), all)
	}
	for _, one := range r.Data() {
		server, _ := one["serverArgs"].(map[string]any)
		agent, _ := one["agentArgs"].(map[string]any)
		cni, _ := server["cni"].(map[string]any)
		if one["id"] != one["version"] || one["type"] != "release" || cni["type"] != "array" || agent["profile"] == nil {
			t.Errorf("%v: %v, cni %v", one["id"], one["type"], cni)
		}
	}
	if r := b.Get("/v1-k3s-release/channels"); len(r.Data()) != 1 || r.Data()[0]["name"] != "default" || r.Data()[0]["latest"] != "v1.34.4+k3s1" {
		t.Errorf("channels %s", r.Raw)
	}
}

// TestWarningsOverV1: what is taken and may surprise is in headers, as Kubernetes has them.
func TestWarningsOverV1(t *testing.T) {
	b := apibed.New(t)
	const types = "/v1/provisioning.cattle.io.clusters"
	body := `{"metadata":{"name":"harbour","namespace":"fleet-default"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{"machineGlobalConfig":{"cni":"calico"}}}}`
	r := b.Want(http.StatusCreated, "POST", types, body)
	const want = `299 - "spec.rkeConfig.machineGlobalConfig.cni: v1.34.4+k3s1 has no such setting, so calico is left out"`
	if got := r.Header.Values("Warning"); len(got) != 1 || got[0] != want {
		t.Errorf("warnings %q", got)
	}
	// The document is kept as it came.
	r = b.Want(http.StatusOK, "PUT", types+"/fleet-default/harbour", string(b.Get(types+"/fleet-default/harbour").Raw))
	if got := r.Header.Values("Warning"); len(got) != 1 || got[0] != want {
		t.Errorf("of what was just read: %q", got)
	}
}
