// The plan that leaves a host clean.

package render

import (
	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/plans"
)

// Uninstall is the plan that takes the distribution off a host, with drover's agent when that is asked for.
func Uninstall(in Input, agent bool) plans.Plan {
	d := runtimes.Of(in.Cluster.Spec.KubernetesVersion)
	server := in.Machine.Roles.Etcd || in.Machine.Roles.ControlPlane
	return plans.Plan{Instructions: d.Uninstall(DataDir(in.Cluster), server, agent)}
}
