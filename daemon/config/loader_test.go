package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestEveryKey sets the keys of the original's configuration one by one, in both formats.
func TestEveryKey(t *testing.T) {
	const local = "localEnabled: true\nlocalPlanDirectory: /p\n"
	for _, tc := range []struct{ key, value, field string }{
		{"workDirectory", "/w", "WorkDirectory"},
		{"preserveWorkDirectory", "true", "PreserveWorkDirectory"},
		{"appliedPlanDirectory", "/a", "AppliedPlanDirectory"},
		{"localEnabled", "true", "LocalEnabled"},
		{"localPlanDirectory", "/p", "LocalPlanDirectory"},
		{"remoteEnabled", "true", "RemoteEnabled"},
		{"connectionInfoFile", "/c.json", "ConnectionInfoFile"},
		{"interlockDirectory", "/i", "InterlockDirectory"},
		{"imagesDirectory", "/im", "ImagesDirectory"},
		{"agentRegistriesFile", "/r.yaml", "AgentRegistriesFile"},
		{"instructionTimeout", "45m", "InstructionTimeout"},
	} {
		text := local
		for _, needed := range []string{tc.key + ": " + tc.value + "\n", "connectionInfoFile: /c.json\n"} {
			if key, _, _ := strings.Cut(needed, ":"); !strings.Contains(text, key+":") {
				text += needed
			}
		}
		got, err := LoadAgent(write(t, "config.yaml", text, 0o600))
		if err != nil {
			t.Errorf("%s: %v", tc.key, err)
			continue
		}
		if value := fmt.Sprint(reflect.ValueOf(*got).FieldByName(tc.field).Interface()); value != tc.value {
			t.Errorf("%s is %s, want %s", tc.key, value, tc.value)
		}
	}
}

// TestLoaderRules are those of the original for both of its files, with what ours does otherwise.
func TestLoaderRules(t *testing.T) {
	const connection = `{"kubeConfig":"k","namespace":"n","secretName":"s"}`
	path := write(t, "c.json", connection+" trailing bytes", 0o600)
	if _, err := LoadConnection(path); err != nil {
		t.Errorf("only the first JSON value counts: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link.json")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadConnection(link); err != nil {
		t.Errorf("links are followed: %v", err)
	}
	if _, err := LoadConnection(write(t, "c.yml", "kubeConfig: k\nnamespace: n\nsecretName: s\n", 0o600)); err != nil {
		t.Errorf("the original refuses .yml, ours takes it: %v", err)
	}
	for name, want := range map[string]string{
		"":                                    "connection information has no path",
		"/no/c.json":                          "connection information /no/c.json is missing", // not "probably invalid JSON"
		write(t, "c.json", connection, 0o640): "mode 0640",
		write(t, "c.json", connection, 0o604): "mode 0604",
		write(t, "c.txt", connection, 0o600):  ".json or .yaml",
		write(t, "c.json", `{"kubeConfig":["s"]}`, 0o600):    "kubeConfig is a array where a string belongs",
		write(t, "c.json", `{"kubeConfig":"k",}`, 0o600):     "is not JSON, at byte",
		write(t, "c.yaml", "kubeConfig: k\n\tx: y\n", 0o600): "line ",
		t.TempDir(): "not a regular file",
	} {
		if _, err := LoadConnection(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: err = %v, want %q in it", name, err, want)
		}
	}
	if os.Getuid() == 0 {
		for _, owner := range [][2]int{{1, 0}, {0, 1}} {
			other := write(t, "c.json", connection, 0o600)
			if err := os.Chown(other, owner[0], owner[1]); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadConnection(other); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("owner %d:%d", owner[0], owner[1])) {
				t.Errorf("of %v: err = %v", owner, err)
			}
		}
	}
}
