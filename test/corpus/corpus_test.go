// Package corpus_test makes cluster documents of the shapes that people use, from a table of fields, and says of each what has to
// come of it: whether it is taken, with which warning or refusal, and what a machine gets.
package corpus_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/render"
	"github.com/drover-project/drover/server/records"
)

// A shape is one field with one value, and what comes of it.
type shape struct {
	// at is spec, rkeConfig, global or selector, under which field, of the form "name: value", stands.
	at, field string
	// refused and warned are parts of the sentence that names the field; both are empty for a document that is just taken.
	refused, warned string
	// config is in the distribution's config of a machine, absent is not, and file is in the file of the machine at path.
	config, absent string
	path, file     string
}

var shapes = []shape{
	{at: "global", field: "tls-san: [api.quarry.lan]", config: "api.quarry.lan"},
	{at: "global", field: "tls-san: []", absent: "tls-san"},
	{at: "global", field: "tls-san: null", absent: "tls-san"},
	{at: "global", field: `cluster-cidr: ""`, absent: "cluster-cidr"},
	{at: "global", field: "no-such-switch: false", absent: "no-such-switch"},
	{at: "global", field: "no-such-switch: true", refused: "machineGlobalConfig.no-such-switch: is not a setting"},
	{at: "global", field: `disable-kube-proxy: "true"`, config: `"disable-kube-proxy": true`},
	{at: "global", field: `disable-kube-proxy: "FALSE"`, config: `"disable-kube-proxy": false`},
	{at: "global", field: "disable-kube-proxy: perhaps", refused: "machineGlobalConfig.disable-kube-proxy: is \"perhaps\" where true or false belongs"},
	{at: "global", field: "disable: [gadget]", warned: "machineGlobalConfig.disable: item 0 \"gadget\"", config: "gadget"},
	{at: "global", field: "disable: [{a: b}]", refused: "machineGlobalConfig.disable: item 0"},
	{at: "global", field: "system-default-registry: images.quarry.lan", config: "images.quarry.lan"},
	{at: "global", field: "kubelet-arg: [max-pods=70]", config: "max-pods=70"},
	{at: "global", field: "kube-scheduler-arg: [cert-dir=/pki/sched]", config: "cert-dir=/pki/sched"},
	{at: "global", field: "node-label: [a=b]", refused: "machineGlobalConfig.node-label: is set by drover itself"},
	{at: "global", field: "node-label: [a=b], x-allow-unknown-args: true", refused: "machineGlobalConfig.node-label: is set by drover itself"},
	{at: "global", field: "token: mine, x-allow-unknown-args: true", refused: "machineGlobalConfig.token: is set by drover itself"},
	{at: "global", field: "etcd-s3: true", refused: "machineGlobalConfig.etcd-s3: is set by drover itself; use spec.rkeConfig.etcd.s3"},
	{at: "global", field: "etcd-snapshot-retention: 3", refused: "use spec.rkeConfig.etcd instead"},
	{at: "global", field: "data-dir: /srv/k8s", refused: "use spec.rkeConfig.dataDirectories.k8sDistro"},
	{at: "global", field: "own-flag: 7, x-allow-unknown-args: true", warned: "own-flag: is not a setting", config: "own-flag"},
	{at: "selector", field: "kubelet-arg: [max-pods=60]", config: "max-pods=60"},
	{at: "selector", field: "kubelet-arg: []", absent: "max-pods"},
	{at: "selector", field: "kubelet-arg: null", absent: "max-pods"},
	{at: "selector", field: `protect-kernel-defaults: "false"`, config: `"protect-kernel-defaults": false`},
	{at: "rkeConfig", field: "etcd: {snapshotScheduleCron: '0 */8 * * *', snapshotRetention: 4}", config: "0 */8 * * *"},
	{at: "rkeConfig", field: "etcd: {snapshotScheduleCron: '@every 5h'}", config: "@every 5h"},
	{at: "rkeConfig", field: "etcd: {snapshotScheduleCron: nightly}", refused: "etcd.snapshotScheduleCron: \"nightly\" is not a schedule"},
	{at: "rkeConfig", field: "etcd: {snapshotScheduleCron: '0 0 */8 * * *'}", refused: "etcd.snapshotScheduleCron"},
	{at: "rkeConfig", field: "etcd: {snapshotRetention: -2}", refused: "etcd.snapshotRetention: -2 is less than 0"},
	{at: "rkeConfig", field: "chartValues: {some-chart: {a: 1}}"},
	{at: "rkeConfig", field: "chartValues: {some-chart: null}"},
	{at: "rkeConfig", field: "chartValues: {some-chart: 'a: 1'}", refused: "chartValues.some-chart: is no mapping"},
	{at: "rkeConfig", field: "chartValues: {some-chart: [a]}", refused: "chartValues.some-chart: is no mapping"},
	{at: "rkeConfig", field: "additionalManifest: ''"},
	{at: "rkeConfig", field: "additionalManifest: 'a: ['", refused: "additionalManifest"},
	{at: "rkeConfig", field: "upgradeStrategy: {workerConcurrency: 20%}"},
	{at: "rkeConfig", field: "upgradeStrategy: {workerConcurrency: 0%}", refused: "upgradeStrategy.workerConcurrency"},
	{at: "rkeConfig", field: "machinePools: []"},
	{at: "rkeConfig", field: "machinePools: [{name: a}]", refused: "rkeConfig.machinePools: node drivers"},
	{at: "rkeConfig", field: "networking: {stackPreference: ipv6}"},
	{at: "rkeConfig", field: "networking: {stackPreference: both}", refused: "networking.stackPreference"},
	{at: "rkeConfig", field: "dataDirectories: {k8sDistro: srv/k8s}", refused: "dataDirectories.k8sDistro"},
	{at: "global", field: "system-default-registry: 'https://images.quarry.lan'", refused: "machineGlobalConfig.system-default-registry: is not a registry"},
	{at: "global", field: "system-default-registry: images.quarry.lan/", refused: "machineGlobalConfig.system-default-registry: is not a registry"},
	{at: "selector", field: "system-default-registry: 'images.quarry.lan:5000'", config: "images.quarry.lan:5000"},
	{at: "global", field: "cluster-cidr: 172.20.0.0/15, service-cidr: 172.30.0.0/16, cluster-dns: 172.30.0.10", config: "172.20.0.0/15"},
	{at: "global", field: "cluster-cidr: 172.20.0.0, debug: true", refused: "machineGlobalConfig.cluster-cidr: \"172.20.0.0\" is not a range"},
	{at: "global", field: "cluster-cidr: 172.20.0.0/15, service-cidr: 172.21.0.0/16", refused: "machineGlobalConfig.cluster-cidr: 172.20.0.0/15 of pods overlaps"},
	{at: "global", field: "service-cidr: 172.30.0.0/16, cluster-dns: 172.31.0.10", refused: "machineGlobalConfig.cluster-dns: 172.31.0.10 is not in the range of services"},
	{at: "global", field: "service-cidr: 172.30.0.0/16, cluster-dns: 172.31.0.10, x-allow-unknown-args: true", warned: "cluster-dns: 172.31.0.10 is not in the range", config: "172.31.0.10"},
	{at: "global", field: "service-node-port-range: '20000:22767'", refused: "machineGlobalConfig.service-node-port-range: \"20000:22767\" is not a range of ports"},
	{at: "rkeConfig", field: "registries: {mirrors: {docker.io: {endpoint: ['https://mirror.quarry.lan'], rewrite: {'^library/(.*)': 'hub/$1'}}}}", path: "/registries.yaml", file: "https://mirror.quarry.lan"},
	{at: "rkeConfig", field: "registries: {mirrors: {'*': {endpoint: ['mirror.quarry.lan:5000']}}}", path: "/registries.yaml", file: `"mirror.quarry.lan:5000"`},
	{at: "rkeConfig", field: "registries: {mirrors: {docker.io: {endpoint: ['mirror.quarry.lan:port']}}}", refused: "registries.mirrors.docker.io.endpoint[0]: \"mirror.quarry.lan:port\" is not a URL"},
	{at: "rkeConfig", field: "registries: {mirrors: {docker.io: {endpoint: ['https://me:word@mirror.quarry.lan']}}}", refused: "registries.mirrors.docker.io.endpoint[0]: has credentials"},
	{at: "rkeConfig", field: "registries: {configs: {mirror.quarry.lan: {insecureSkipVerify: true}}}", path: "/registries.yaml", file: `"insecure_skip_verify":true`},
	{at: "rkeConfig", field: "registries: {configs: {mirror.quarry.lan: {authConfigSecretName: hub-login}}}", path: "/registries.yaml", file: `"username":"robot"`},
	{at: "rkeConfig", field: "registries: {configs: {mirror.quarry.lan: {auth: {username: robot}}}}", refused: "the login is in a Secret that authConfigSecretName names"},
	{at: "rkeConfig", field: "registries: {}"},
	{at: "rkeConfig", field: "machineSelectorFiles: [{fileSources: [{configMap: {name: notice, items: [{key: motd, path: /etc/motd, permissions: '0644'}]}}]}]", path: "/etc/motd", file: "mind the edge"},
	{at: "rkeConfig", field: "machineSelectorFiles: [{machineLabelSelector: {matchLabels: {rack: a1}}, fileSources: [{secret: {name: hub-login, items: [{key: password, path: /etc/robot}]}}]}]", path: "/etc/robot", file: "hush"},
	{at: "rkeConfig", field: "machineSelectorFiles: [{fileSources: [{secret: {name: hub-login}, configMap: {name: notice, items: [{key: motd, path: /etc/motd}]}}]}]", refused: "fileSources[0]: names both a secret and a configMap"},
	{at: "rkeConfig", field: "machineSelectorFiles: [{fileSources: [{configMap: {name: notice, items: [{key: motd, path: etc/motd}]}}]}]", refused: "items[0].path: \"etc/motd\" is not an absolute, clean path"},
	{at: "rkeConfig", field: "machineSelectorFiles: []"},
	{at: "rkeConfig", field: "machineSelectorConfig: [{machineLabelSelector: {matchLabels: {rack: 'a 1'}}, config: {debug: true}}]", refused: "machineLabelSelector.matchLabels: \"a 1\" of \"rack\" is not a value"},
	{at: "rkeConfig", field: "etcd: {s3: {bucket: quarry-etcd, endpoint: 's3.quarry.lan:9000', region: north, folder: a/b}}", config: `"etcd-s3": true`},
	{at: "rkeConfig", field: "etcd: {s3: {bucket: '', endpoint: '', cloudCredentialName: ''}}", absent: "etcd-s3"},
	{at: "rkeConfig", field: "etcd: {s3: {bucket: quarry-etcd, endpoint: 'http://s3.quarry.lan'}}", refused: "etcd.s3.endpoint: \"http://s3.quarry.lan\" is not a host or host:port"},
	{at: "rkeConfig", field: "etcd: {s3: {bucket: quarry-etcd, endpoint: 's3.quarry.lan:0'}}", refused: "etcd.s3.endpoint: \"s3.quarry.lan:0\" is not a host or host:port"},
	{at: "rkeConfig", field: "etcd: {s3: {bucket: Quarry_Etcd}}", refused: "etcd.s3.bucket: \"Quarry_Etcd\" is not the name of a bucket"},
	{at: "rkeConfig", field: "etcd: {s3: {bucket: quarry-etcd, accessKey: mine}}", refused: "etcd.s3.accessKey: is not a field here"},
	{at: "rkeConfig", field: "etcd: {s3: {endpoint: s3.quarry.lan}}", refused: "etcd.s3.bucket: is missing"},
	{at: "spec", field: "enableNetworkPolicy: false"},
	{at: "spec", field: "localClusterAuthEndpoint: {enabled: true, fqdn: 'api.quarry.lan:64430000'}", refused: "localClusterAuthEndpoint.fqdn"},
	{at: "spec", field: "enableNetworkPolicy: true", refused: "spec.enableNetworkPolicy"},
	{at: "spec", field: "localClusterAuthEndpoint: {enabled: true, fqdn: 'api.quarry.lan:6443'}"},
	{at: "spec", field: "localClusterAuthEndpoint: {enabled: true, fqdn: 'https://api.quarry.lan'}", refused: "localClusterAuthEndpoint.fqdn"},
	{at: "spec", field: "localClusterAuthEndpoint: {enabled: true, fqdn: 'api.quarry.lan/'}", refused: "localClusterAuthEndpoint.fqdn"},
	{at: "spec", field: "kubernetesversions: v1", refused: "spec.kubernetesversions: is not a field"},
}

