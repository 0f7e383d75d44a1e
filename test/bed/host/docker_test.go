package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDockerConfig lays a host's settings over the usual ones, in a file that other hosts do not have.
func TestDockerConfig(t *testing.T) {
	dir := t.TempDir()
	read := func(path string, err error) map[string]any {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		config := map[string]any{}
		if err := json.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}
		return config
	}
	usual := map[string]any{"bridge": "none", "iptables": false, "ip6tables": false, "ip-forward": false}
	if diff := cmp.Diff(usual, read(dockerConfig(dir, nil, false))); diff != "" {
		t.Error(diff)
	}
	other := map[string]any{
		"ip6tables": false, "ip-forward": false, "insecure-registries": []any{"10.0.0.1:5000"}, "default-runtime": "dropcap",
		"runtimes": map[string]any{"dropcap": map[string]any{"path": runtimePath}},
	}
	settings := map[string]any{"bridge": nil, "iptables": nil, "insecure-registries": []string{"10.0.0.1:5000"}}
	for range 2 {
		if diff := cmp.Diff(other, read(dockerConfig(dir, settings, true))); diff != "" {
			t.Error(diff)
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 2 {
		t.Errorf("there are the files %q, %v", files, err)
	}
	if diff := cmp.Diff(usual, read(filepath.Join(dir, "host-docker.json"), nil)); diff != "" {
		t.Errorf("the usual settings were changed: %s", diff)
	}
}
