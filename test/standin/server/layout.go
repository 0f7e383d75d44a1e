package server

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
)

// layout gives the paths below the data directory, as the real one has them.
type layout struct{ data string }

func (l layout) server(parts ...string) string {
	return filepath.Join(append([]string{l.data, "server"}, parts...)...)
}
func (l layout) tls(name string) string        { return l.server("tls", name) }
func (l layout) agent(name string) string      { return filepath.Join(l.data, "agent", name) }
func (l layout) manifests() string             { return l.server("manifests") }
func (l layout) credential(name string) string { return l.server("cred", name+".kubeconfig") }
func (l layout) etcd() string                  { return l.server("db", "etcd") }
func (l layout) etcdConfig() string            { return filepath.Join(l.etcd(), "config") }

// deployed is the stand-in's own note of what it made from which manifest.
func (l layout) deployed() string { return l.server("k3s-standin-deployed.json") }

// scratch holds the hollow kubelet's sockets and working files. It is not below the data directory because the path
// of a socket must be short.
func (l layout) scratch() string {
	sum := sha256.Sum256([]byte(l.data))
	return "/run/k3s-standin/" + hex.EncodeToString(sum[:4])
}
