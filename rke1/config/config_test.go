package config_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/config/check"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var update = flag.Bool("update", false, "write the golden files anew")

// versions knows the images of two versions, each named after its field.
var versions = config.Versions{
	Default: "v1.30.5-rancher1-1",
	Images: func(version string) (config.SystemImages, error) {
		var images config.SystemImages
		if version != "v1.30.5-rancher1-1" && version != "v1.23.17-rancher1-1" && version != "v1.20.15-rancher2-2" {
			return images, fmt.Errorf("%s is not a version that the test knows", version)
		}
		v := reflect.ValueOf(&images).Elem()
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			v.Field(i).SetString("rancher/" + name + ":" + version)
		}
		return images, nil
	},
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func parse(t testing.TB, text []byte) *config.File {
	t.Helper()
	f, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", name), got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(read(t, name)), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func state(t *testing.T, c config.Cluster) []byte {
	t.Helper()
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// TestDefaults: the filled config as the rkeConfig of a state and as a cluster.yml.
func TestDefaults(t *testing.T) {
	for _, name := range []string{"minimal", "minimal-1.23", "minimal-1.20", "full"} {
		t.Run(name, func(t *testing.T) {
			f := parse(t, read(t, name+".yml"))
			if len(f.Warnings) > 0 {
				t.Error(f.Warnings)
			}
			before := state(t, f.Cluster)
			c := config.WithDefaults(f.Cluster, versions)
			if diff := cmp.Diff(string(before), string(state(t, f.Cluster))); diff != "" {
				t.Errorf("filling changed what was to be filled:\n%s", diff)
			}
			golden(t, name+".json.golden", state(t, c))
			text, err := config.Write(c)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".yml.golden", text)
			if diff := cmp.Diff(c, config.WithDefaults(c, versions)); diff != "" {
				t.Errorf("filling a filled config changes it:\n%s", diff)
			}
			// The way back, from the file and from the state.
			again := parse(t, text)
			if diff := cmp.Diff(c, again.Cluster, cmpopts.EquateEmpty()); diff != "" || len(again.Warnings) > 0 {
				t.Errorf("what was written reads otherwise: %v\n%s", again.Warnings, diff)
			}
			var kept config.Cluster
			if err := json.Unmarshal(state(t, c), &kept); err != nil {
				t.Fatal(err)
			}
			same, err := config.Write(kept)
			if err != nil || !bytes.Equal(same, text) {
				t.Errorf("from the state another cluster.yml is written (%v):\n%s", err, cmp.Diff(string(text), string(same)))
			}
		})
	}
}

