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
	for _, version := range d.List(K3s) {
		r, _ := d.Release(version)
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
		"not JSON":    `{`,
		"no such set": `{"releases":{"k3s":{"x":["v1.40.0+k3s1"]}}}`,
		"no version":  `{"sets":{"x":{}},"releases":{"k3s":{"x":["latest"]}}}`,
		"of another":  `{"sets":{"x":{}},"releases":{"k3s":{"x":["v1.40.0+rke2r1"]}}}`,
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
