package management

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/server/api/ways"
)

var update = flag.Bool("update", false, "write golden files")

// TestGoldenKubeconfig holds the text of a kubeconfig with ways that do not lead through the server.
func TestGoldenKubeconfig(t *testing.T) {
	k := newKubeconfig("https://drover.example", "SERVER CA", []KubeconfigCluster{{"harbour", "c-m-h4rb0r55"}}, "harbour")
	k.Users[0].User.Token = "kubeconfig-u-ann12345:key"
	k.lead([]ways.Way{{Context: "harbour-one", Server: "https://10.0.0.1:6443", CA: "CLUSTER CA"}, {Context: "harbour-fqdn", Server: "https://k8s.lan"}})
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
	if plugin, err := rancherPlugin("https://drover.example", "u-ann", "c-m-h4rb0r55"); err != nil || plugin.Args[3] != "--cluster=c-m-h4rb0r55" {
		t.Errorf("%+v, %v", plugin, err)
	}
}
