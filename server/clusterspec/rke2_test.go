package clusterspec

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const rke2 = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: harbour}
spec:
  kubernetesVersion: v1.34.4+rke2r1
  localClusterAuthEndpoint: {enabled: true}
  rkeConfig:
    machineGlobalConfig: {cni: cilium, tls-san: [k8s.lan], profile: cis, etcd-expose-metrics: false}
    machineSelectorConfig:
    - machineLabelSelector: {matchLabels: {rke.cattle.io/worker-role: "true"}}
      config: {kubelet-arg: ["max-pods=200"]}
    upgradeStrategy:
      controlPlaneConcurrency: "1"
      workerConcurrency: "10%"
      workerDrainOptions: {enabled: true, deleteEmptyDirData: true, gracePeriod: -1, timeout: 300, preDrainHooks: [{annotation: example.com/drained}]}
      controlPlaneDrainOptions: {enabled: true}
    registries:
      mirrors: {docker.io: {endpoint: ["https://mirror.lan/v2"], rewrite: {"^library/(.*)": "hub/$1"}}}
      configs: {mirror.lan: {authConfigSecretName: mirror-auth, tlsSecretName: mirror-tls}}
    networking: {stackPreference: ipv4}
    provisionGeneration: 2
    machineSelectorFiles:
    - machineLabelSelector: {matchLabels: {rke.cattle.io/control-plane-role: "true"}}
      fileSources:
      - secret:
          name: audit
          defaultPermissions: "0600"
          items: [{key: policy, path: /etc/audit/policy.yaml, dynamic: true, permissions: "644", hash: "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="}]
        configMap: {name: "", items: []}
      - configMap: {name: motd, items: [{key: motd, path: /etc/motd}]}
    additionalManifest: |
      apiVersion: v1
      kind: Namespace
      metadata: {name: a}
      ---
      {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}}
