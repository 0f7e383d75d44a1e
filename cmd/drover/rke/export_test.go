package rke_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/state"
)

const oneHost = "nodes: [{address: 192.0.2.1, user: u, role: [etcd, controlplane, worker]}]\n"

// made are the files of a new cluster, which take a while to make.
var made map[string][]byte

// running leaves in a directory the files of a cluster that was deployed, or of one changed after that.
func running(t *testing.T, dir string, change func(*state.State)) {
	t.Helper()
	names := []string{"cluster.yml", "kube_config_cluster.yml", "cluster.rkestate"}
	if made == nil {
		first := t.TempDir()
		if err := os.WriteFile(filepath.Join(first, "cluster.yml"), []byte(oneHost), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := run(t, first, nil, "up", "--init"); err != nil {
			t.Fatal(err)
		}
		read := map[string][]byte{}
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(first, name))
			if err != nil {
				t.Fatal(err)
			}
			read[name] = text
		}
		made = read
	}
	s, err := state.Decode(made["cluster.rkestate"])
	if err != nil {
		t.Fatal(err)
	}
	s = s.Deployed()
	if change != nil {
		change(s)
	}
	encoded, err := state.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text := made[name]
		if name == "cluster.rkestate" {
			text = encoded
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestExport(t *testing.T) {
	dir := t.TempDir()
	running(t, dir, nil)
	out, said, err := run(t, dir, nil, "export", "--dir", "out", "--ssh-user", "ops")
	if err != nil || !strings.Contains(out, "read out/README") || strings.Count(said, "WARN") != 1 || !strings.Contains(said, "replaces the pods of the add-ons") {
		t.Fatalf("%q, %q, %v", out, said, err)
	}
	if diff := cmp.Diff([]string{"README", "SHA256SUMS", "cluster.rkestate", "cluster.yml", "kube_config_cluster.yml"}, files(t, filepath.Join(dir, "out"))); diff != "" {
		t.Error(diff)
	}
	text, err := os.ReadFile(filepath.Join(dir, "out", "cluster.yml"))
	if err != nil || !strings.Contains(string(text), "user: ops") {
		t.Errorf("cluster.yml lacks the user: %v", err)
	}
	if _, _, err := run(t, dir, nil, "export", "--dir", "out"); err == nil || !strings.Contains(err.Error(), "new or empty") {
		t.Errorf("a second time to the same directory: %v", err)
	}
	// What was exported is a cluster's files like any others.
	if out, said, err := run(t, filepath.Join(dir, "out"), nil, "export", "--dir", "again"); err != nil || strings.Count(said, "WARN") != 1 {
		t.Errorf("%q, %q, %v", out, said, err)
	}
	before, err := os.ReadFile(filepath.Join(dir, "out", "README"))
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(filepath.Join(dir, "out", "again", "README"))
	if err != nil || string(before) != string(after) {
		t.Errorf("%v, %s", err, cmp.Diff(string(before), string(after)))
	}
}

func TestExportSealed(t *testing.T) {
	dir := t.TempDir()
	running(t, dir, nil)
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJhwxnQhBMX4k4ovzUFVWeMtFlRNJO3ewwDaB7Emd4Oe"
	out, _, err := run(t, dir, nil, "export", "--dir", "out", "--encrypt-to", key, "--bastion", "jump@198.51.100.1:2222")
	if err != nil || !strings.Contains(out, "age --decrypt") {
		t.Fatalf("%q, %v", out, err)
	}
	if diff := cmp.Diff([]string{"rke-export.tar.age"}, files(t, filepath.Join(dir, "out"))); diff != "" {
		t.Error(diff)
	}
}

// An export that is not all it should be is none.
func TestExportRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*state.State)
		args   []string
		want   string
	}{
		"nothing deployed":  {func(s *state.State) { s.Current = state.Part{} }, nil, "nothing of the cluster was deployed yet"},
		"interrupted":       {func(s *state.State) { d := *s.Desired.Config; d.AddonJobTimeout = 46; s.Desired.Config = &d }, nil, "differ in rkeConfig.addonJobTimeout; finish it with"},
		"a private key":     {nil, []string{"--encrypt-to", "AGE-SECRET-KEY-1QQQ"}, "recipient 1: is a private key"},
		"a wrong bastion":   {nil, []string{"--bastion", "a@b@c"}, "--bastion a@b@c: is not of the form"},
		"no such directory": {nil, []string{"--dir", "no/out"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			running(t, dir, c.change)
			_, _, err := run(t, dir, nil, append([]string{"export", "--dir", "out"}, c.args...)...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to say %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "QQQ") {
				t.Errorf("the error repeats a key: %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
				t.Error("something was written")
			}
		})
	}
	t.Run("no state", func(t *testing.T) {
		dir := t.TempDir()
		running(t, dir, nil)
		for _, name := range []string{"cluster.rkestate", "kube_config_cluster.yml"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := run(t, dir, nil, "export", "--dir", "out"); err == nil || !strings.Contains(err.Error(), "get-state-file") {
			t.Errorf("got %v", err)
		}
	})
}

// Changes of cluster.yml that no run has deployed are not part of the export, which says so.
func TestExportOfAnEditedConfig(t *testing.T) {
	dir := t.TempDir()
	running(t, dir, nil)
	if err := os.WriteFile(filepath.Join(dir, "cluster.yml"), []byte(oneHost+"addon_job_timeout: 99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, said, err := run(t, dir, nil, "export", "--dir", "out"); err != nil || !strings.Contains(said, "they are not exported: addonJobTimeout") {
		t.Errorf("%q, %v", said, err)
	}
}

func TestImportRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*state.State)
		cut    int
		args   []string
		want   string
	}{
		"cut off": {nil, 1, nil, "it may be cut off"},
		"another cluster": {func(s *state.State) {
			c := *s.Desired.Config
			c.Nodes = append(c.Nodes[:0:0], c.Nodes...)
			c.Nodes[0].Address = "192.0.2.9"
			s.Desired.Config = &c
			s.Current.Config = &c
		}, 0, nil, "it is the state of another cluster"},
		"nothing deployed":   {func(s *state.State) { s.Current = state.Part{} }, 0, nil, "is not that of a running cluster"},
		"no such state":      {nil, 0, []string{"--state", "other/cluster.rkestate"}, "with --kubeconfig the state is read from the cluster"},
		"no such kubeconfig": {nil, 0, []string{"--kubeconfig", "none"}, "read the administrator's kubeconfig"},
		"both":               {nil, 0, []string{"--kubeconfig", "a", "--state", "b"}, "none of the others can be"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			running(t, dir, c.change)
			path := filepath.Join(dir, "cluster.rkestate")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text[:len(text)-c.cut], 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err = run(t, dir, nil, append([]string{"import", "--dir", "out", "--known-hosts", filepath.Join(dir, "known")}, c.args...)...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to say %q", err, c.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
				t.Error("something was written")
			}
		})
	}
}
