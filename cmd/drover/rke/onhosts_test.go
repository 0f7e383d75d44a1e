package rke

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
)

func TestHostsAlone(t *testing.T) {
	for text, want := range map[string]bool{
		"nodes: [{address: a, user: u}]": true,
		"nodes: [{address: a, user: u}]\nssh_key_path: k\nssh_agent_auth: true\nbastion_host: {address: b}": true,
		"nodes: [{address: a, user: u}]\ncluster_name: prod":                                                false,
		"nodes: [{address: a, user: u}]\nnetwork: {plugin: canal}":                                          false,
	} {
		file, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if is := hostsAlone(file.Cluster); is != want {
			t.Errorf("%s: %v", text, is)
		}
	}
}

// Hosts that cannot be asked are named, with what is missing.
func TestOnHosts(t *testing.T) {
	dir := t.TempDir()
	key, hosts := filepath.Join(dir, "key"), filepath.Join(dir, "known_hosts")
	for text, says := range map[string]string{
		"cluster_name: prod":                           "names no nodes",
		"nodes: [{address: 127.0.0.1}]":                "nodes[0] needs an address and a user",
		"nodes: [{address: 127.0.0.1, user: u}]\nx: [": "cluster.yml",
		"nodes: [{address: 127.0.0.1, port: '1', user: u, ssh_key_path: " + key + "}]": "none of the 1 hosts can be looked at",
	} {
		path := filepath.Join(dir, "cluster.yml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		app := &App{Out: &said, Err: &said, Environ: func(string) string { return "" }}
		if _, _, err := app.OnHosts(t.Context(), path, Login{knownHosts: hosts}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
