// k3s as a distribution.
//
// Source: k3s-io/k3s and rancher/system-agent-installer-k3s.

package runtimes

import "github.com/drover-project/drover/installers"

// K3s is k3s: everything in one process, etcd without a health endpoint of its own,
// nodes join at the API server's port.
func K3s() installers.Distribution {
	return installers.Distribution{
		Name: "k3s", Variable: "K3S", ServerUnit: "k3s", AgentUnit: "k3s-agent",
		JoinPort: 6443, ClusterInit: true, OneTaint: true,
		KillAll: "k3s-killall.sh", ServerUninstall: "k3s-uninstall.sh", AgentUninstall: "k3s-agent-uninstall.sh",
		ScriptDirs: []string{"/usr/local/bin", "/opt/bin"},
	}
}
