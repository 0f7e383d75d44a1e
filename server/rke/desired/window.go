// The maintenance window of a cluster, within which its containers are restarted, and the snapshot that is taken before an upgrade, by
// which there is a way back.

package desired

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/rke"
)

// Outside is what an operation waits for that would restart containers of a running cluster outside of its maintenance window, and when
// that ends by itself; nil when it may go on. It does not wait when a user asked that it does not.
func (s Snapshot) Outside(o operations.Operation) *operations.Wait {
	text := s.Cluster.Annotations[clusterspec.MaintenanceWindow]
	if text == "" || o.Kind != operations.KindProvision || o.Hurry != nil || ReadParams(o).Request != nil || !s.disturbs() {
		return nil
	}
	wait := &operations.Wait{Object: "cluster " + s.Cluster.Name, NextStep: "drover operations hurry " + o.ID + " does it now"}
	all, err := clusterspec.ParseWindows(text)
	if err != nil {
		wait.Cause = fmt.Sprintf("nothing restarts: the maintenance window %.80q of cluster %s cannot be read: %v", text, s.Cluster.Name, err)
		return wait
	}
	now := all.At(s.Now)
	if now.Open {
		return nil
	}
	wait.Cause, wait.Until = "nothing restarts now: "+clusterspec.WindowOpens(all.String(), now), now.Change
	return wait
}

// disturbs says whether containers of a cluster that has been up restart with what is to be brought about: its document is another one, or
// the hosts that have its etcd and its control plane are, which the others are told by their settings. Workers come and go.
func (s Snapshot) disturbs() bool {
	if s.Record == nil || s.Record.Done == "" {
		return false
	}
	before, err := rke.State(s.Record)
	if err != nil || before == nil || before.Current.Config == nil || !bytes.Equal(s.Record.Applied, s.Cluster.Spec.RKE1Text()) {
		return true
	}
	var had, has []string
	for _, n := range before.Current.Config.Nodes {
		if slices.Contains(n.Role, roles[0].name) || slices.Contains(n.Role, roles[1].name) {
			had = append(had, n.Address+" "+fmt.Sprint(n.Role))
		}
	}
	for _, m := range s.Machines {
		if m.Deleting.IsZero() && (m.Roles.Etcd || m.Roles.ControlPlane) {
			has = append(has, Address(m)+" "+fmt.Sprint(Node(m).Role))
		}
	}
	slices.Sort(had)
	slices.Sort(has)
	return !slices.Equal(had, has)
}

// held is a decision to wait for the window; false when there is nothing to wait for.
func (s Snapshot) held(in Input, o operations.Operation) (Decision, bool) {
	wait := s.Outside(o)
	switch {
	case wait == nil:
		return Decision{}, false
	case o.Wait == nil || o.Wait.Cause != wait.Cause:
		return Decision{Do: Hold, Operation: o, Wait: wait}, true
	}
	again := time.Duration(0)
	if !wait.Until.IsZero() {
		again = max(wait.Until.Sub(s.Now), time.Second)
	}
	return s.scheduled(in, Decision{Again: again}), true
}

// Upgrade is the version that a decision to run takes the cluster from, and the one that it takes it to; ok is false where the
// cluster keeps its version, or has none yet.
func (d Decision) Upgrade() (from, to string, ok bool) {
	if d.Do != Run || d.Request != nil || d.Operation.Kind != operations.KindProvision || d.Config == nil || d.Before == nil || d.Before.Current.Config == nil {
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
