package clusterspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestObjects(t *testing.T) {
	source := FileSource{ConfigMap: &FileObject{Name: "m", Items: []FileItem{{Key: "k"}}}}
	spec := Spec{RKEConfig: &RKEConfig{
		MachineGlobalConfig:   map[string]any{"cloud-provider-config": "secret://elsewhere:cloud", "audit-policy-file": "secret://elsewhere:not"},
		MachineSelectorConfig: []SelectorConfig{{Config: map[string]any{"cloud-provider-config": "plain text"}}, {Config: map[string]any{"cloud-provider-config": "secret://n:other"}}},
		MachineSelectorFiles:  []SelectorFiles{{FileSources: []FileSource{source, {Secret: &FileObject{Name: "s", Items: source.ConfigMap.Items}}, {Secret: &FileObject{}}}}},
		Registries:            &Registries{Configs: map[string]RegistryConfig{"a": {AuthConfigSecretName: "login"}, "b": {TLSSecretName: "tls"}, "c": {AuthConfigSecretName: "login"}}},
	}}
	want := []string{"ConfigMap/n/m", "Secret/elsewhere/cloud", "Secret/n/login", "Secret/n/other", "Secret/n/s", "Secret/n/tls"}
	if diff := cmp.Diff(want, spec.Objects("n")); diff != "" {
		t.Error(diff)
	}
	if got := (Spec{}).Objects("n"); got != nil {
		t.Errorf("without rkeConfig: %q", got)
	}
}

func TestParseStream(t *testing.T) {
	const cluster = "{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {}}}"
	const secret = "{apiVersion: v1, kind: Secret, metadata: {name: harbour}, stringData: {a: b}}"
	stream, err := ParseStream([]byte(secret+"\n---\n"+cluster), data(t))
	if err != nil || len(stream.Clusters) != 1 || len(stream.Objects) != 1 {
		t.Errorf("%+v, %v", stream, err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"the same twice", secret + "\n---\n" + secret, `"harbour" is described twice`},
		{"a syntax error beside a Secret", "kind: Secret\nstringData: {a: *hunter2}", "is not YAML"},
		{"another kind", "{apiVersion: v1, kind: Pod, metadata: {name: harbour}}", "Pod of v1 is no document that drover keeps"},
	} {
		if _, err := ParseStream([]byte(c.text), data(t)); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := Parse([]byte(secret), data(t)); err == nil || !strings.Contains(err.Error(), "is Secret where Cluster belongs") {
		t.Errorf("a Secret among clusters: %v", err)
	}
}
