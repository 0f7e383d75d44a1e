package versions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEmbeddedData(t *testing.T) {
	d, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	r, ok := d.Release("v1.34.4+k3s1")
	if !ok || r.Runtime != K3s || r.ServerArgs["disable"].Type != "array" || r.AgentArgs["kubelet-arg"].Type != "array" {
		t.Errorf("release = %+v, %v", r, ok)
	}
	// What the planner owns can never be listed: a user could override it.
	for _, version := range append(d.List(K3s), d.List(RKE2)...) {
		r, _ := d.Release(version)
		if !r.Known || len(r.Charts) == 0 {
			t.Errorf("%s: known %v, charts %v", version, r.Known, r.Charts)
		}
		for _, key := range []string{"token", "agent-token", "server", "node-ip", "node-label", "node-taint", "node-name", "data-dir", "cluster-init"} {
			if _, ok := r.ServerArgs[key]; ok {
				t.Errorf("%s lists %s, which belongs to the planner", version, key)
			}
			if _, ok := r.AgentArgs[key]; ok {
				t.Errorf("%s lists %s, which belongs to the planner", version, key)
			}
		}
	}
	if list := d.List(K3s); list[0] != "v1.34.4+k3s1" {
		t.Errorf("newest = %s", list[0])
	}
	if got := d.Default(K3s) + " " + d.Default(RKE2); got != "v1.34.4+k3s1 v1.34.4+rke2r1" {
		t.Errorf("defaults = %s", got)
	}
}

