// RKE2 as a distribution.
//
// Source: rancher/rke2 and rancher/system-agent-installer-rke2.

package runtimes

import "github.com/drover-project/drover/installers"

// RKE2 is RKE2: components are static pods, nodes join at the supervisor's own port, and
// the installer writes its restart stamp before it restarts.
func RKE2() installers.Distribution {
	return installers.Distribution{
		Name: "rke2", Variable: "RKE2", ServerUnit: "rke2-server", AgentUnit: "rke2-agent",
		JoinPort: 9345, EtcdHealth: true, ComponentMounts: true, DefaultCNI: "calico", RestartCheck: true,
		KillAll: "rke2-killall.sh", ServerUninstall: "rke2-uninstall.sh", AgentUninstall: "rke2-uninstall.sh",
		ScriptDirs: []string{"/usr/local/bin", "/opt/rke2/bin", "/usr/bin"},
	}
}
