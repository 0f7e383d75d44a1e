package clusteragents

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/server/clusterspec"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func manifestCluster() Cluster {
	return Cluster{
		Server: "https://drover.example.com", Token: "tok123", Checksum: strings.Repeat("ab", 32), Strict: true,
		Image: "drover/rancher-agent:v1.0.0", Version: "v2.15.0-drover.1.0.0", Install: "11111111-2222-3333-4444-555555555555",
		Env: []clusterspec.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy: \"3128\"\n- x"}, {Name: "EMPTY"}, {Name: "CATTLE_SERVER", Value: "https://elsewhere"}},
	}
}

func TestManifest(t *testing.T) {
	text, err := manifest(manifestCluster())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "import.yaml", text)
	again, err := manifest(manifestCluster())
	if err != nil || string(again) != string(text) {
		t.Errorf("the same input gives other bytes: %v", err)
	}
	c := manifestCluster()
	c.Image, c.Namespace = "rancher/rancher-agent:v2.8.5", "c-abcde"
	if text, err = manifest(c); err != nil {
		t.Fatal(err)
	}
	golden(t, "original.yaml", text)
	if text, err = Cleanup(); err != nil {
		t.Fatal(err)
	}
	golden(t, "cleanup.yaml", text)
	if strings.Contains(string(text), "tok") {
		t.Error("the clean-up has credentials in it")
	}
}

// TestTextsFromOutsideStayTexts: what people may set cannot become fields of the manifest.
func TestTextsFromOutsideStayTexts(t *testing.T) {
	text, err := manifest(manifestCluster())
	if err != nil {
		t.Fatal(err)
	}
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	found := false
	for {
		var o struct {
			Kind string
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Env []struct{ Name, Value string }
						}
					}
				}
			}
		}
		if err := dec.Decode(&o); err != nil {
			break
		}
		for _, c := range o.Spec.Template.Spec.Containers {
			servers := 0
			for _, e := range c.Env {
				found = found || e.Name == "HTTPS_PROXY" && e.Value == manifestCluster().Env[0].Value
				if e.Name == "CATTLE_SERVER" {
					servers++
				}
			}
			if servers != 1 {
				t.Errorf("CATTLE_SERVER is there %d times", servers)
			}
		}
	}
	if !found {
		t.Error("the variable of the cluster is not what it was")
	}
}

// TestNameOfCredentials has the vectors of the wire contract.
func TestNameOfCredentials(t *testing.T) {
	c := Cluster{Server: "https://drover.example.com", Token: "tok123"}
	if got := credentialsKey(c); got != "0eee7d87b5" {
		t.Errorf("without a namespace: %s", got)
	}
	c.Namespace = "c-abcde"
	if got := credentialsKey(c); got != "008cc5a3e1" {
		t.Errorf("with a namespace: %s", got)
	}
}

func TestImageOfTheAgent(t *testing.T) {
	for _, tc := range []struct {
		image, registry, want string
		original              bool
	}{
		{"drover/rancher-agent:v1", "", "drover/rancher-agent:v1", false},
		{"drover/rancher-agent:v1", "registry.example.com:5000", "registry.example.com:5000/drover/rancher-agent:v1", false},
		{"ghcr.io/drover/rancher-agent:v1", "registry.example.com", "ghcr.io/drover/rancher-agent:v1", false},
		{"rancher/rancher-agent:v2.8.5", "", "rancher/rancher-agent:v2.8.5", true},
		{"host:5000/rancher/rancher-agent@sha256:00", "", "host:5000/rancher/rancher-agent@sha256:00", true},
	} {
		if got := image(Cluster{Image: tc.image, Registry: tc.registry}); got != tc.want {
			t.Errorf("%s with %q: %s", tc.image, tc.registry, got)
		}
		if got := original(tc.image); got != tc.original {
			t.Errorf("%s is original: %t", tc.image, got)
		}
	}
}
