// Package corpus_test makes cluster documents of the shapes that people use, from a table of fields, and says of each what has to
// come of it: whether it is taken, with which warning or refusal, and what a machine gets.
package corpus_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/planner/render"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/versions"
)

// A shape is one field with one value, and what comes of it.
type shape struct {
	// at is spec, rkeConfig, global or selector, under which field, of the form "name: value", stands.
	at, field string
	// refused and warned are parts of the sentence that names the field; both are empty for a document that is just taken.
	refused, warned string
	// config is in the distribution's config of a machine, absent is not.
	config, absent string
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
	{at: "spec", field: "enableNetworkPolicy: false"},
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
				config := configOf(t, docs[0], known)
				if !strings.Contains(config, s.config) || s.absent != "" && strings.Contains(config, s.absent) {
					t.Errorf("want %q, and not %q, in %s", s.config, s.absent, config)
				}
			})
		}
	}
}

// configOf is the distribution's config of the machine that begins the cluster.
func configOf(t *testing.T, doc clusterspec.Document, known *versions.Data) string {
	t.Helper()
	release, _ := known.Permissive(doc.Spec.KubernetesVersion)
	plan, err := render.Plan(render.Input{
		Cluster: records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "quarry", UID: "u"}, ID: "c-m-abcd2345", Spec: doc.Spec},
		Machine: &records.Machine{Object: records.Object{Namespace: "fleet-default", Name: "custom-1", UID: "m", Labels: map[string]string{"rack": "a1"}},
			Roles: records.Roles{Etcd: true, ControlPlane: true, Worker: true}, OS: "linux"},
		Secrets: &records.ClusterSecrets{ServerToken: "s", AgentToken: "a"}, Release: &release,
	}, render.Newest)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range plan.Files {
		if strings.HasSuffix(f.Path, "/50-rancher.yaml") {
			text, err := f.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	t.Fatal("the plan has no config")
	return ""
}