`

// TestRKE2Document: everything of the wire's document that drover acts on is read, and asks for no warning.
func TestRKE2Document(t *testing.T) {
	docs, err := Parse([]byte(rke2), data(t))
	if err != nil {
		t.Fatal(err)
	}
	rke := docs[0].Spec.RKEConfig
	u := rke.UpgradeStrategy
	if *u.WorkerDrainOptions.GracePeriod != -1 || u.ControlPlaneDrainOptions.GracePeriod != nil || u.WorkerDrainOptions.PreDrainHooks[0].Annotation != "example.com/drained" {
		t.Errorf("drains: %+v and %+v", u.WorkerDrainOptions, u.ControlPlaneDrainOptions)
	}
	o, secret := rke.MachineSelectorFiles[0].FileSources[0].Object()
	want := &FileObject{Name: "audit", DefaultPermissions: "0600", Items: []FileItem{
		{Key: "policy", Path: "/etc/audit/policy.yaml", Dynamic: true, Permissions: "644", Hash: "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},
	}}
	if diff := cmp.Diff(want, o); diff != "" || !secret {
		t.Errorf("secret %v %s", secret, diff)
	}
	if o, secret := rke.MachineSelectorFiles[0].FileSources[1].Object(); secret || o.Name != "motd" {
		t.Errorf("the second source is %+v, a Secret: %v", o, secret)
	}
	if c := rke.Registries.Configs["mirror.lan"]; c.AuthConfigSecretName != "mirror-auth" || c.TLSSecretName != "mirror-tls" {
		t.Errorf("registry %+v", c)
	}
	if list := Warnings(docs[0], data(t)); list != nil {
		t.Errorf("warnings %q", list)
	}
}

func TestRKE2Settings(t *testing.T) {
	for _, tc := range []struct{ setting, want string }{
		{"cni: [multus, canal]", ""},
		{`cni: "multus,canal"`, ""},
		{"cni: [canal]", ""},
		{"cni: none", ""},
		{"cni: weave", `cni: item 0 "weave" is none of none, calico, canal`},
		{"cni: [multus, weave]", `cni: item 0 "multus" is none of`},
		{"cni: 3", "cni: is 3 where a list of texts belongs"},
		{"ingress-controller: traefik", ""},
		{"disable: [rke2-ingress-nginx, rke2-snapshot-controller]", ""},
		{"profile: null", ""},
		{"profile: cis-1.5", "profile: cis-1.5 is none of cis, etcd"},
		{"kube-apiserver-extra-mount: ['/a:/a']", ""},
		{"etcd-extra-env: [A=b]", ""},
		{"service-node-port-range: 30000", ""},
		{"control-plane-resource-requests: 'kube-apiserver-cpu=1'", ""},
		{"audit-policy-file: {a: b}", "audit-policy-file: is a list or a mapping where text belongs"},
		{"node-name: a", "node-name: is set by drover itself; use --node-name"},
		{"flannel-backend: vxlan", "flannel-backend: is not a setting of v1.34.4+rke2r1"},
		{"embedded-registry: yes", "embedded-registry: is \"yes\" where true or false belongs"},
	} {
		t.Run(tc.setting, func(t *testing.T) {
			text := strings.Replace(rke2, "cni: cilium, tls-san: [k8s.lan], profile: cis", tc.setting, 1)
			_, err := Parse([]byte(text), data(t))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), "line 8: spec.rkeConfig.machineGlobalConfig."+tc.want)) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

func TestRKE2DocumentRefused(t *testing.T) {
	for _, tc := range []struct{ name, old, new, want string }{
		{"errors ignored", "gracePeriod: -1", "ignoreErrors: true", "line 15: spec.rkeConfig.upgradeStrategy.workerDrainOptions.ignoreErrors: cannot be true"},
		{"negative time", "timeout: 300", "timeout: -1", "workerDrainOptions.timeout: -1 is less than 0"},
		{"hook without a name", "example.com/drained", "''", `line 15: spec.rkeConfig.upgradeStrategy.workerDrainOptions.preDrainHooks[0].annotation: "" is not the name of an annotation`},
		{"hook of two slashes", "example.com/drained", "a/b/c", `"a/b/c" is not the name of an annotation`},
		{"hook of a bad domain", "example.com/drained", "Example.com/drained", "is not the name of an annotation"},
		{"long hook", "example.com/drained", strings.Repeat("a.", 127) + "a/b", "is not the name of an annotation"},
		{"long end of a hook", "example.com/drained", "a/" + strings.Repeat("b", 64), "is not the name of an annotation"},
		{"concurrency of a half", `"10%"`, `"0.5"`, `workerConcurrency: "0.5" is neither`},
		{"concurrency of 0%", `"10%"`, `"0%"`, `workerConcurrency: "0%" is neither`},
		{"endpoint of another scheme", "https://mirror.lan/v2", "oci://mirror.lan", `line 18: spec.rkeConfig.registries.mirrors.docker.io.endpoint[0]: "oci://mirror.lan" is not a URL, such as https://mirror.example.com, nor a host or host:port`},
		{"endpoint of a port that is none", "https://mirror.lan/v2", "mirror.lan:65536", `"mirror.lan:65536" is not a URL`},
		{"endpoint with a question", "https://mirror.lan/v2", "mirror.lan/v2?ns=a", `"mirror.lan/v2?ns=a" is not a URL`},
		{"endpoint of nothing", "https://mirror.lan/v2", "https:///v2", `"https:///v2" is not a URL`},
		{"bare endpoint with a password", "https://mirror.lan", "u:p@mirror.lan", "endpoint[0]: has credentials; name a Secret"},
		{"endpoint with a password", "https://mirror.lan", "https://u:p@mirror.lan", "line 18: spec.rkeConfig.registries.mirrors.docker.io.endpoint[0]: has credentials; name a Secret"},
		{"rewrite that is none", "^library/(.*)", "^library/(.*", `"^library/(.*" is not a regular expression`},
		{"name of a Secret", "mirror-auth", "Mirror_Auth", `line 19: spec.rkeConfig.registries.configs.mirror.lan.authConfigSecretName: "Mirror_Auth" is not the name of a Secret`},
		{"name of a TLS Secret", "mirror-tls", "a/b", `tlsSecretName: "a/b" is not the name of a Secret`},
		{"two objects", `configMap: {name: "", items: []}`, "configMap: {name: a, items: [{key: a, path: /a}]}", "machineSelectorFiles[0].fileSources[0]: names both a secret and a configMap"},
		{"no object", "configMap: {name: motd, items: [{key: motd, path: /etc/motd}]}", "configMap: {name: ''}", "machineSelectorFiles[0].fileSources[1]: names neither a secret nor a configMap"},
		{"no items", "{name: motd, items: [{key: motd, path: /etc/motd}]}", "{name: motd}", "fileSources[1].configMap.items: is empty"},
		{"name of an object", "name: audit", "name: Audit", `fileSources[0].secret.name: "Audit" is not the name of a Kubernetes object`},
		{"relative path", "/etc/motd", "etc/motd", `fileSources[1].configMap.items[0].path: "etc/motd" is not an absolute, clean path`},
		{"path of two spellings", "/etc/motd", "/etc/../motd", "is not an absolute, clean path"},
		{"path twice", "/etc/motd", "/etc/audit/policy.yaml", `"/etc/audit/policy.yaml" is the path of spec.rkeConfig.machineSelectorFiles[0].fileSources[0].secret.items[0], too`},
		{"drover's own file", "/etc/motd", "/etc/rancher/rke2/config.yaml.d/50-rancher.yaml", "is the file in which drover writes machineGlobalConfig"},
		{"permissions", `"644"`, `"rw"`, `items[0].permissions: "rw" is not an octal number such as "0600"`},
		{"default permissions", `defaultPermissions: "0600"`, `defaultPermissions: "0888"`, `secret.defaultPermissions: "0888" is not an octal number`},
		{"no key", "{key: motd, ", "{", `items[0].key: "" is not a key`},
		{"a short hash", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "47DE", `items[0].hash: "47DE" is not a SHA-256 in base64`},
		{"an operator that is none", "- machineLabelSelector: {matchLabels: {rke.cattle.io/control-plane-role: \"true\"}}", "- machineLabelSelector: {matchExpressions: [{key: a, operator: Is}]}", `machineSelectorFiles[0].machineLabelSelector.matchExpressions[0].operator: "Is" is none of`},
		{"manifest that is not YAML", "metadata: {name: a}\n", "metadata: {name: a\n", "line 31: spec.rkeConfig.additionalManifest: of the manifest, line 2: is not YAML"},
		{"manifest that is a text", "apiVersion: v1\n      kind: Namespace\n      metadata: {name: a}\n", "hello\n", "of the manifest, line 1: a value of another type is expected"},
		{"manifest without a kind", "kind: Namespace\n      metadata: {name: a}", "metadata: {name: a}", "of the manifest, line 1: the document has no apiVersion and kind"},
		{"too much", "name: motd,", "name: motd, defaultPermissions: '" + strings.Repeat("7", maxSpec) + "',", "line 4: spec: has 1025 KiB, more than the 1024 KiB that a host can be given; the largest parts are machineSelectorFiles 1024 KiB, upgradeStrategy 0 KiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := strings.Replace(rke2, tc.old, tc.new, 1)
			if text == rke2 {
				t.Fatalf("%q is not in the document", tc.old)
			}
			docs, err := Parse([]byte(text), data(t))
			if err == nil || docs != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %.2000v\nwant %s", err, tc.want)
			}
		})
	}
}