// TestRKE2: what its clusters are made of is in the data, of servers and agents apart.
func TestRKE2(t *testing.T) {
	d, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	r, ok := d.Release("v1.30.5+rke2r1")
	if !ok || r.Runtime != RKE2 {
		t.Fatalf("release %+v, %v", r, ok)
	}
	for key, want := range map[string]ArgType{"cni": "array", "disable": "array", "etcd-expose-metrics": "boolean", "tls-san": "array", "cluster-cidr": "string"} {
		if got := r.ServerArgs[key].Type; got != want {
			t.Errorf("server's %s is %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]ArgType{"profile": "enum", "kube-apiserver-extra-mount": "array", "etcd-extra-env": "array", "control-plane-resource-limits": "string", "cloud-provider-name": "enum"} {
		if got := r.AgentArgs[key].Type; got != want {
			t.Errorf("agent's %s is %q, want %q", key, got, want)
		}
	}
	if diff := cmp.Diff(map[string]any{"cni": "calico", "ingress-controller": "ingress-nginx", "etcd-expose-metrics": false, "protect-kernel-defaults": false}, r.Defaults()); diff != "" {
		t.Error(diff)
	}
	if _, ok := r.Charts["rke2-calico"]; !ok {
		t.Errorf("charts = %v", r.Charts)
	}
	lines := map[string]bool{}
	for _, v := range d.List(RKE2) {
		lines[Minor(v)] = true
	}
	if diff := cmp.Diff(map[string]bool{"v1.30": true, "v1.31": true, "v1.32": true, "v1.33": true, "v1.34": true}, lines); diff != "" {
		t.Error(diff)
	}
}

func TestUpgrades(t *testing.T) {
	d, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		from string
		want []string
	}{
		{"v1.33.5+k3s1", []string{"v1.34.4+k3s1", "v1.34.3+k3s1", "v1.34.2+k3s1", "v1.34.1+k3s1", "v1.33.6+k3s1"}},
		{"v1.33.5+rke2r1", []string{"v1.34.4+rke2r1", "v1.34.3+rke2r1", "v1.34.2+rke2r1", "v1.34.1+rke2r1", "v1.33.6+rke2r1"}},
		{"v1.31.99+k3s1", []string{"v1.32.5+k3s1", "v1.32.1+k3s1"}}, // not known itself
		{"v1.34.4+k3s1", []string{}},
		{"v1.28.1+k3s1", []string{}}, // two lines below the first that is known
		{"stable", nil},
	} {
		if diff := cmp.Diff(tc.want, d.Upgrades(tc.from)); diff != "" {
			t.Errorf("from %s: -want +got\n%s", tc.from, diff)
		}
	}
}

func TestPermissive(t *testing.T) {
	d, err := (&Data{}).with("a test", []byte(`{"k3s":{"releases":[
		{"version":"v1.33.1+k3s1","serverArgs":{"old":{"type":"string"},"both":{"type":"string"}},"agentArgs":{"a":{"type":"string"}},"featureVersions":{"f":"1"}},
		{"version":"v1.33.3+k3s1","serverArgs":{"both":{"type":"int"}},"agentArgs":{"a":{"type":"string"}},"featureVersions":{"f":"2"}},
		{"version":"v1.34.1+k3s1","serverArgs":{"new":{"type":"string"}},"agentArgs":{"a":{"type":"string"}},"featureVersions":{"f":"3"}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	got, ok := d.Permissive("v1.33.4+k3s1")
	want := Release{
		Version: "v1.33.4+k3s1", Runtime: K3s, Features: map[string]string{"f": "2"}, AgentArgs: map[string]Arg{"a": {Type: "string"}},
		ServerArgs: map[string]Arg{"both": {Type: "int"}}, Known: true, Neighbour: "v1.33.3+k3s1",
	}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("of a line that is known: %v -want +got\n%s", ok, diff)
	}
	for version, near := range map[string]string{"v1.33.2+k3s9": "v1.33.1+k3s1", "v1.33.0+k3s1": "v1.33.1+k3s1", "v1.34.1+k3s2": "v1.34.1+k3s1", "v1.34.0+k3s3": "v1.34.1+k3s1"} {
		if got, ok := d.Permissive(version); !ok || !got.Known || got.Neighbour != near || got.Version != version {
			t.Errorf("the neighbour of %s: %+v", version, got)
		}
	}
	got, ok = d.Permissive("v1.35.4+k3s1")
	want = Release{
		Version: "v1.35.4+k3s1", Runtime: K3s, Features: map[string]string{"f": "3"}, AgentArgs: map[string]Arg{"a": {Type: "string"}},
		ServerArgs: map[string]Arg{"old": {Type: "string"}, "both": {Type: "int"}, "new": {Type: "string"}},
	}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("of a line that is not known: %v -want +got\n%s", ok, diff)
	}
	if got, ok := d.Permissive("v1.33.3+k3s1"); !ok || !got.Known || len(got.ServerArgs) != 1 {
		t.Errorf("of a known version: %+v, %v", got, ok)
	}
	for _, version := range []string{"v1.33.4+rke2r1", "v1.33+k3s1", "latest", "v1.33.4", "v1.33.4+k3s1; rm", ""} {
		if _, ok := d.Permissive(version); ok {
			t.Errorf("%q is taken", version)
		}
	}
}

func TestNearest(t *testing.T) {
	d, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"v1.33.6+k3s1", "v1.33.5+k3s1", "v1.33.1+k3s1"}
	if diff := cmp.Diff(want, d.Nearest("v1.33.77+k3s1")); diff != "" {
		t.Error(diff)
	}
	if got := d.Nearest("v1.99.0+k3s1"); len(got) == 0 || got[0] != "v1.34.4+k3s1" {
		t.Errorf("nearest of an unknown line = %v", got)
	}
}

// TestRanchersForm: early releases have no arguments, some versions are of another form, and what
// drover sets itself is not an owner's whatever the data list.
func TestRanchersForm(t *testing.T) {
	embedded, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	d, err := embedded.with("a test", []byte(`{"K8sVersionRKESystemImages":{"v1":{}},"k3s":{"releases":[]},"rke2":{"channels":[{"name":"default","latest":"v1.40.1+rke2r2"}],
		"appDefaults":[{"appName":"rancher"}],"releases":[
		{"version":"v1.19.16+rke2r1","minChannelServerVersion":"v2.6.0"},
		{"version":"v1.40.0-alpha1+rke2r1","serverArgs":{"a":{"type":"string"}},"agentArgs":{"b":{"type":"string"}}},
		{"version":"v1.40.1+rke2r2","serverArgs":{"cni":{"type":"array","default":"calico","options":["calico"]},"token":{"type":"string"},"etcd-s3-bucket":{"type":"string"}},
		 "agentArgs":{"profile":{"type":"enum","options":["cis"],"nullable":true},"node-label":{"type":"array"}},
		 "charts":{"rke2-calico":{"repo":"rancher-rke2-charts","version":"v3"}},"featureVersions":{"encryption-key-rotation":"2.0.0"}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := d.Release("v1.40.1+rke2r2")
	want := Release{
		Version: "v1.40.1+rke2r2", Runtime: RKE2, Known: true, Features: map[string]string{"encryption-key-rotation": "2.0.0"},
		ServerArgs: map[string]Arg{"cni": {Type: "array", Default: "calico", Options: []string{"calico"}}},
		AgentArgs:  map[string]Arg{"profile": {Type: "enum", Options: []string{"cis"}, Nullable: true}},
		Charts:     map[string]Chart{"rke2-calico": {Repo: "rancher-rke2-charts", Version: "v3"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if added := len(d.releases) - len(embedded.releases); added != 1 || d.Default(RKE2) != "v1.40.1+rke2r2" || d.Default(K3s) != embedded.Default(K3s) {
		t.Errorf("%d releases more, defaults %s and %s", added, d.Default(RKE2), d.Default(K3s))
	}
	if _, ok := embedded.Release("v1.40.1+rke2r2"); ok {
		t.Error("data that were given out changed")
	}
}

func TestFileAddsReleases(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data.json")
	text := `{"date":"2027-01-01","sets":{"x":{"agentArgs":{"new-arg":{"type":"string"}}}},"releases":{"k3s":{"x":["v1.40.0+k3s1"]}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := d.Release("v1.40.0+k3s1"); !ok {
		t.Error("the file's release is missing")
	}
	if _, ok := d.Release("v1.34.4+k3s1"); !ok {
		t.Error("the file replaced the built-in releases")
	}
}

func TestFileRefused(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":        `{`,
		"no such set":     `{"releases":{"k3s":{"x":["v1.40.0+k3s1"]}}}`,
		"no version":      `{"sets":{"x":{}},"releases":{"k3s":{"x":["latest"]}}}`,
		"of another":      `{"sets":{"x":{}},"releases":{"k3s":{"x":["v1.40.0+rke2r1"]}}}`,
		"nothing":         `{}`,
		"no list":         `{"k3s":{"releases":{}}}`,
		"a circle":        `{"sets":{"x":{"extends":"x"}},"releases":{"k3s":{"x":["v1.40.0+k3s1"]}}}`,
		"no runtime":      `{"sets":{"x":{}},"releases":{"k8s":{"x":["v1.40.0+rke2r1"]}}}`,
		"no argument":     `{"rke2":{"releases":[{"version":"v1.40.0+rke2r1"}]}}`,
		"no text":         `{"rke2":{"releases":[{"serverArgs":{"a":{}},"agentArgs":{"a":{}}}]}}`,
		"of k3s":          `{"rke2":{"releases":[{"version":"v1.40.0+k3s1","serverArgs":{"a":{}},"agentArgs":{"a":{}}}]}}`,
		"no such default": `{"recommended":{"k3s":"v1.99.0+k3s1"},"sets":{"x":{"agentArgs":{"a":{"type":"string"}}}},"releases":{"k3s":{"x":["v1.40.0+k3s1"]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "data.json")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(file); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("err = %v, want one that names %s", err, file)
			}
		})
	}
}

// FuzzDocument: whatever a document holds, it is refused, or there are as many versions as before or more, all of them usable.
func FuzzDocument(f *testing.F) {
	base, err := Load("")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"recommended":{"k3s":"v1.40.0+k3s1"},"sets":{"y":{},"x":{"extends":"y","agentArgs":{"a":{"type":"string"}}}},"releases":{"k3s":{"x":["v1.40.0+k3s1"]}}}`)
	f.Add(`{"rke2":{"channels":[{"name":"default","latest":"v1.40.1+rke2r2"}],"releases":[{"version":"v1.40.1+rke2r2","serverArgs":{"cni":{"type":"array","default":null,"options":[]}},"agentArgs":{"p":{}},"charts":{"c":{}}}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := base.with("a test", []byte(text))
		if err != nil {
			return
		}
		if len(d.List(K3s)) < len(base.List(K3s)) || len(d.List(RKE2)) < len(base.List(RKE2)) {
			t.Error("releases are lost")
		}
		for version, r := range d.releases {
			if !WellFormed(version) || r.Version != version || RuntimeOf(version) != r.Runtime || !r.Known {
				t.Errorf("%q is %+v", version, r)
			}
			for key := range r.AgentArgs {
				if Reserved(key) {
					t.Errorf("%s lists %s", version, key)
				}
			}
		}
		if _, ok := d.Release(d.Default(K3s)); !ok {
			t.Errorf("the default %q is not known", d.Default(K3s))
		}
	})
}
