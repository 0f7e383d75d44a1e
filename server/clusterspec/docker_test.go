package clusterspec

import (
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
	replace := func(old, new string) string { return strings.Replace(docker, old, new, 1) }
	for _, tc := range []struct{ name, text, want string }{
		{"a field of the engine", replace("{}", "{network: {plugin: canal}}"), "line 6: spec.rancherKubernetesEngineConfig.network: hosts of such a cluster join and are at hand"},
		{"no engine", replace("rancherKubernetesEngineConfig: {}", "agentEnvVars: []"), "spec.rancherKubernetesEngineConfig: is missing; write rancherKubernetesEngineConfig: {}"},
		{"rkeConfig", docker + "  rkeConfig: {}\n", "line 7: spec.rkeConfig: belongs to clusters of apiVersion provisioning.cattle.io/v1"},
		{"a version", docker + "  kubernetesVersion: v1.34.4+k3s1\n", "line 7: spec.kubernetesVersion: belongs to clusters of apiVersion provisioning.cattle.io/v1"},
		{"a namespace", replace("dockyard\n", "dockyard\n  namespace: mine\n"), `line 5: metadata.namespace: "mine": clusters of management.cattle.io/v3 have no namespace`},
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

func TestAClusterKeepsItsKind(t *testing.T) {
	err := CheckChange(Document{Spec: Spec{RancherKubernetesEngineConfig: &RancherKubernetesEngineConfig{}}}, Document{Spec: Spec{RKEConfig: &RKEConfig{}}}, Live{})
	if err == nil || !strings.Contains(err.Error(), "of the other kind") {
		t.Error(err)
	}
}
