package desired

import (
	"slices"

	"github.com/drover-project/drover/rke1/nodeconfig"
)

// Names are those of all containers that stay, in the order in which they start on a host with
// every role.
func Names() []string {
	return []string{Etcd, RollingSnapshots, Sidekick, KubeAPIServer, ControllerManager, Scheduler, NginxProxy, Kubelet, KubeProxy}
}

// Leavings are names of all containers that can be on a host of a cluster, in the order in which they are removed: those that stay, what the
// replacement of one left, and those that end, of which a run that was killed may have left some.
func Leavings() []string {
	var names []string
	for _, name := range slices.Backward(Names()) {
		names = append(names, name, nodeconfig.OldPrefix+name, nodeconfig.NewPrefix+name, nodeconfig.LinkerPrefix+name)
	}
	return append(names, leftovers()...)
}

// Login is Docker's X-Registry-Auth for pulling an image; empty for one that needs none.
func (p *Plan) Login(image string) string { return p.login(image) }
