package clusterspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestForms: values by which a service would not start on a host, or a cluster would have no DNS, are refused at their line.
func TestForms(t *testing.T) {
	const at, know = "spec.rkeConfig.machineGlobalConfig.", " (where a cluster runs with it, or you know better, add x-allow-unknown-args: true)"
	for _, tc := range []struct{ settings, k3s, rke2 string }{
		{"cluster-cidr: 10.61.0.0", `cluster-cidr: "10.61.0.0" is not a range such as 10.43.0.0/16`, "="},
		{"cluster-cidr: '10.61.0.0/16,10.62.0.0/16'", `cluster-cidr: "10.61.0.0/16,10.62.0.0/16" has 2 ranges; there are one, or one of IPv4 and one of IPv6`, "="},
		{"service-cidr: '10.62.0.0/16, fd62::/112'", `service-cidr: "10.62.0.0/16, fd62::/112" is not a range`, "="},
		{"cluster-cidr: '10.61.0.0/16,fd61::/56', service-cidr: '10.62.0.0/16,fd62::/112', cluster-dns: '10.62.0.10,fd62::a'", "", ""},
		{"cluster-cidr: 10.43.0.0/17", "cluster-cidr: 10.43.0.0/17 of pods overlaps with 10.43.0.0/16 of services" + know, "="},
		{"service-cidr: 10.42.64.0/18", "service-cidr: 10.42.0.0/16 of pods overlaps with 10.42.64.0/18 of services" + know, "="},
		{"cluster-dns: dns.lan", `cluster-dns: "dns.lan" is not an IP address`, "="},
		{"cluster-dns: 10.44.0.10", "cluster-dns: 10.44.0.10 is not in the range of services, 10.43.0.0/16; pods would ask an address without a service. Both have to be set together" + know, "="},
		{"service-cidr: 10.62.0.0/16, cluster-dns: 10.43.0.10", "cluster-dns: 10.43.0.10 is not in the range of services, 10.62.0.0/16", "="},
		{"cluster-domain: my_cluster", `cluster-domain: "my_cluster" is not the name of a domain such as cluster.local`, "="},
		{"service-node-port-range: '31000:31999'", `service-node-port-range: "31000:31999" is not a range of ports such as 30000-32767`, "="},
		{"service-node-port-range: 31000-31999", "", ""},
		{"system-default-registry: 'https://images.lan'", "system-default-registry: is not a registry; write it as registry.example.com, registry.example.com:5000 or registry.example.com/hub",
			"system-default-registry: is not a registry that can be read here; write it as registry.example.com or registry.example.com:5000, without https:// and without a path"},
		{"system-default-registry: images.lan/", "system-default-registry: is not a registry; write", "system-default-registry: is not a registry that"},
		{"system-default-registry: 'images.lan:5000/hub'", "", "system-default-registry: is not a registry that can be read here"},
		{"system-default-registry: 'images.lan:5000'", "", ""},
	} {
		for version, want := range map[string]string{"v1.34.4+k3s1": tc.k3s, "v1.34.4+rke2r1": tc.rke2} {
			if want == "=" {
				want = tc.k3s
			}
			text := "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: quarry}\nspec:\n  kubernetesVersion: " + version +
				"\n  rkeConfig:\n    machineGlobalConfig: {" + tc.settings + "}\n"
			docs, err := Parse([]byte(text), data(t))
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "line 7: "+at+want)) {
				t.Errorf("%s %s: %v, want %s", version, tc.settings, err, want)
			}
			if want == "" && err == nil {
				if diff := cmp.Diff([]string(nil), Warnings(docs[0], data(t))); diff != "" {
					t.Errorf("%s %s: %s", version, tc.settings, diff)
				}
			}
		}
	}
}

// TestRangesOfAClusterThatRuns: what cannot be changed any more is warned of where its owner says so, and a selector's ranges
// are looked at beside those of all machines.
func TestRangesOfAClusterThatRuns(t *testing.T) {
	text := func(global, selector string) string {
		return "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: quarry}\nspec:\n  kubernetesVersion: v1.34.4+rke2r1\n  rkeConfig:\n" +
			"    machineGlobalConfig: {" + global + "}\n    machineSelectorConfig: [{config: {" + selector + "}}]\n"
	}
	docs, err := Parse([]byte(text("service-cidr: 10.42.0.0/20, cluster-dns: 10.50.0.10, x-allow-unknown-args: true", "debug: true")), data(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"spec.rkeConfig.machineGlobalConfig.service-cidr: 10.42.0.0/16 of pods overlaps with 10.42.0.0/20 of services",
		"spec.rkeConfig.machineGlobalConfig.cluster-dns: 10.50.0.10 is not in the range of services, 10.42.0.0/20; pods would ask an address without a service. Both have to be set together",
	}
	if diff := cmp.Diff(want, Warnings(docs[0], data(t))); diff != "" {
		t.Error(diff)
	}
	for _, tc := range []struct{ global, selector, want string }{
		{"service-cidr: 10.62.0.0/16", "cluster-cidr: 10.62.0.0/20", "line 8: spec.rkeConfig.machineSelectorConfig[0].config.cluster-cidr: 10.62.0.0/20 of pods overlaps with 10.62.0.0/16 of services"},
		{"service-cidr: 10.62.0.0/16", "cluster-dns: 10.43.0.10", "line 8: spec.rkeConfig.machineSelectorConfig[0].config.cluster-dns: 10.43.0.10 is not in the range"},
		{"service-cidr: 10.62.0.0/16", "service-cidr: null, cluster-dns: 10.43.0.10", ""},
		{"cluster-cidr: 10.61.0.0/16", "service-node-port-range: '1:2'", `line 8: spec.rkeConfig.machineSelectorConfig[0].config.service-node-port-range: "1:2" is not a range of ports`},
	} {
		if _, err := Parse([]byte(text(tc.global, tc.selector)), data(t)); tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s, %s: %v, want %s", tc.global, tc.selector, err, tc.want)
		}
	}
}

func TestLabelsOfADocument(t *testing.T) {
	for _, tc := range []struct{ old, new, want string }{
		{"metadata: {", "metadata: {labels: {site: north, team/: a}, ", `line 3: metadata.labels: "team/" is not a key of Kubernetes`},
		{"metadata: {", "metadata: {labels: {site: 'far north'}, ", `line 3: metadata.labels: "far north" of "site" is not a value of Kubernetes`},
		{"matchLabels: {", "matchLabels: {rack: 'row 7', ", `line 7: spec.rkeConfig.machineSelectorConfig[0].machineLabelSelector.matchLabels: "row 7" of "rack" is not a value`},
		{"matchLabels: {", "matchExpressions: [{key: 'a b', operator: Exists}], matchLabels: {", `machineLabelSelector.matchExpressions[0].key: "a b" is not a key`},
		{"matchLabels: {", "matchExpressions: [{key: rack, operator: In, values: [a1, 'row 7']}], matchLabels: {", `machineLabelSelector.matchExpressions[0].values[1]: "row 7" is not a value`},
		{"matchLabels: {", "matchExpressions: [{key: example.com/rack, operator: In, values: [a1, '']}], matchLabels: {", ""},
	} {
		text := "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: quarry}\nspec:\n  kubernetesVersion: v1.34.4+rke2r1\n  rkeConfig:\n" +
			"    machineSelectorConfig: [{machineLabelSelector: {matchLabels: {site: north}}, config: {debug: true}}]\n"
		if _, err := Parse([]byte(strings.Replace(text, tc.old, tc.new, 1)), data(t)); tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %s", tc.new, err, tc.want)
		}
	}
}
