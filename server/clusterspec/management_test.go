package clusterspec

import (
	"strings"
	"testing"
)

// TestAsRancherKeepsIt: what asks for nothing, or for what is so anyhow, is taken, and the rest has its reason.
func TestAsRancherKeepsIt(t *testing.T) {
	const kept = `apiVersion: management.cattle.io/v3
kind: Cluster
metadata: {name: boatyard}
spec:
  displayName: boatyard
  dockerRootDir: /var/lib/docker
  fleetWorkspaceName: fleet-default
  answers: {}
  questions: null
  clusterSecrets: {}
  desiredAuthImage: ""
  enableClusterMonitoring: false
  internal: false
  windowsPreferedCluster: false
  rancherKubernetesEngineConfig: {kubernetesVersion: v1.28.15-rancher1-1}
`
	if docs, err := Parse([]byte(kept), data(t)); err != nil || docs[0].Metadata.Name != "boatyard" {
		t.Fatal(err)
	}
	for _, tc := range []struct{ old, new, want string }{
		{"displayName: boatyard", "displayName: Boat yard", "line 5: spec.displayName: the name of a cluster is metadata.name; write it there"},
		{"/var/lib/docker", "/srv/docker", "line 6: spec.dockerRootDir: hosts say themselves where their Docker keeps its data"},
		{"fleet-default", "fleet-other", "line 7: spec.fleetWorkspaceName: clusters of Docker hosts are in fleet-default"},
		{"answers: {}", "answers: {a: b}", "line 8: spec.answers: cluster templates are not part of drover"},
		{"internal: false", "internal: true", "line 13: spec.internal: "},
		{"internal: false", "eksConfig: {region: x}", "line 13: spec.eksConfig: clusters of cloud providers are not made here"},
		{"internal: false", "internals: false", "line 13: spec.internals: is not a field here"},
	} {
		_, err := Parse([]byte(strings.Replace(kept, tc.old, tc.new, 1)), data(t))
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s alone", tc.new, err, tc.want)
		}
	}
}

// TestClusterOptions: what Rancher's form of an RKE1 cluster saves is no document, which is one complaint.
func TestClusterOptions(t *testing.T) {
	for _, key := range []string{"rancher_kubernetes_engine_config", "rancherKubernetesEngineConfig"} {
		text := good + "---\n# saved\ndocker_root_dir: /var/lib/docker\nenable_network_policy: false\n" + key + ": {network: {plugin: canal}}\nname: boatyard\n"
		_, err := Parse([]byte(text), data(t))
		want := "line 15: kind: is missing; the document has " + key + ", as Rancher's form of a cluster of RKE1 saves it: write apiVersion: management.cattle.io/v3, kind: Cluster and metadata: {name: …} above it"
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s alone", err, want)
		}
	}
}

// TestProfileOfTheBenchmark: 1.30 is the last line that takes the profile by its old name.
func TestProfileOfTheBenchmark(t *testing.T) {
	for version, want := range map[string]string{
		"v1.30.14+rke2r1": "", "v1.31.5+rke2r1": "profile: cis-1.23 is none of cis, etcd; the profile of this version's benchmark is cis", "v1.34.4+rke2r1": "profile: cis-1.23 is none of cis, etcd; the profile",
	} {
		_, err := Parse([]byte(strings.Replace(strings.Replace(rke2, "profile: cis,", "profile: cis-1.23,", 1), "v1.34.4+rke2r1", version, 1)), data(t))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", version, err, want)
		}
	}
}
