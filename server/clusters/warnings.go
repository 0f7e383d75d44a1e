// What about a document is seen only beside the machines of its cluster.

package clusters

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans/forms"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// defaultRegistry is a setting of the server and one of clusters.
const defaultRegistry = "system-default-registry"

// warnings are sentences about a cluster as it would be with the setting of the server's registry, and with the machines that
// it has: a selector that matches none of them, and a number of etcd members that survives no more failures than one less does.
func (a *Applier) warnings(cluster records.Cluster) []string {
	rke := cluster.Spec.RKEConfig
	if rke == nil {
		return nil
	}
	var list []string
	if a.DefaultRegistry != nil && versions.RuntimeOf(cluster.Spec.KubernetesVersion) == versions.RKE2 && clusterspec.IsEmptyArg(rke.MachineGlobalConfig[defaultRegistry]) {
		if registry := a.DefaultRegistry(); registry != "" && forms.Registry(registry, false) != "" {
			list = append(list, fmt.Sprintf("spec.rkeConfig.machineGlobalConfig.%[1]s: is empty, so that the setting %[1]s of the server counts, and RKE2 does not start with %[2]q, which has a path: give the cluster a registry of its own without one", defaultRegistry, registry))
		}
	}
	var labels []map[string]string
	etcd := 0
	for _, m := range a.State.MachinesByCluster.Find(records.NewClusterKey(cluster.Namespace, cluster.Name)) {
		if !m.Value.Deleting.IsZero() {
			continue
		}
		labels = append(labels, m.Value.Labels)
		if m.Value.Roles.Etcd {
			etcd++
		}
	}
	if len(labels) == 0 {
		return list
	}
	unmatched := func(field string, i int, s *clusterspec.LabelSelector) {
		if slices.ContainsFunc(labels, s.Matches) {
			return
		}
		list = append(list, fmt.Sprintf("spec.rkeConfig.%s[%d].machineLabelSelector: matches none of the cluster's %d machines", field, i, len(labels)))
	}
	for i, s := range rke.MachineSelectorConfig {
		unmatched("machineSelectorConfig", i, s.MachineLabelSelector)
	}
	for i, s := range rke.MachineSelectorFiles {
		unmatched("machineSelectorFiles", i, s.MachineLabelSelector)
	}
	if etcd > 0 && etcd%2 == 0 {
		list = append(list, fmt.Sprintf("the cluster has %d machines with the etcd role, which survive no more failures than %d would; add one, or remove one", etcd, etcd-1))
	}
	return list
}
