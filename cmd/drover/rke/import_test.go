package rke

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

// What was seen on the hosts decides whether a cluster is taken over.
func TestConclude(t *testing.T) {
	same := engine.HostChanges{Address: "10.0.0.1"}
	differs := engine.HostChanges{Address: "10.0.0.2", Containers: []diff.Difference{{Host: "10.0.0.2", Container: "kubelet", Kind: "replace", Reasons: []string{"image"}}}}
	for name, c := range map[string]struct {
		changes engine.Changes
		accept  bool
		says    string
		written bool
	}{
		"nothing differs":       {engine.Changes{Hosts: []engine.HostChanges{same}}, false, "0 changes", true},
		"a container":           {engine.Changes{Hosts: []engine.HostChanges{same, differs}}, false, "10.0.0.2 kubelet: replace (image)", false},
		"a container, accepted": {engine.Changes{Hosts: []engine.HostChanges{same, differs}}, true, "10.0.0.2 kubelet: replace (image)", true},
		"an add-on":             {engine.Changes{Hosts: []engine.HostChanges{same}, Addons: []string{"rke-network-plugin"}}, false, "rke-network-plugin", false},
		"a host that is away":   {engine.Changes{Hosts: []engine.HostChanges{same}, Unknown: map[string]error{"10.0.0.3": errors.New("no")}}, false, "10.0.0.3: cannot be reached", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			theirs, out := filepath.Join(dir, "theirs.yml"), filepath.Join(dir, "out")
			if err := os.WriteFile(theirs, []byte("# as its owner wrote it\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			cl := &cluster{App: &App{Out: &said}, config: &config.Cluster{}, state: &state.State{Desired: state.Part{Certificates: pki.Bundle{pki.Admin: {Config: "admin's"}}}}}
			err := cl.conclude(adoption{flags: flags{config: theirs}, dir: out, accept: c.accept}, &c.changes)
			if (err == nil) != c.written || !strings.Contains(said.String(), c.says) {
				t.Errorf("%v, %q", err, said.String())
			}
			if !c.written {
				if _, err := os.Stat(out); err == nil {
					t.Error("files were written")
				}
				return
			}
			got := map[string]string{}
			for _, file := range []string{"cluster.yml", "kube_config_cluster.yml"} {
				text, err := os.ReadFile(filepath.Join(out, file))
				if err != nil {
					t.Fatal(err)
				}
				got[file] = string(text)
			}
			if diff := cmp.Diff(map[string]string{"cluster.yml": "# as its owner wrote it\n", "kube_config_cluster.yml": "admin's"}, got); diff != "" {
				t.Error(diff)
			}
			if _, err := os.Stat(filepath.Join(out, "cluster.rkestate")); err != nil {
				t.Error(err)
			}
		})
	}
}