// line is the line of a document in which the field of a shape stands.
const line = 7

// document puts the field of a shape into an otherwise plain document.
func (s shape) document(version string) string {
	text := "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: quarry}\nspec:\n  kubernetesVersion: " + version + "\n"
	switch s.at {
	case "spec":
		return text + "  rkeConfig: {}\n  " + s.field + "\n"
	case "rkeConfig":
		return text + "  rkeConfig:\n    " + s.field + "\n"
	case "global":
		return text + "  rkeConfig:\n    machineGlobalConfig: {" + s.field + "}\n"
	}
	return text + "  rkeConfig:\n    machineSelectorConfig: [{machineLabelSelector: {matchLabels: {rack: a1}}, config: {" + s.field + "}}]\n" +
		"    machineGlobalConfig: {kubelet-arg: [max-pods=50]}\n"
}

func TestCorpus(t *testing.T) {
	known, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1.31.14+k3s1", "v1.34.4+k3s1", "v1.31.14+rke2r1", "v1.34.4+rke2r1"} {
		for _, s := range shapes {
			t.Run(fmt.Sprintf("%s %s %.60s", version, s.at, s.field), func(t *testing.T) {
				docs, err := clusterspec.Parse([]byte(s.document(version)), known)
				if s.refused != "" {
					if err == nil || !strings.Contains(err.Error(), s.refused) || !strings.Contains(err.Error(), fmt.Sprintf("line %d: ", line)) {
						t.Fatalf("got %v, want a refusal in line %d with %q", err, line, s.refused)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if warned := strings.Join(clusterspec.Warnings(docs[0], known), "\n"); !strings.Contains(warned, s.warned) || s.warned == "" && warned != "" {
					t.Errorf("warnings %q, want %q", warned, s.warned)
				}
				config := fileOf(t, docs[0], known, "/50-rancher.yaml")
				if !strings.Contains(config, s.config) || s.absent != "" && strings.Contains(config, s.absent) {
					t.Errorf("want %q, and not %q, in %s", s.config, s.absent, config)
				}
				if s.path == "" {
					return
				}
				if file := fileOf(t, docs[0], known, s.path); !strings.Contains(file, s.file) {
					t.Errorf("want %q in %s", s.file, file)
				}
			})
		}
	}
}

// kept are the Secret and the ConfigMap that documents refer to.
func kept() map[string]objects.Object {
	all := map[string]objects.Object{}
	for _, o := range []objects.Object{
		{Kind: objects.Secret, Type: objects.BasicAuthSecret, Data: map[string][]byte{"username": []byte("robot"), "password": []byte("hush")}, Metadata: objects.Metadata{Name: "hub-login"}},
		{Kind: objects.ConfigMap, Data: map[string][]byte{"motd": []byte("mind the edge")}, Metadata: objects.Metadata{Name: "notice"}},
	} {
		o.Namespace = "fleet-default"
		all[o.Key()] = o
	}
	return all
}

// fileOf is the file whose path has that end on the machine that begins the cluster.
func fileOf(t *testing.T, doc clusterspec.Document, known *versions.Data, end string) string {
	t.Helper()
	release, _ := known.Permissive(doc.Spec.KubernetesVersion)
	plan, err := render.Plan(render.Input{
		Cluster: records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "quarry", UID: "u"}, ID: "c-m-abcd2345", Spec: doc.Spec},
		Machine: &records.Machine{Object: records.Object{Namespace: "fleet-default", Name: "custom-1", UID: "m", Labels: map[string]string{"rack": "a1"}},
			Roles: records.Roles{Etcd: true, ControlPlane: true, Worker: true}, OS: "linux"},
		Secrets: &records.ClusterSecrets{ServerToken: "s", AgentToken: "a"}, Release: &release, Objects: kept(),
	}, render.Newest)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range plan.Files {
		if strings.HasSuffix(f.Path, end) {
			text, err := f.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	t.Fatalf("the plan has no file %s", end)
	return ""
}

// TestStreams: what people put into one file, in the order in which they do it.
func TestStreams(t *testing.T) {
	known, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	const (
		// Each has four lines, or three, below that of its dashes.
		first   = "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: quarry}\nspec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {}}\n"
		imports = "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: gravel, namespace: north}\n"
		docker  = "apiVersion: management.cattle.io/v3\nkind: Cluster\nmetadata: {name: sand}\nspec: {rancherKubernetesEngineConfig: {}}\n"
		login   = "apiVersion: v1\nkind: Secret\nmetadata: {name: hub-login}\nstringData: {username: robot, password: hush}\n"
		notice  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notice}\ndata: {motd: mind the edge}\n"
		role    = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: quarry}\n"
	)
	for _, s := range []struct {
		name      string
		documents []string
		clusters  string
		objects   int
		// refused are the lines of the error, each by its beginning.
		refused []string
	}{
		{name: "one of each kind", documents: []string{first, imports, docker, login, notice}, clusters: "quarry gravel sand", objects: 2},
		{name: "objects after the cluster that names them", documents: []string{first, notice}, clusters: "quarry", objects: 1},
		{name: "nothing between the lines", documents: []string{"", "# a word\n", first, "", "\n"}, clusters: "quarry"},
		{name: "objects alone", documents: []string{login}, objects: 1},
		{name: "one name in two namespaces", documents: []string{imports, strings.Replace(imports, "north", "south", 1)}, clusters: "gravel gravel"},
		{name: "one name of two kinds", documents: []string{notice, strings.Replace(login, "hub-login", "notice", 1)}, objects: 2},
		{name: "twice", documents: []string{first, first}, refused: []string{`line 9: metadata.name: "quarry" is described twice, first in the document of line 2`}},
		{name: "another kind between", documents: []string{first, role, docker}, refused: []string{"line 8: kind: Role of rbac.authorization.k8s.io/v1 is no document that drover keeps"}},
		{name: "each fault at its line", documents: []string{strings.Replace(first, "rkeConfig", "rkeconfig", 1), strings.Replace(docker, "name: sand", "name: Sand", 1)},
			refused: []string{"line 5: spec.rkeconfig: is not a field here", `line 9: metadata.name: "Sand" is not 2 to 63`}},
		{name: "nothing at all", documents: []string{"", "# a word\n"}, refused: []string{"there is no document in this text"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			var text strings.Builder
			for _, one := range s.documents {
				text.WriteString("---\n" + one)
			}
			stream, err := clusterspec.ParseStream([]byte(text.String()), known)
			if len(s.refused) > 0 {
				if err == nil || len(stream.Clusters)+len(stream.Objects) > 0 {
					t.Fatalf("taken, want %q", s.refused)
				}
				lines := strings.Split(err.Error(), "\n")
				if len(lines) != len(s.refused) {
					t.Fatalf("got %q, want %q", lines, s.refused)
				}
				for i, want := range s.refused {
					if !strings.HasPrefix(lines[i], want) {
						t.Errorf("got %s, want %s", lines[i], want)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, doc := range stream.Clusters {
				names = append(names, doc.Metadata.Name)
			}
			if got := strings.Join(names, " "); got != s.clusters || len(stream.Objects) != s.objects {
				t.Errorf("clusters %s and %d objects", got, len(stream.Objects))
			}
		})
	}
}
