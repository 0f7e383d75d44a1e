package clusterspec

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans/strictyaml"
)

const good = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: harbour
spec:
  kubernetesVersion: v1.34.4+k3s1
  rkeConfig:
    machineGlobalConfig:
      disable: [traefik]
      tls-san: [k8s.lan]
      secrets-encryption: true
      write-kubeconfig-mode: "0644"
`

func data(t testing.TB) *versions.Data {
	t.Helper()
	d, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestParse(t *testing.T) {
	docs, err := Parse([]byte(good+"---\n"+strings.Replace(good, "harbour", "quay", 1)), data(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) != 2 || docs[0].Metadata.Namespace != DefaultNamespace || docs[1].Metadata.Name != "quay" {
		t.Errorf("docs = %+v", docs)
	}
	if docs[0].Spec.RKEConfig.MachineGlobalConfig["secrets-encryption"] != true {
		t.Errorf("config = %v", docs[0].Spec.RKEConfig.MachineGlobalConfig)
	}
}

// TestZeroValuesOfUnsupportedFields: Terraform and exports of Rancher's UI always send them,
// and they ask for nothing. A misspelt field is refused whatever its value.
func TestZeroValuesOfUnsupportedFields(t *testing.T) {
	zero := strings.Replace(good, "  rkeConfig:\n", `  cloudCredentialSecretName: ""
  clusterAgentDeploymentCustomization: null
  fleetAgentDeploymentCustomization: {}
  defaultClusterRoleForProjectMembers: ""
  defaultPodSecurityAdmissionConfigurationTemplateName: ""
  enableNetworkPolicy: false
  redeploySystemAgentGeneration: 0
  agentEnvVars: []
  localClusterAuthEndpoint: {enabled: false, fqdn: "", caCerts: ""}
  rkeConfig:
    machinePools: []
    machinePoolDefaults: {hostnameLengthLimit: 0}
    infrastructureRef: null
    machineSelectorFiles: []
    etcd: {s3: null}
    etcdSnapshotCreate: {generation: 0}
    etcdSnapshotRestore: {name: "", generation: 0}
    rotateCertificates: null
    rotateEncryptionKeys: {}
    additionalManifest: ""
