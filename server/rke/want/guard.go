// The snapshot that is taken before an upgrade, by which there is a way back.

package want

import (
	"slices"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
)

// Upgrade is the version that a decision to run takes the cluster from, and the one that it takes it to; ok is false where the
// cluster keeps its version, or has none yet.
func (d Decision) Upgrade() (from, to string, ok bool) {
	if d.Do != Run || d.Wish != nil || d.Operation.Kind != operations.KindProvision || d.Config == nil || d.Before == nil || d.Before.Current.Config == nil {
		return "", "", false
	}
	from, to = d.Before.Current.Config.KubernetesVersion, d.Config.KubernetesVersion
	return from, to, from != to
}

// Guarded says whether what is run begins with a snapshot of etcd: an upgrade does, unless its cluster is annotated otherwise.
func (s Snapshot) Guarded(d Decision) bool {
	_, _, upgrades := d.Upgrade()
	return upgrades && s.Cluster.Annotations[clusterspec.NoSnapshot] != "true"
}

// Taken says whether there is a snapshot of a name.
func (s Snapshot) Taken(name string) bool {
	if s.Record == nil || name == "" {
		return false
	}
	for _, one := range s.Record.Snapshots {
		if one.Name == name && one.Failure == "" {
			return true
		}
	}
	return false
}

// Deployed is the config that runs, on those of its hosts that the cluster still has: what a snapshot is taken of before an upgrade.
func (d Decision) Deployed() *config.Cluster {
	c := *d.Before.Current.Config
	c.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n config.Node) bool {
		return !slices.ContainsFunc(d.Config.Nodes, func(other config.Node) bool { return other.Address == n.Address })
	})
	return &c
}