// TestAVersionWithoutData passes when its owner asks for it, with all its settings and a warning.
func TestAVersionWithoutData(t *testing.T) {
	text := strings.Replace(strings.Replace(rke2, "v1.34.4+rke2r1", "v1.39.1+rke2r1", 1), "cni: cilium", "x-allow-unknown-args: true, cni: weave, brand-new: 7", 1)
	text = strings.Replace(text, `config: {kubelet-arg: ["max-pods=200"]}`, "config: {another-new: {a: b}}", 1)
	docs, err := Parse([]byte(text), data(t))
	if err != nil {
		t.Fatal(err)
	}
	if config := docs[0].Spec.RKEConfig.MachineGlobalConfig; config["brand-new"] != int64(7) || config["cni"] != "weave" {
		t.Errorf("config %v", config)
	}
	list := Warnings(docs[0], data(t))
	if len(list) != 1 || !strings.HasPrefix(list[0], "spec.kubernetesVersion: UnknownVersionData: there are no data of v1.39.1+rke2r1") {
		t.Errorf("warnings %q", list)
	}
}

func TestWarnings(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"cni of k3s", strings.Replace(good, "disable: [traefik]", "cni: calico", 1), []string{"spec.rkeConfig.machineGlobalConfig.cni: v1.34.4+k3s1 has no such setting, so calico is left out"}},
		{"nothing of another distribution", strings.Replace(good, "disable: [traefik]", "cni: ''\n      profile: null", 1), nil},
		{"no time to end", strings.Replace(rke2, "gracePeriod: -1", "gracePeriod: 0", 1), []string{"spec.rkeConfig.upgradeStrategy.workerDrainOptions.gracePeriod: 0 ends pods at once; leave it out, or write -1, for each pod's own time"}},
		{"no time to end, and no drain", strings.Replace(rke2, "{enabled: true, deleteEmptyDirData: true, gracePeriod: -1,", "{gracePeriod: 0,", 1), nil},
		{"a setting unchecked", strings.Replace(rke2, "cni: cilium", "x-allow-unknown-args: true, brand-new: 7", 1), []string{"spec.rkeConfig.machineGlobalConfig.brand-new: is not a setting of v1.34.4+rke2r1 and is passed on unchecked"}},
		{"a file that overrules", strings.Replace(rke2, "/etc/motd", "/etc/rancher/rke2/config.yaml.d/99.yaml", 1), []string{"spec.rkeConfig.machineSelectorFiles[0].fileSources[1]: /etc/rancher/rke2/config.yaml.d/99.yaml is read beside what drover writes for the node, and may overrule it"}},
		{"Docker hosts", docker, nil},
		{"a patch level without data", strings.Replace(good, "v1.34.4+k3s1", "v1.34.41+k3s1", 1), []string{"spec.kubernetesVersion: UnknownVersionData: there are no data of v1.34.41+k3s1; " +
			"it is taken with the settings of v1.34.4+k3s1 (a server can learn more with --version-data; known are v1.34.4+k3s1, v1.34.3+k3s1, v1.34.2+k3s1, v1.34.1+k3s1)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			docs, err := Parse([]byte(tc.text), data(t))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, Warnings(docs[0], data(t))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestManifestOfManyDocuments(t *testing.T) {
	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, "      ---\n      apiVersion: v1\n      kind: Namespace\n      metadata: {name: n%d}\n", i)
	}
	text := strings.Replace(rke2, "      ---\n", many.String()+"      ---\n      # only a comment\n      ---\n", 1)
	if _, err := Parse([]byte(text), data(t)); err != nil {
		t.Error(err)
	}
}