// TestManagement: the same config by the names of the management API.
func TestManagement(t *testing.T) {
	want := parse(t, read(t, "full.yml")).Cluster
	f, err := config.ParseManagement(strictyaml.Source{}, state(t, want))
	if err != nil || len(f.Warnings) > 0 {
		t.Fatal(err, f.Warnings)
	}
	if diff := cmp.Diff(want, f.Cluster, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	e := f.At("services.kube-api.audit_log.configuration.max_age", "is wrong")
	if e.Path != "services.kubeApi.auditLog.configuration.maxAge" || e.Line < 10 {
		t.Errorf("a field of the file is %s in line %d", e.Path, e.Line)
	}
	e = f.At("nodes[0].hostname_override", "is wrong")
	if e.Path != "nodes[0].hostnameOverride" || e.Line != 12 {
		t.Errorf("a field of a node is %s in line %d", e.Path, e.Line)
	}
}

// TestManagementOfClients: what clients of the API send along is no reason for a warning, and what
// a user wrote is.
func TestManagementOfClients(t *testing.T) {
	f, err := config.ParseManagement(strictyaml.Source{}, []byte(`{"type": "rancherKubernetesEngineConfig", "services": {"type": "rkeConfigServices",
"kubeApi": {"podSecurityPolicy": false, "eventRateLimit": {"enabled": true, "configuration": {"limits": [{"type": "Server"}]}}}},
"kubernetes_version": "v1"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.Warnings.Error(), "line 3: kubernetes_version: is not a field here; did you mean kubernetesVersion?; it is ignored"; got != want {
		t.Errorf("the warnings are %q, want %q", got, want)
	}
	if f.Cluster.Services.KubeAPI.EventRateLimit.Configuration.Limits[0].Type != "Server" {
		t.Error("a type that is a field was not read")
	}
}

// TestEveryFieldHasTwoNames: a field without a yaml tag would be read from no cluster.yml, and one
// without a json tag be in no state.
func TestEveryFieldHasTwoNames(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(typ.Elem())
		case reflect.Struct:
			if seen[typ] || typ == reflect.TypeFor[config.IntOrText]() {
				return
			}
			seen[typ] = true
			for f := range typ.Fields() {
				f := f
				yaml, json := f.Tag.Get("yaml"), f.Tag.Get("json")
				if f.Anonymous && (yaml != ",inline" || json != "") || !f.Anonymous && (yaml == "" || json == "") {
					t.Errorf("%s.%s has the tags %q", typ, f.Name, f.Tag)
				}
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[config.Cluster]())
	if len(seen) < 40 {
		t.Errorf("only %d types were seen", len(seen))
	}
}

// TestFullIsFull: full.yml sets every field of every type, so that the tests above see each.
func TestFullIsFull(t *testing.T) {
	set, all := map[string]bool{}, map[string]bool{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Struct:
			if v.Type().PkgPath() != reflect.TypeFor[config.Cluster]().PkgPath() || v.Type() == reflect.TypeFor[config.IntOrText]() {
				return
			}
			for i := range v.NumField() {
				name := v.Type().String() + "." + v.Type().Field(i).Name
				all[name] = true
				set[name] = set[name] || !v.Field(i).IsZero()
				walk(v.Field(i))
			}
		}
	}
	walk(reflect.ValueOf(parse(t, read(t, "full.yml")).Cluster))
	for name := range all {
		known := []string{"config.CloudProvider.Harvester", "config.KMS.", "config.SystemImages."}
		if !set[name] && !slices.ContainsFunc(known, func(k string) bool { return strings.HasPrefix(name, k) }) {
			t.Errorf("full.yml sets no %s", name)
		}
	}
	if len(all) < 250 {
		t.Errorf("only %d fields were seen", len(all))
	}
}

func TestParseTakes(t *testing.T) {
	yes := true
	for _, tc := range []struct {
		name, text string
		got        func(c *config.Cluster) any
		want       any
	}{
		{"numbers as text", "nodes: [{port: 22, labels: {a: 1, b: true, c: 0644}}]", func(c *config.Cluster) any { return c.Nodes[0] },
			config.Node{Port: "22", Labels: map[string]string{"a": "1", "b": "true", "c": "0644"}}},
		{"yes", "ignore_docker_version: yes", func(c *config.Cluster) any { return c.IgnoreDockerVersion }, &yes},
		{"merged keys", "nodes:\n- &first {address: a, user: u}\n- {<<: *first, address: b}", func(c *config.Cluster) any { return c.Nodes[1] },
			config.Node{Address: "b", User: "u"}},
		{"a drain input that says little", "upgrade_strategy: {node_drain_input: {force: true, grace_period: }}",
			func(c *config.Cluster) any { return c.UpgradeStrategy.DrainInput },
			&config.DrainInput{Force: true, IgnoreDaemonSets: &yes, GracePeriod: -1, Timeout: 120}},
		{"a grace period of none", "upgrade_strategy: {node_drain_input: {grace_period: 0, timeout: 5}}",
			func(c *config.Cluster) any { return c.UpgradeStrategy.DrainInput },
			&config.DrainInput{IgnoreDaemonSets: &yes, GracePeriod: 0, Timeout: 5}},
		{"numbers of ACI", "network: {aci_network_provider: {node_svc_subnet: a, infra_vlan: 12, apic_hosts: [1, b]}}",
			func(c *config.Cluster) any { return map[string]any(c.Network.ACI) },
			map[string]any{"nodeSvcSubnet": "a", "infraVlan": "12", "apicHosts": []any{"1", "b"}}},
		{"names of Kubernetes", "network: {update_strategy: {strategy: RollingUpdate, rollingUpdate: {maxUnavailable: 2, maxSurge: 10%}}}",
			func(c *config.Cluster) any { return c.Network.Update },
			&config.DaemonSetStrategy{Strategy: "RollingUpdate", RollingUpdate: &config.RollingUpdate{
				MaxUnavailable: &config.IntOrText{Int: 2}, MaxSurge: &config.IntOrText{Text: "10%"}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := parse(t, []byte(tc.text))
			if diff := cmp.Diff(tc.want, tc.got(&f.Cluster)); diff != "" || len(f.Warnings) > 0 {
				t.Error(f.Warnings, diff)
			}
		})
	}
}

// TestVersions: what a version is, and from when on the API server has an audit log by itself.
func TestVersions(t *testing.T) {
	for text, want := range map[string]struct {
		version config.Version
		logs    bool
	}{
		"v1.30.5-rancher1-1":  {config.Version{Minor: 30, Patch: 5}, true},
		"v1.17.3-rancher1-1":  {config.Version{Minor: 17, Patch: 3}, false},
		"v1.17.4-rancher1-1":  {config.Version{Minor: 17, Patch: 4}, true},
		"v1.16.7-rancher1-1":  {config.Version{Minor: 16, Patch: 7}, false},
		"v1.16.8-rancher1-1":  {config.Version{Minor: 16, Patch: 8}, true},
		"v1.15.10-rancher1-1": {config.Version{Minor: 15, Patch: 10}, false},
		"v1.15.11":            {config.Version{Minor: 15, Patch: 11}, true},
		"v1.14.99":            {config.Version{Minor: 14, Patch: 99}, false},
		"1.30.5":              {},
		"v1.30":               {},
		"v2.0.0":              {},
		"v1.30.5 ":            {},
		"v1.30.5-":            {},
		"v1.99999999999999.1": {},
	} {
		if got := config.ReadVersion(text); got != want.version {
			t.Errorf("%q is %+v, want %+v", text, got, want.version)
		}
		c := config.WithDefaults(config.Cluster{KubernetesVersion: text}, versions)
		if got := c.Services.KubeAPI.AuditLog != nil; got != want.logs {
			t.Errorf("%s has an audit log: %v", text, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"tabs", "nodes:\n- address: a\n\tuser: b\n", "cluster.yml:3: not YAML: the line is indented with a tab; indent it with spaces"},
		{"no YAML", "nodes: [", "cluster.yml:1: not YAML: "},
		{"nothing", "# nothing\n", "cluster.yml:1: is empty"},
		{"a key twice", "nodes: []\nnodes: []\n", "cluster.yml:2: nodes: stands here a second time, first on line 1"},
		{"two documents", "nodes: []\n---\nnodes: []\n", "cluster.yml:2: a second document begins"},
		{"a mapping for a list", "nodes:\n  address: a\n", "cluster.yml:2: nodes: is a mapping where a list belongs"},
		{"text for a number", "addon_job_timeout: long", "cluster.yml:1: addon_job_timeout: is a single value where a whole number belongs"},
		{"a number in quotes", "monitoring: {replicas: '2'}", "cluster.yml:1: monitoring.replicas: is a text in quotes where a whole number belongs; write it without quotes"},
		{"a truth in quotes", "ssh_agent_auth: \"false\"", "cluster.yml:1: ssh_agent_auth: is a text in quotes where true or false belongs; write it without quotes"},
		{"yes in quotes", "ssh_agent_auth: 'yes'", "cluster.yml:1: ssh_agent_auth: is a text in quotes where true or false belongs; write it without quotes"},
		{"a text in quotes for a list", "nodes: 'hunter2'", "cluster.yml:1: nodes: is a text in quotes where a list belongs"},
		{"no secret is repeated", "services:\n  etcd:\n    uid: hunter2", "cluster.yml:3: services.etcd.uid: is a single value where a whole number belongs"},
		{"a list for a percentage", "network:\n  update_strategy: {rollingUpdate: {maxUnavailable: []}}",
			"cluster.yml:2: network.update_strategy.rollingUpdate.maxUnavailable: is a list where a whole number or a percentage belongs"},
		{"no secret number is repeated", "network: {aci_network_provider: {token: 0777}}", "cluster.yml:1: network.aci_network_provider.token: is a number with a leading zero; write it in quotes"},
		{"too much", "addons: " + strings.Repeat("x", 3<<20), "bytes are more than the"},
		{"an alias bomb", "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]", "values"},
		{"nothing but unknown keys", func() string {
			var b strings.Builder
			for i := range 150 {
				fmt.Fprintf(&b, "key%d: 1\n", i)
			}
			return b.String()
		}(), "key99: is not a field here"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, []byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want one with %q", err, tc.want)
			}
		})
	}
}

// TestUnknownKeysAreWarnings at every level, and the rest is read.
func TestUnknownKeysAreWarnings(t *testing.T) {
	f := parse(t, []byte(`kubernetesVersion: v1.30.5-rancher1-1
nodes:
- address: a
  adress: b
  roles: [etcd]
services:
  kube-api:
    audit_log: {enabled: true, configuration: {policy: {apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: None, verb: [get]}]}}}
network:
  tolerations: [{key: a, tolerationSeconds: 3}]
cluster_name: there
`))
	want := strings.Join([]string{
		"cluster.yml:1: kubernetesVersion: is not a field here; did you mean kubernetes_version?; it is ignored",
		"cluster.yml:4: nodes[0].adress: is not a field here; did you mean address?; it is ignored",
		"cluster.yml:5: nodes[0].roles: is not a field here; did you mean role?; it is ignored",
		"cluster.yml:8: services.kube-api.audit_log.configuration.policy.rules[0].verb: is not a field here; did you mean verbs?; it is ignored",
		"cluster.yml:10: network.tolerations[0].tolerationSeconds: is not a field here; did you mean tolerationseconds?; it is ignored",
	}, "\n")
	if diff := cmp.Diff(want, f.Warnings.Error()); diff != "" {
		t.Error(diff)
	}
	if f.Cluster.ClusterName != "there" || f.Cluster.Nodes[0].Address != "a" {
		t.Errorf("read %+v", f.Cluster)
	}
}

// TestRetiredKeys: a key that was one is explained.
func TestRetiredKeys(t *testing.T) {
	f := parse(t, []byte("rancher_kubernetes_engine_config: {}"))
	want := "cluster.yml:1: rancher_kubernetes_engine_config: is what a management server shows of a cluster; a cluster.yml has what is below it; it is ignored"
	if diff := cmp.Diff(want, f.Warnings.Error()); diff != "" {
		t.Error(diff)
	}
}

// TestNetworkOptions: an option wins over the typed form, which wins over the standard.
func TestNetworkOptions(t *testing.T) {
	for _, tc := range []struct {
		text string
		want map[string]string
	}{
		{"{plugin: calico, calico_network_provider: {cloudprovider: aws}}", map[string]string{"calico_cloud_provider": "aws"}},
		{"{plugin: calico}", map[string]string{"calico_cloud_provider": "none"}},
		{"{plugin: canal, options: {canal_flannel_backend_vni: 5, canal_iface: eth1}, canal_network_provider: {iface: eth0}}",
			map[string]string{"canal_flannel_backend_vni": "5", "canal_iface": "eth1", "canal_flannel_backend_port": "8472"}},
		{"{plugin: flannel, flannel_network_provider: {iface: eth0}}", map[string]string{"flannel_iface": "eth0", "flannel_backend_type": "vxlan"}},
		{"{plugin: weave, weave_network_provider: {password: p}}", map[string]string{"WeavePassword": "p"}},
		{"{plugin: weave, options: {WeavePassword: q}, weave_network_provider: {password: p}}", map[string]string{"WeavePassword": "q"}},
		{"{plugin: aci, aci_network_provider: {system_id: s, opflex_log_level: debug}}",
			map[string]string{"aci_system_identifier": "s", "aci_opflex_agent_log_level": "debug", "aci_multus_disable": "true"}},
	} {
		c := config.WithDefaults(parse(t, []byte("network: "+tc.text)).Cluster, versions)
		for option, value := range tc.want {
			if got := c.Network.Options[option]; got != value {
				t.Errorf("%s: %s is %q, want %q", tc.text, option, got, value)
			}
		}
	}
}

// TestDefaultsDependOn what is written and on the version.
func TestDefaultsDependOn(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		got        func(c *config.Cluster) any
		want       any
	}{
		{"drain without an input", "upgrade_strategy: {drain: true}", func(c *config.Cluster) any { return c.UpgradeStrategy.DrainInput.Timeout }, 120},
		{"a backup that is off", "services: {etcd: {backup_config: {enabled: false}}}", func(c *config.Cluster) any { return c.Services.Etcd.BackupConfig.Retention }, 0},
		{"a backup", "services: {etcd: {backup_config: {retention: 3}}}", func(c *config.Cluster) any {
			b := c.Services.Etcd.BackupConfig
			return []int{b.IntervalHours, b.Retention, b.Timeout}
		}, []int{12, 3, 300}},
		{"an admission file of one's own", "services: {kube-api: {extra_args: {admission-control-config-file: /a}}}",
			func(c *config.Cluster) any { return c.Services.KubeAPI.PodSecurityConfiguration }, ""},
		{"an audit log that is off", "services: {kube-api: {audit_log: {enabled: false}}}",
			func(c *config.Cluster) any { return c.Services.KubeAPI.AuditLog.Configuration == nil }, true},
		{"Docker's version in the file", "ignore_docker_version: true", func(c *config.Cluster) any { return *c.IgnoreDockerVersion }, true},
		{"a webhook", "authentication: {strategy: 'x509 | Webhook'}", func(c *config.Cluster) any { return c.Authentication.Webhook.ConfigFile[:16] }, "\napiVersion: v1\n"},
		{"the default registry", "private_registries: [{url: a}, {url: b, is_default: true}, {url: c, is_default: true}]\nsystem_images: {etcd: own:1}",
			func(c *config.Cluster) any { return []string{c.SystemImages.Etcd, c.SystemImages.CoreDNS} }, []string{"own:1", "b/rancher/coredns:v1.30.5-rancher1-1"}},
		{"images of services", "services: {kubelet: {image: mine}}", func(c *config.Cluster) any { return c.Services.Kubelet.Image }, "rancher/kubernetes:v1.30.5-rancher1-1"},
		{"AWS", "cloud_provider: {name: aws}", func(c *config.Cluster) any { return *c.CloudProvider.UseInstanceMetadataHostname }, false},
		{"AWS by its configuration", "cloud_provider: {awsCloudProvider: {global: {zone: z}}}", func(c *config.Cluster) any { return c.CloudProvider.Name }, "aws"},
		{"Harvester", "cloud_provider: {name: harvester}", func(c *config.Cluster) any { return c.CloudProvider.Name }, "external"},
		{"kube-dns", "dns: {provider: kube-dns}", func(c *config.Cluster) any { return c.DNS.Update.RollingUpdate.MaxSurge.Text }, "10%"},
		{"DNS that is made anew", "dns: {update_strategy: {strategy: Recreate}}", func(c *config.Cluster) any { return c.DNS.Update.RollingUpdate == nil }, true},
		{"a name in capitals", "nodes: [{address: A, hostname_override: Node-1}]", func(c *config.Cluster) any { return c.Nodes[0].HostnameOverride }, "node-1"},
		{"the agent of SSH", "ssh_agent_auth: true\nnodes: [{address: a}]\nbastion_host: {address: b}",
			func(c *config.Cluster) any { return c.Nodes[0].SSHAgentAuth && c.BastionHost.SSHAgentAuth }, true},
		{"a version that is none", "kubernetes_version: latest", func(c *config.Cluster) any { return c.EnableCRIDockerd == nil && c.SystemImages.Etcd == "" }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := config.WithDefaults(parse(t, []byte(tc.text)).Cluster, versions)
			if diff := cmp.Diff(tc.want, tc.got(&c)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWriteKeepsEveryText, as a value, as a key and as part of a Kubernetes object, whatever YAML might
// take it for.
func TestWriteKeepsEveryText(t *testing.T) {
	texts := []string{
		"\n", "\n\n", "\n a\nb", " a\nb\n", "\ta\nb", "a\t\n\tb", "a\n\n\n", "a\n ", "a \nb", "a\r\nb\r\n", "a\rb", "# a\n", "---\na", "...\n", "a\n---\nb",
		"yes", "no", "on", "y", "true", "~", "null", "Null", "", " ", "0644", "0x1f", "0o17", "1_000", "1e3", ".inf", "1:30", "22", "-1", "2024-05-06", "2024-05-06T07:08:09Z",
		"=", "<<", "- a", "-", "?", ": ", "a: b", "a:", ":a", "#a", "a #b", "'", "\"", "\\", "{a", "[a", "*a", "&a", "!a", "%a", "@a", "\u0060a", "|", ">", ",",
		"\u0085", "\u2028x", "\ufeffa", "a\u00a0b", "€", "😀", "\x7f", strings.Repeat("long words ", 60), strings.Repeat("long\n  words\n", 60),
	}
	random := rand.New(rand.NewPCG(1, 2))
	const letters = "a \n\t:#-'\"\\{}[]|>!&*%@,?0é\r"
	for range 200 {
		var b strings.Builder
		for range 1 + random.IntN(12) {
			b.WriteRune([]rune(letters)[random.IntN(len([]rune(letters)))])
		}
		texts = append(texts, b.String())
	}
	for _, text := range texts {
		c := config.Cluster{Addons: text, Nodes: []config.Node{{SSHKey: text, Labels: map[string]string{text: text}}}}
		c.Ingress.ExtraVolumes = []map[string]any{{text: []any{text, int64(7), 1.5, true, nil}}}
		written, err := config.Write(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := config.Parse(strictyaml.Source{}, written)
		if err != nil {
			t.Errorf("%q is refused: %v\n%s", text, err, written)
			continue
		}
		if diff := cmp.Diff(c, again.Cluster); diff != "" {
			t.Errorf("%q:\n%s\n%s", text, diff, written)
		}
	}
}

// FuzzParse: whatever is accepted can be filled, checked, written and read again as the same.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"minimal.yml", "full.yml"} {
		f.Add(read(f, name))
	}
	f.Add([]byte("nodes: [{<<: {address: a}}]\nnetwork: {aci_network_provider: {a_b: 1, A: [{x: 2}]}}"))
	f.Add([]byte("authentication: {webhook: {config_file: \"\\n  a\\n\\tb\\n\"}}\naddons: \"  x\\n\""))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := config.Parse(strictyaml.Source{}, text)
		if err != nil {
			if len(err.Error()) == 0 {
				t.Error("an error without words")
			}
			return
		}
		for _, c := range []config.Cluster{file.Cluster, config.WithDefaults(file.Cluster, versions)} {
			written, err := config.Write(c)
			if err != nil {
				t.Fatal(err)
			}
			errs, warnings := check.Cluster(c, versions, file)
			for _, e := range append(errs, warnings...) {
				if e.Path == "" || e.Line < 1 || e.Reason == "" {
					t.Errorf("an error without a place: %+v", e)
				}
			}
			again, err := config.Parse(strictyaml.Source{Limits: strictyaml.Limits{Bytes: 16 << 20}}, written)
			if err != nil {
				t.Fatalf("what was written is refused: %v\n%s", err, written)
			}
			if diff := cmp.Diff(c, again.Cluster, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("what was written reads otherwise:\n%s\n%s", diff, written)
			}
		}
	})
}
