package management

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

var update = flag.Bool("update", false, "write golden files")

// TestGoldenKubeconfig holds the text of a kubeconfig with ways that do not lead through the server.
func TestGoldenKubeconfig(t *testing.T) {
	k, err := newKubeconfig("https://drover.example", "SERVER CA", "u-ann", []KubeconfigCluster{{"harbour", "c-m-h4rb0r55", "kubeconfig-u-ann12345:key"}}, "harbour")
	if err != nil {
		t.Fatal(err)
	}
	k.Lead([]endpoint{{Context: "harbour-one", Server: "https://10.0.0.1:6443", CA: "CLUSTER CA"}, {Context: "harbour-fqdn", Server: "https://k8s.lan"}})
	got, err := yaml.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/kubeconfig.yaml"
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

// TestEachClusterHasAUserOfItsOwn: a token of one cluster is not sent to another one.
func TestEachClusterHasAUserOfItsOwn(t *testing.T) {
	k, err := newKubeconfig("https://drover.example", "", "u-ann", []KubeconfigCluster{{"harbour", "c-m-h4rb0r55", "a:key"}, {"office", "c-0ff1c", ""}}, "office")
	if err != nil || k.CurrentContext != "office" || len(k.Users) != 2 {
		t.Fatalf("%+v, %v", k, err)
	}
	for i, name := range []string{"harbour", "office"} {
		if k.Contexts[i].Context.User != name || k.Contexts[i].Context.Cluster != name || k.Users[i].Name != name {
			t.Errorf("context %s: %+v", name, k.Contexts[i])
		}
	}
	if k.Users[0].User.Token != "a:key" || k.Users[0].User.Exec != nil {
		t.Errorf("user of harbour: %+v", k.Users[0])
	}
	if plugin := k.Users[1].User.Exec; plugin == nil || plugin.Args[3] != "--cluster=c-0ff1c" {
		t.Errorf("user of office: %+v", plugin)
	}
}
