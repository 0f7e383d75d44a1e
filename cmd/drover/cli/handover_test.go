package cli

import (
	"archive/zip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
)

func TestJoinLines(t *testing.T) {
	hosts := []apitypes.ImportedHost{
		{Address: "10.0.0.1", NodeName: "n1", Roles: apitypes.Roles{Etcd: true, ControlPlane: true}, Joined: true},
		{
			Address: "10.0.0.2", InternalAddress: "192.0.2.2", NodeName: "n2", Roles: apitypes.Roles{Worker: true},
			Labels: map[string]string{"b": "2", "a": ""}, Taints: []apitypes.Taint{{Key: "k", Effect: "NoSchedule"}},
		},
	}
	got, err := joinLines(hosts, apitypes.Join{Command: "docker run agent"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"on 10.0.0.2: docker run agent --worker --node-name 'n2' --address '10.0.0.2' --internal-address '192.0.2.2' --label 'a=' --label 'b=2' --taints 'k=:NoSchedule'"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStateOfSnapshot(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"with":    {"backup/etcd-snapshots/one": "etcd", "backup/kubernetes/one.rkestate": "the state"},
		"without": {"backup/etcd-snapshots/one": "etcd"},
	} {
		path := filepath.Join(t.TempDir(), name+".zip")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := zip.NewWriter(f)
		for inside, text := range files {
			part, err := w.Create(inside)
			if err == nil {
				_, err = part.Write([]byte(text))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := stateOfSnapshot(path)
		if name == "with" && (err != nil || string(text) != "the state") {
			t.Errorf("%v: %q", err, text)
		}
		if name == "without" && (err == nil || !strings.Contains(err.Error(), "has no state of a cluster in it")) {
			t.Errorf("got %v", err)
		}
	}
}

func TestWarning(t *testing.T) {
	for header, want := range map[string]string{`299 drover "a \"b\"\nc"`: "a \"b\"\nc", "299 - plain": "299 - plain"} {
		if got := warning(header); got != want {
			t.Errorf("%s: %q", header, got)
		}
	}
}
