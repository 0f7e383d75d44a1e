package addons_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/config"
)

func TestReplacedPods(t *testing.T) {
	const before = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web, namespace: shop}
spec:
  updateStrategy: {type: RollingUpdate}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "nginx:1"}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop}
spec: {replicas: 2, template: {spec: {containers: [{name: api, image: "api:1", args: [a, b]}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: shop}
spec: {template: {spec: {containers: [{name: once, image: "once:1"}]}}}
`
	replace := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(before) }
	for _, c := range []struct {
		what, after string
		want        []string
	}{
		{"nothing", before, nil},
		{"spaces, order and comments", "# new\n" + replace(`{name: web, image: "nginx:1"}`, "{image: 'nginx:1', name: web}"), nil},
		{"what pods do not have", replace("replicas: 2", "replicas: 3", "type: RollingUpdate", "type: OnDelete"), nil},
		{"an image", replace("nginx:1", "nginx:2"), []string{"DaemonSet shop/web: its pods are replaced"}},
		{"the order of arguments, and a label", replace("[a, b]", "[b, a]", "app: web", "app: w"), []string{"DaemonSet shop/web: its pods are replaced", "Deployment shop/api: its pods are replaced"}},
		{"a job", replace("once:1", "once:2"), nil},
		{"a new name", replace("name: api, namespace", "name: api2, namespace"), nil},
		{"no text", "", nil},
		{"no YAML", "a: [", nil},
	} {
		if diff := cmp.Diff(c.want, addons.Replaced(before, c.after)); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
	}
	if got := addons.Replaced("", before); len(got) > 0 {
		t.Errorf("a first text replaces %v", got)
	}
}

func TestOwnTexts(t *testing.T) {
	c := cluster(t, "v1.30.5-rancher1-1", "")
	all := []string{addons.Network, addons.CoreDNS, addons.Metrics, addons.Ingress}
	if got := addons.OwnTexts(c, embedded(t)); !slices.Equal(got, all) {
		t.Errorf("of the embedded data: %v", got)
	}
	if got := addons.Instead(c, embedded(t)); len(got) != 1 || !strings.Contains(got[0], "RANCHER_METADATA_URL") {
		t.Errorf("what to do instead: %q", got)
	}
	theirs := withTemplates(t, map[string]string{"canal": "a", "coreDNS": "b", "metricsServer": "c", "nginxIngress": "d"})
	if got := addons.Instead(c, theirs); len(got) > 0 {
		t.Errorf("with templates of the version data: %q", got)
	}
	c.DNS.NodeLocal = &config.NodeLocal{IPAddress: "169.254.20.10"}
	c.Ingress.Provider, c.Network.Plugin = config.None, config.PluginNone
	if got := addons.OwnTexts(c, embedded(t)); !slices.Equal(got, []string{addons.CoreDNS, addons.NodeLocal, addons.Metrics}) {
		t.Errorf("without ingress and network: %v", got)
	}
}