func TestDataDirectories(t *testing.T) {
	for dirs, want := range map[string]string{
		"{k8sDistro: /data/rke2, provisioning: /data/capr, systemAgent: /data/agent}": "",
		"{k8sDistro: /data/rke2}":                                  "",
		"{k8sDistro: /var/lib/rancher/rke2-data, systemAgent: ''}": "", // begins alike, and is another
		"{k8sDistro: /a, systemAgent: /a}":                         `dataDirectories.systemAgent: k8sDistro ("/a") and systemAgent ("/a") are`,
		"{k8sDistro: /a/b/c/d, systemAgent: /a}":                   `dataDirectories.systemAgent: k8sDistro ("/a/b/c/d") and systemAgent ("/a") are`,
		"{k8sDistro: /a, systemAgent: /a/b/c/d}":                   `dataDirectories.systemAgent: k8sDistro ("/a") and systemAgent ("/a/b/c/d") are`,
		"{systemAgent: /var/lib/rancher/rke2/agent}":               `dataDirectories.systemAgent: k8sDistro ("/var/lib/rancher/rke2") and systemAgent`,
		"{systemAgent: /var}":                                      `dataDirectories.systemAgent: k8sDistro ("/var/lib/rancher/rke2") and systemAgent ("/var") are`,
		"{k8sDistro: /a/}":                                         `dataDirectories.k8sDistro: "/a/" is not an absolute, clean path`,
		"{k8sDistro: /}":                                           `dataDirectories.k8sDistro: "/" is not an absolute, clean path`,
		"{k8sDistro: /a b}":                                        `dataDirectories.k8sDistro: "/a b" is not an absolute, clean path of plain characters`,
	} {
		_, err := Parse([]byte(strings.Replace(rke2, "  rkeConfig:\n", "  rkeConfig:\n    dataDirectories: "+dirs+"\n", 1)), data(t))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "line 8: spec.rkeConfig."+want)) {
			t.Errorf("%s: %v, want %s", dirs, err, want)
		}
	}
}

func TestItems(t *testing.T) {
	for _, value := range []any{"multus,calico", "multus, calico,", []any{"multus", "calico"}, []any{"multus,calico"}} {
		if diff := cmp.Diff([]string{"multus", "calico"}, argItems(value)); diff != "" {
			t.Errorf("%v: %s", value, diff)
		}
	}
	for _, value := range []any{nil, "", []any{}} {
		if got := argItems(value); got != nil {
			t.Errorf("%v: %q", value, got)
		}
	}
}

func TestRegistryCA(t *testing.T) {
	const pem = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"
	for _, given := range []string{pem, base64.StdEncoding.EncodeToString([]byte(pem))} {
		if got := (RegistryConfig{CABundle: given}).CA(); got != pem {
			t.Errorf("of %q: %q", given, got)
		}
	}
}
