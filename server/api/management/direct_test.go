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
	k, err := newKubeconfig("harbour", "c-m-h4rb0r55", "https://drover.example", "SERVER CA", "u-ann", "kubeconfig-u-ann12345:key", "c-m-h4rb0r55")
	if err != nil {
		t.Fatal(err)
	}
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
	k, err = newKubeconfig("harbour", "c-m-h4rb0r55", "https://drover.example", "", "u-ann", "", "c-m-h4rb0r55")
	if err != nil || k.Users[0].User.Exec == nil || k.Users[0].User.Exec.Args[3] != "--cluster=c-m-h4rb0r55" {
		t.Errorf("%+v, %v", k.Users, err)
	}
}
