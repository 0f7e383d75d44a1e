package rke_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/cmd/drover/rke"
)

// run runs `drover rke` in a directory.
func run(t *testing.T, dir string, environ map[string]string, args ...string) (out, errs string, err error) {
	t.Helper()
	t.Chdir(dir)
	var o, e bytes.Buffer
	app := &rke.App{Out: &o, Err: &e, Environ: func(key string) string { return environ[key] }}
	cmd := app.Command()
	cmd.SetArgs(args)
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(context.Background())
	return o.String(), e.String(), err
}

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	printed, _, err := run(t, dir, nil, "config", "--print")
	if err != nil || !strings.Contains(printed, "nodes:") {
		t.Fatalf("%q, %v", printed, err)
	}
	if _, _, err := run(t, dir, nil, "config", "--minimal"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, dir, nil, "config"); err == nil || !strings.Contains(err.Error(), "not overwritten") {
		t.Errorf("a config that is there: %v", err)
	}
	list, _, err := run(t, dir, nil, "config", "--list-version", "--all")
	if err != nil || !strings.Contains(list, "v1.30.5-rancher1-1\n") {
		t.Errorf("%q, %v", list, err)
	}
}

// What --init writes is what the next one continues from.
func TestInit(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := run(t, dir, nil, "config", "--minimal"); err != nil {
		t.Fatal(err)
	}
	_, said, err := run(t, dir, nil, "up", "--init")
	if err != nil || !strings.Contains(said, "Successfully Deployed state file at [./cluster.rkestate]") {
		t.Fatalf("%q, %v", said, err)
	}
	for _, name := range []string{"cluster.rkestate", "kube_config_cluster.yml"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	first, err := os.ReadFile(filepath.Join(dir, "cluster.rkestate"))
	if err != nil {
		t.Fatal(err)
	}
	if _, said, err := run(t, dir, nil, "up", "--init"); err != nil || strings.Contains(said, "Generating CA") {
		t.Errorf("again: %q, %v", said, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.rkestate"), first[:len(first)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, dir, nil, "up", "--init"); err == nil || !strings.Contains(err.Error(), "it may be cut off") || !strings.Contains(err.Error(), "the last good state is") {
		t.Errorf("a state that was cut off: %v", err)
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		config string // "" for none
		args   []string
		want   string
	}{
		"no config":            {"", []string{"up"}, "write one with `drover rke config --print"},
		"tabs":                 {"nodes:\n\t- address: a\n", []string{"up"}, "tab"},
		"a role misspelt":      {"nodes: [{address: a, user: u, role: [etdc]}]\n", []string{"up"}, "etdc"},
		"no etcd":              {"nodes: [{address: a, user: u, role: [controlplane]}]\n", []string{"up"}, "etcd"},
		"an unknown version":   {"kubernetes_version: v1.2.3\nnodes: [{address: a, user: u, role: [etcd, controlplane, worker]}]\n", []string{"up"}, "unsupported Kubernetes version"},
		"nothing to remove":    {"nodes: [{address: a, user: u, role: [etcd, controlplane, worker]}]\n", []string{"remove", "--force"}, "there is no cluster to remove"},
		"init and dry run":     {"nodes: [{address: a, user: u, role: [etcd, controlplane, worker]}]\n", []string{"up", "--init", "--dry-run"}, "nothing to preview"},
		"no state, kubeconfig": {"nodes: [{address: a, user: u, role: [etcd, controlplane, worker]}]\n", []string{"util", "get-kubeconfig"}, "get-state-file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.config != "" {
				if err := os.WriteFile(filepath.Join(dir, "cluster.yml"), []byte(c.config), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, _, err := run(t, dir, nil, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to say %q", err, c.want)
			}
		})
	}
}

// An unknown key is said, with its line, and ends nothing.
func TestAnUnknownKeyIsAWarning(t *testing.T) {
	dir := t.TempDir()
	text := "nodes: [{address: a, user: u, role: [etcd, controlplane, worker]}]\nkubernets_version: v1\n"
	if err := os.WriteFile(filepath.Join(dir, "mine.yml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, said, err := run(t, dir, map[string]string{"RKE_CONFIG": "mine.yml"}, "up", "--init")
	if err != nil || !strings.Contains(said, "WARN[0000] mine.yml:2") || !strings.Contains(said, "kubernets_version") {
		t.Errorf("%q, %v", said, err)
	}
}

// Two commands do not work on one state at the same time.
func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := run(t, dir, nil, "config", "--minimal"); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "cluster.yml"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	known := filepath.Join(dir, "known_hosts")
	if _, _, err := run(t, dir, nil, "up", "--known-hosts", known); err == nil || !strings.Contains(err.Error(), "another command works on") {
		t.Errorf("got %v", err)
	}
}
