package rke

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

const adminConfig = `{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], clusters: [{name: a, cluster: {server: "https://a:6443"}}], users: [{name: a, user: {token: t}}]}`

// A state can come from others: what it has as a kubeconfig is not written for kubectl when it names a program.
func TestAStateWithAProgramInIt(t *testing.T) {
	dir := t.TempDir()
	text := strings.Replace(adminConfig, "token", "exec: {command: hunter2}, token", 1)
	admin := pki.Bundle{pki.Admin: {Config: text}}
	cl := &cluster{App: &App{Out: io.Discard}, config: &config.Cluster{}, state: &state.State{Desired: state.Part{Certificates: admin}}, files: state.FilesOf(filepath.Join(dir, "cluster.yml"))}
	theirs := filepath.Join(dir, "theirs.yml")
	if err := os.WriteFile(theirs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func() error{
		"up":     func() error { return cl.writeKubeconfig("") },
		"rotate": func() error { return cl.writeAdmin(admin) },
		"import": func() error {
			return cl.writeAdopted(adoption{flags: flags{config: theirs}, dir: filepath.Join(dir, "out")})
		},
		// A name in the config is text in the kubeconfig, too.
		"a name": func() error {
			cl.config.ClusterName = "a\"\nusers: [{name: b, user: {exec: {command: hunter2}}}]\n#"
			return cl.writeKubeconfig("10.0.0.1")
		},
	} {
		if err := write(); err == nil || !strings.Contains(err.Error(), "exec is refused") && name != "a name" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*kube_config*")); len(left) > 0 || exists(filepath.Join(dir, "out", export.KubeconfigFile)) {
		t.Errorf("it was written: %v", left)
	}
}

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
			cl := &cluster{App: &App{Out: &said}, config: &config.Cluster{}, state: &state.State{Desired: state.Part{Certificates: pki.Bundle{pki.Admin: {Config: adminConfig}}}}}
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
			if changes := cmp.Diff(map[string]string{"cluster.yml": "# as its owner wrote it\n", "kube_config_cluster.yml": adminConfig}, got); changes != "" {
				t.Error(changes)
			}
			if _, err := os.Stat(filepath.Join(out, "cluster.rkestate")); err != nil {
				t.Error(err)
			}
		})
	}
}
