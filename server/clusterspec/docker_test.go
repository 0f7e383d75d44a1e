package clusterspec

import (
	"encoding/json"
	"strings"
	"testing"
)

const docker = `apiVersion: management.cattle.io/v3
kind: Cluster
metadata:
  name: dockyard
spec:
  rancherKubernetesEngineConfig: {}
`

func TestParseDockerCluster(t *testing.T) {
	for _, text := range []string{docker, strings.Replace(docker, "dockyard\n", "dockyard\n  namespace: fleet-default\n", 1)} {
		docs, err := Parse([]byte(text), data(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(docs) != 1 || !docs[0].Spec.Docker() || docs[0].Metadata.Namespace != DefaultNamespace {
			t.Errorf("docs = %+v", docs)
		}
	}
}

func TestParseRefusesInDockerCluster(t *testing.T) {
	replace := func(old, to string) string { return strings.Replace(docker, old, to, 1) }
	for _, tc := range []struct{ name, text, want string }{
		{"a field that the engine does not have", replace("{}", "{network: {plugins: canal}}"), "line 6: spec.rancherKubernetesEngineConfig.network.plugins: is not a field of an RKE1 config"},
		{"a value of another type", replace("{}", "\n    network: canal"), "line 7: spec.rancherKubernetesEngineConfig.network: is "},
		{"no engine", replace("rancherKubernetesEngineConfig: {}", "agentEnvVars: []"), "spec.rancherKubernetesEngineConfig: is missing; write rancherKubernetesEngineConfig: {}"},
		{"rkeConfig", docker + "  rkeConfig: {}\n", "line 7: spec.rkeConfig: belongs to clusters of apiVersion provisioning.cattle.io/v1"},
		{"a version", docker + "  kubernetesVersion: v1.34.4+k3s1\n", "line 7: spec.kubernetesVersion: belongs to clusters of apiVersion provisioning.cattle.io/v1"},
		{"a namespace", replace("dockyard\n", "dockyard\n  namespace: mine\n"), `line 5: metadata.namespace: "mine": clusters of management.cattle.io/v3 have no namespace`},
		{"a window of what has no Kubernetes", replace("dockyard\n", "dockyard\n  annotations: {drover.dev/maintenance-window: Sat 22:00-04:00 UTC}\n"), "maintenance windows are for clusters with a Kubernetes"},
		{"a variable without name", docker + "  agentEnvVars: [{name: \"a b\"}]\n", "spec.agentEnvVars[0].name"},
		{"the engine in the other kind", strings.Replace(good, "  rkeConfig:", "  rancherKubernetesEngineConfig: {}\n  rkeConfig:", 1), "spec.rancherKubernetesEngineConfig: belongs to clusters of apiVersion management.cattle.io/v3"},
		{"no such version", replace("cattle.io/v3", "cattle.io/v4"), `line 1: apiVersion: is "management.cattle.io/v4" where provisioning.cattle.io/v1 belongs, or management.cattle.io/v3`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			docs, err := Parse([]byte(tc.text), data(t))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("docs %+v, error %v; want %s", docs, err, tc.want)
			}
		})
	}
}

func TestParseAWindowOfRKE1(t *testing.T) {
	for window, wrong := range map[string]bool{"Sat 22:00-04:00 UTC": false, "Saturday": true} {
		text := strings.Replace(strings.Replace(docker, "dockyard\n", "dockyard\n  annotations: {drover.dev/maintenance-window: "+window+"}\n", 1), "{}\n", "{network: {plugin: canal}}\n", 1)
		if docs, err := Parse([]byte(text), data(t)); (err != nil) != wrong {
			t.Errorf("%s: %+v, %v", window, docs, err)
		}
	}
}

func TestParseRKE1Cluster(t *testing.T) {
	const management = `{"kubernetesVersion":"v1.30.5-rancher1-1","services":{"kubelet":{"extraArgs":{"max-pods":"50"}}},"network":{"plugin":"none"},"type":""}`
	const file = `
    kubernetes_version: v1.30.5-rancher1-1
    nodes: [{address: 10.0.0.1}]
    services:
      kubelet:
        extra_args:
          max-pods: 50
    network: {plugin: none}`
	var kept []string
	for _, form := range []string{management, file} {
		docs, err := Parse([]byte(strings.Replace(docker, "{}", form, 1)), data(t))
		if err != nil {
			t.Fatal(err)
		}
		spec := docs[0].Spec
		c, err := spec.RKE1Config()
		if err != nil || !spec.RKE1() || c.KubernetesVersion != "v1.30.5-rancher1-1" || c.Services.Kubelet.ExtraArgs["max-pods"] != "50" || c.Network.Plugin != "none" || len(c.Nodes) > 0 {
			t.Errorf("%v: %+v", err, c)
		}
		kept = append(kept, string(*spec.RancherKubernetesEngineConfig))
		// As the store keeps it.
		text, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		var back Spec
		if err := json.Unmarshal(text, &back); err != nil || !Equal(spec, back) {
			t.Errorf("%v: read again: %s", err, text)
		}
		if notes := docs[0].Notes; len(notes) != len(kept)-1 { // of the nodes of the second form
			t.Errorf("notes = %q", notes)
		}
	}
	if kept[0] != kept[1] {
		t.Errorf("the two forms differ:\n%s\n%s", kept[0], kept[1])
	}
	if docs, err := Parse([]byte(docker), data(t)); err != nil || docs[0].Spec.RKE1() {
		t.Errorf("%v: an empty config is one of RKE1", err)
	}
}

func TestAClusterKeepsItsKind(t *testing.T) {
	err := CheckChange(Document{Spec: Spec{RancherKubernetesEngineConfig: &RancherKubernetesEngineConfig{}}}, Document{Spec: Spec{RKEConfig: &RKEConfig{}}}, Live{})
	if err == nil || !strings.Contains(err.Error(), "of the other kind") {
		t.Error(err)
	}
}
