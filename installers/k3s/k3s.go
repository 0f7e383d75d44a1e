// Package k3s is k3s as a Distribution.
//
// Source: k3s-io/k3s and rancher/system-agent-installer-k3s.
package k3s

import "github.com/drover-project/drover/installers"

// Distribution is k3s: everything in one process, etcd without a health endpoint of its own,
// nodes join at the API server's port.
func Distribution() installers.Distribution {
	return installers.Distribution{
		Name: "k3s", Variable: "K3S", ServerUnit: "k3s", AgentUnit: "k3s-agent",
		JoinPort: 6443, ClusterInit: true, OneTaint: true,
		KillAll: "k3s-killall.sh", ServerUninstall: "k3s-uninstall.sh", AgentUninstall: "k3s-agent-uninstall.sh",
		ScriptDirs: []string{"/usr/local/bin", "/opt/bin"},
	}
}