`, 1)
	zero = strings.Replace(zero, "      disable: [traefik]\n", "      disable: [traefik]\n      profile: null\n      cni: calico\n      cluster-cidr: ''\n      node-label: []\n", 1)
	docs, err := Parse([]byte(zero), data(t))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Parse([]byte(good), data(t))
	if err != nil {
		t.Fatal(err)
	}
	if stored := docs[0].Spec.RKEConfig.MachineGlobalConfig; len(stored) != 8 || stored["cluster-cidr"] != "" || stored["cni"] != "calico" {
		t.Errorf("the document is not stored as it came: %v", stored)
	}
	release, _ := data(t).Permissive("v1.34.4+k3s1")
	config, want := map[string]any{}, map[string]any{}
	MergeArgs(config, docs[0].Spec.RKEConfig.MachineGlobalConfig, release)
	MergeArgs(want, plain[0].Spec.RKEConfig.MachineGlobalConfig, release)
	if fmt.Sprint(config) != fmt.Sprint(want) {
		t.Errorf("config %v, want %v", config, want)
	}
	for _, c := range []struct{ old, new, want string }{
		{"enableNetworkPolicy: false", "enableNetworkPolicy: true", "spec.enableNetworkPolicy: project network policies are not supported"},
		{"enableNetworkPolicy: false", "enableNetworkpolicy: false", "spec.enableNetworkpolicy: is not a field here"},
		{"etcdSnapshotCreate: {generation: 0}", "etcdSnapshotCreate: {generation: -1}", "spec.rkeConfig.etcdSnapshotCreate.generation: -1 is less than 0"},
		{"profile: null", "profile: cis", "machineGlobalConfig.profile: is not a setting"},
	} {
		if _, err := Parse([]byte(strings.Replace(zero, c.old, c.new, 1)), data(t)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.new, err)
		}
	}
}

func TestParseTakesBackWhatWasRead(t *testing.T) {
	text := strings.Replace(good, "  name: harbour", "  name: harbour\n  resourceVersion: \"12\"\n  uid: u\n  creationTimestamp: \"2026-11-21T00:00:00Z\"", 1) + "status: {ready: true}\n"
	if _, err := Parse([]byte(text), data(t)); err != nil {
		t.Error(err)
	}
}

// TestWhatOtherProgramsLeave in documents asks for nothing, and a List is its documents.
func TestWhatOtherProgramsLeave(t *testing.T) {
	left := strings.Replace(good, "  rkeConfig:", "  webhookDeploymentCustomization: null\n  defaultPodSecurityPolicyTemplateName: ''\n  machineSelectorConfig: [{config: {}}]\n  rkeConfig:", 1) + "__clone: true\n"
	list := "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n- " + strings.ReplaceAll(strings.TrimSuffix(good, "\n"), "\n", "\n  ") + "\n"
	for name, text := range map[string]string{"an editor": left, "kubectl": list} {
		docs, err := Parse([]byte(text), data(t))
		if err != nil || len(docs) != 1 || docs[0].Metadata.Name != "harbour" {
			t.Errorf("%s: %v %v", name, err, docs)
		}
	}
	_, err := Parse([]byte(strings.Replace(list, "tls-san", "tls-sam", 1)), data(t))
	if err == nil || !strings.HasPrefix(err.Error(), "line 14: ") {
		t.Errorf("a fault in a list: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	replace := func(old, to string) string { return strings.Replace(good, old, to, 1) }
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "# only a comment\n", "there is no document in this text; expected kind Cluster of provisioning.cattle.io/v1 or management.cattle.io/v3"},
		{"not YAML", "a: [", "not YAML"},
		{"unknown field", replace("kubernetesVersion", "kubernetesversion"), "line 6: spec.kubernetesversion: is not a field here; did you mean kubernetesVersion?"},
		{"unknown field deep", replace("  rkeConfig:", "  rkeConfig:\n    etcd: {retention: 3}"), "line 8: spec.rkeConfig.etcd.retention: is not a field here"},
		{"not supported field", replace("  rkeConfig:", "  rkeConfig:\n    machinePools: [{name: a}]"), "line 8: spec.rkeConfig.machinePools: node drivers are not part of drover"},
		{"wrong type", replace("v1.34.4+k3s1", "1.34"), `line 6: spec.kubernetesVersion: is the number 1.34 where text belongs; write it in quotes: "1.34"`},
		{"two documents of one name", good + "---\n" + good, `line 17: metadata.name: "harbour" is described twice, first in the document of line 1`},
		{"no version", replace("  kubernetesVersion: v1.34.4+k3s1\n", ""), "spec.kubernetesVersion: is missing; for example v1.34.4+k3s1"},
		{"version without data", replace("v1.34.4+k3s1", "v1.54.77+k3s1"), `line 6: spec.kubernetesVersion: there is no data for "v1.54.77+k3s1"; known are v1.34.4+k3s1, v1.33.6+k3s1`},
		{"a setting that the neighbour does not have", strings.NewReplacer("v1.34.4", "v1.34.77", "disable: [traefik]", "brand-new: 7").Replace(good), "spec.rkeConfig.machineGlobalConfig.brand-new: is not a setting of v1.34.77+k3s1"},
		{"version without data, and how to go without", replace("v1.34.4+k3s1", "v1.54.77+rke2r1"), " (a server can learn more with --version-data; to go without data of it, with every setting passed on unchecked, write machineGlobalConfig: {x-allow-unknown-args: true})"},
		{"a channel", replace("v1.34.4+k3s1", "stable"), `line 6: spec.kubernetesVersion: "stable" is not a version of k3s or RKE2, as in v1.34.4+k3s1 or v1.34.4+rke2r1`},
		{"a channel, though all is allowed", strings.Replace(replace("v1.34.4+k3s1", "stable"), "tls-san: [k8s.lan]", "x-allow-unknown-args: true", 1), `"stable" is not a version`},
		{"a setting of another distribution", replace("v1.34.4+k3s1", "v1.34.4+rke2r1"), "line 11: spec.rkeConfig.machineGlobalConfig.secrets-encryption: is not a setting of v1.34.4+rke2r1"},
		{"unknown setting", replace("tls-san", "tls-sam"), "line 10: spec.rkeConfig.machineGlobalConfig.tls-sam: is not a setting of v1.34.4+k3s1"},
		{"a setting of the planner", replace("tls-san: [k8s.lan]", "node-label: [a=b]"), "spec.rkeConfig.machineGlobalConfig.node-label: is set by drover itself; use --label"},
		{"setting of wrong type", replace("secrets-encryption: true", "secrets-encryption: 1"), "line 11: spec.rkeConfig.machineGlobalConfig.secrets-encryption: is 1 where true or false belongs"},
		{"octal number", replace(`"0644"`, "0644"), `line 12: spec.rkeConfig.machineGlobalConfig.write-kubeconfig-mode: is the number 0644 with a leading zero; write it in quotes: "0644"`},
		{"option of a wrong type", replace("[traefik]", "[7]"), "machineGlobalConfig.disable: item 0 is 7 where text belongs"},
		{"values of a chart as a text", replace("  rkeConfig:", "  rkeConfig:\n    chartValues: {traefik: 'a: 1'}"), "line 8: spec.rkeConfig.chartValues.traefik: is no mapping"},
		{"values of a chart as a list", replace("  rkeConfig:", "  rkeConfig:\n    chartValues: {traefik: [a]}"), "line 8: spec.rkeConfig.chartValues.traefik: is no mapping"},
		{"an endpoint with a scheme", replace("  rkeConfig:", "  localClusterAuthEndpoint: {enabled: true, fqdn: 'https://api.pier.lan:6443'}\n  rkeConfig:"), `line 7: spec.localClusterAuthEndpoint.fqdn: "https://api.pier.lan:6443" is not a host or host:port`},
		{"a schedule", replace("  rkeConfig:", "  rkeConfig:\n    etcd: {snapshotScheduleCron: nightly}"), `line 8: spec.rkeConfig.etcd.snapshotScheduleCron: "nightly" is not a schedule that k3s reads`},
		{"a setting that drover overwrites", replace("tls-san: [k8s.lan]", "node-name: fixed\n      x-allow-unknown-args: true"), "line 10: spec.rkeConfig.machineGlobalConfig.node-name: is set by drover itself; use --node-name"},
		{"a setting with a field", replace("tls-san: [k8s.lan]", "etcd-snapshot-retention: 5"), "line 10: spec.rkeConfig.machineGlobalConfig.etcd-snapshot-retention: is not a setting here; use spec.rkeConfig.etcd instead"},
		{"a manifest that no plan can have", replace("  rkeConfig:", "  rkeConfig:\n    additionalManifest: '{apiVersion: v1, kind: ConfigMap, data: {a: "+strings.Repeat("x", 800<<10)+"}}'"), "more than the 1024 KiB that a host can be given; the largest parts are additionalManifest 800 KiB"},
		{"another kind", good + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: Quay}\nspec: {finalizers: [a]}\n", "line 15: kind: Namespace of v1 is no document that drover keeps: take it out"},
		{"a field of hosts' registries", replace("  rkeConfig:", "  rkeConfig:\n    registries: {configs: {pier.lan: {auth: {username: robot}}}}"), "line 8: spec.rkeConfig.registries.configs.pier.lan.auth: the login is in a Secret that authConfigSecretName names"},
		{"certificates of hosts' registries", replace("  rkeConfig:", "  rkeConfig:\n    registries: {configs: {pier.lan: {tls: {ca_file: /etc/pier.pem}}}}"), "line 8: spec.rkeConfig.registries.configs.pier.lan.tls: certificates are in caBundle"},
		{"a webhook", replace("  rkeConfig:", "  webhookDeploymentCustomization: {replicaCount: 2}\n  rkeConfig:"), "line 7: spec.webhookDeploymentCustomization: the webhook of Rancher is not part of drover"},
		{"a Cluster API", replace("  rkeConfig:", "  clusterAPIConfig: {clusterName: pier}\n  rkeConfig:"), "line 7: spec.clusterAPIConfig: clusters of Cluster API are not part of drover"},
		{"selectors in the wrong place", replace("  rkeConfig:", "  machineSelectorConfig: [{config: {profile: cis}}]\n  rkeConfig:"), "line 7: spec.machineSelectorConfig: belongs below spec.rkeConfig"},
		{"long name", replace("harbour", strings.Repeat("h", 64)), `is not 2 to 63 lower-case`},
		{"no name", replace("  name: harbour", "  name: ''"), "metadata.name: is missing"},
		{"bad name", replace("harbour", "Harbour"), `line 4: metadata.name: "Harbour" is not 2 to 63 lower-case`},
		{"name of Rancher", replace("harbour", "c-abcde"), "keeps for itself"},
		{"wrong kind", replace("kind: Cluster", "kind: Machine"), `line 2: kind: is "Machine" where Cluster belongs`},
		{"no rkeConfig", good[:strings.Index(good, "  rkeConfig")], "spec.rkeConfig: is missing"},
		{"bad concurrency", replace("  rkeConfig:", "  rkeConfig:\n    upgradeStrategy: {workerConcurrency: 200%}"), `line 8: spec.rkeConfig.upgradeStrategy.workerConcurrency: "200%" is neither`},
		{"relative directory", replace("  rkeConfig:", "  rkeConfig:\n    dataDirectories: {k8sDistro: var/k3s}"), `line 8: spec.rkeConfig.dataDirectories.k8sDistro: "var/k3s" is not an absolute`},
		{"nested directories", replace("  rkeConfig:", "  rkeConfig:\n    dataDirectories: {k8sDistro: /a, systemAgent: /a/b/c}"), "one inside the other"},
		{"directory in another's place", replace("  rkeConfig:", "  rkeConfig:\n    dataDirectories: {k8sDistro: /var/lib/rancher}"), `line 8: spec.rkeConfig.dataDirectories.k8sDistro: k8sDistro ("/var/lib/rancher") and provisioning ("/var/lib/rancher/capr") are the same or one inside the other`},
		{"negative generation", replace("  rkeConfig:", "  rkeConfig:\n    provisionGeneration: -1"), "line 8: spec.rkeConfig.provisionGeneration: -1 is less than 0"},
		{"a bucket's name", replace("  rkeConfig:", "  rkeConfig:\n    etcd: {s3: {bucket: b}}"), `line 8: spec.rkeConfig.etcd.s3.bucket: "b" is not the name of a bucket`},
		{"no bucket", replace("  rkeConfig:", "  rkeConfig:\n    etcd: {s3: {folder: f}}"), "spec.rkeConfig.etcd.s3.bucket: is missing"},
		{"an endpoint with a scheme", replace("  rkeConfig:", "  rkeConfig:\n    etcd: {s3: {bucket: bbb, endpoint: 'https://s3.lan'}}"), `spec.rkeConfig.etcd.s3.endpoint: "https://s3.lan" is not a host or host:port`},
		{"an endpoint with a port that is none", replace("  rkeConfig:", "  rkeConfig:\n    etcd: {s3: {bucket: bbb, endpoint: 's3.lan:70000'}}"), `spec.rkeConfig.etcd.s3.endpoint: "s3.lan:70000" is not a host or host:port`},
		{"a CA on hosts", replace("  rkeConfig:", "  rkeConfig:\n    etcd: {s3: {bucket: bbb, endpointCA: /etc/ca.crt}}"), "spec.rkeConfig.etcd.s3.endpointCA: is the path of a file on hosts"},
		{"a CA of nothing", replace("  rkeConfig:", "  rkeConfig:\n    etcd: {s3: {bucket: bbb, endpointCA: x}}"), "spec.rkeConfig.etcd.s3.endpointCA: is not a certificate in PEM"},
		{"a folder above", replace("  rkeConfig:", "  rkeConfig:\n    etcd: {s3: {bucket: bbb, folder: a/../b}}"), `spec.rkeConfig.etcd.s3.folder: "a/../b" is not a folder`},
		{"a credential's name", replace("  rkeConfig:", "  rkeConfig:\n    etcd: {s3: {cloudCredentialName: x}}"), `spec.rkeConfig.etcd.s3.cloudCredentialName: "x" is not of the form`},
		{"keys in S3's settings", replace("  rkeConfig:", "  rkeConfig:\n    etcd: {s3: {bucket: bbb, secretKey: hush}}"), "spec.rkeConfig.etcd.s3.secretKey: is not a field here"},
		{"a mode of restores", replace("  rkeConfig:", "  rkeConfig:\n    etcdSnapshotRestore: {name: a, generation: 1, restoreRKEConfig: some}"), `spec.rkeConfig.etcdSnapshotRestore.restoreRKEConfig: "some" is none of`},
		{"CA of nothing", replace("spec:", "spec:\n  localClusterAuthEndpoint: {enabled: true, fqdn: k8s.lan, caCerts: x}"), "line 6: spec.localClusterAuthEndpoint.caCerts: is not a PEM certificate"},
		{"CA without a name", replace("spec:", "spec:\n  localClusterAuthEndpoint: {enabled: true, caCerts: x}"), "line 6: spec.localClusterAuthEndpoint.caCerts: needs fqdn beside it"},
		{"bad stack", replace("  rkeConfig:", "  rkeConfig:\n    networking: {stackPreference: ipv5}"), `line 8: spec.rkeConfig.networking.stackPreference: "ipv5" is none of`},
		{"bad environment", replace("spec:", "spec:\n  agentEnvVars: [{name: NO_PROXY, value: 'a, b'}]"), "line 6: spec.agentEnvVars[0].value: has a space"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			docs, err := Parse([]byte(tc.text), data(t))
			var errs strictyaml.Errors
			if !errors.As(err, &errs) || docs != nil {
				t.Fatalf("docs = %v, err = %v", docs, err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

// TestAliasesAreBounded: a few lines that stand for gigabytes, or for themselves without
// end, are refused with their line; each of them once ended the server.
func TestAliasesAreBounded(t *testing.T) {
	self := "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: harbour}\nspec:\n  rkeConfig:\n    chartValues:\n      a: &a [*a]\n"
	tower := "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nspec:\n  rkeConfig:\n    chartValues:\n      a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 8 {
		tower += fmt.Sprintf("      a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	for _, tc := range []struct{ name, text, want string }{
		{"an alias of itself", self, "line 7: spec.rkeConfig.chartValues.a[0]: the alias stands inside of what it repeats"},
		{"an alias of the whole", "&a [*a]", "line 1: [0]: the alias stands inside of what it repeats"},
		{"a tower of aliases", tower, "the file has more than 100000 values, those of aliases counted each time"},
		{"a deep value", strings.Replace(self, "&a [*a]", strings.Repeat("[", 200)+strings.Repeat("]", 200), 1), "mappings and lists stand more than 100 deep in one another"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			docs, err := Parse([]byte(tc.text), data(t))
			if err == nil || docs != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

func TestUnknownSettingsCanBeAllowed(t *testing.T) {
	text := strings.Replace(good, "tls-san: [k8s.lan]", "x-allow-unknown-args: true\n      brand-new: 7", 1)
	if _, err := Parse([]byte(text), data(t)); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add(rke2)
	known := data(f)
	f.Fuzz(func(t *testing.T, text string) {
		docs, err := Parse([]byte(text), known)
		if (err == nil) == (docs == nil) {
			t.Errorf("docs = %v and err = %v", docs, err)
		}
	})
}
