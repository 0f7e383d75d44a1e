// Removing clusters and machines: what people ask for, and what is refused at once.

package clusters

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Remove asks for a cluster's removal; the controller carries it out. Without leave.Uninstall its hosts keep what runs on them. A removal that waits
// for hosts can be asked for again with leave.Force. The errors are those of the store, and refusals of a removal that is under way.
func (a *Applier) Remove(ctx context.Context, key records.ClusterKey, leave records.Leave) error {
	return store.Retry(func() error { return a.remove(ctx, key, leave) })
}

func (a *Applier) remove(ctx context.Context, key records.ClusterKey, leave records.Leave) error {
	d, ok := a.State.Clusters.Get(string(key))
	if !ok {
		return fmt.Errorf("remove cluster %s: %w", key, &store.NotFoundError{Collection: "clusters", Key: string(key)})
	}
	c := d.Value
	if !c.Deleting.IsZero() && (!leave.Force || !c.Leave.Uninstall) {
		return nil
	}
	if c.Deleting.IsZero() {
		c.Deleting = a.Now().UTC()
	}
	c.Leave = leave
	c.Leave.Uninstall = leave.Uninstall && !leave.Force && (!c.Spec.Docker() || c.Spec.RKE1())
	if c.Spec.Imported() {
		c.Leave.Uninstall = !leave.Force // what the server has put there never stays without need
	}
	d.Value = c
	ops := []store.Op{a.State.Clusters.Updating(d)}
	if c.Leave.Uninstall && !c.Spec.Imported() {
		if err := c.MayChange(); err != nil {
			return fmt.Errorf("remove cluster %s: %w", key, err)
		}
		_, recorded, err := a.begin(ctx, key, operations.KindUninstall, fmt.Sprintf("remove cluster %s and leave its hosts clean", c.Name), Request{Who: auth.Identity{UserID: leave.By}, Turn: admission.Replace}, c.Generation, params{})
		if busy := (*operations.BusyError)(nil); err != nil && !errors.As(err, &busy) {
			return fmt.Errorf("remove cluster %s: %w", key, err)
		}
		ops = append(ops, recorded...) // none while a machine leaves, which then is a part of this
	}
	if _, err := a.State.Store.Commit(ctx, ops...); err != nil {
		return fmt.Errorf("remove cluster %s: %w", key, err)
	}
	return nil
}

// RemoveMachine asks for a machine's removal from its cluster; the controller carries it out: etcd and the cluster
// let it go, and its host is left clean. With leave.Force it is forgotten at once, and the host keeps what runs on
// it; a removal that waits can be asked for again so. The last member of etcd is not removed without force:
// *records.LastMemberError. While another operation on the cluster is under way it waits or is refused, as turn says. What was
// asked of the cluster in the same moment, and is in the store first, is seen.
func (a *Applier) RemoveMachine(ctx context.Context, key records.MachineKey, leave records.Leave, turn admission.Turn) error {
	return store.Retry(func() error { return a.removeMachine(ctx, key, leave, turn) })
}

func (a *Applier) removeMachine(ctx context.Context, key records.MachineKey, leave records.Leave, turn admission.Turn) error {
	d, ok := a.State.Machines.Get(string(key))
	// Before all that is checked: see admission.
	cluster, _ := a.State.Clusters.Get(string(d.Value.Cluster()))
	if ok {
		d, ok = a.State.Machines.Get(string(key))
	}
	if !ok {
		return fmt.Errorf("remove machine %s: %w", key, &store.NotFoundError{Collection: "machines", Key: string(key)})
	}
	m := d.Value
	switch {
	case !m.Deleting.IsZero() && (!leave.Force || m.Leave.Force):
		return nil
	case !leave.Force && m.Docker == nil && lastMember(a.State, m):
		return fmt.Errorf("remove machine %s: %w", key, &records.LastMemberError{Machine: m.Name, Cluster: m.ClusterName})
	case !leave.Force:
		if err := cluster.Value.MayChange(); err != nil {
			return fmt.Errorf("remove machine %s: %w", key, err)
		}
	}
	leave.Uninstall = !leave.Force
	var ops []store.Op
	if m.Docker == nil && !leave.Force && m.Status.JoinedTo+m.Status.JoinURL != "" {
		o, recorded, err := a.begin(ctx, m.Cluster(), operations.KindRemoval, fmt.Sprintf("remove machine %s from cluster %s", m.Name, m.ClusterName), Request{Who: auth.Identity{UserID: leave.By}, Turn: turn}, cluster.Value.Generation, params{Machine: key, Leave: leave})
		if err != nil {
			return fmt.Errorf("remove machine %s: %w", key, err)
		}
		ops = append(recorded, a.admission(cluster))
		if o.State == operations.Queued {
			if _, err := a.State.Store.Commit(ctx, ops...); err != nil {
				return fmt.Errorf("remove machine %s: %w", key, err)
			}
			return nil
		}
	}
	if m.Deleting.IsZero() {
		m.Deleting = a.Now().UTC()
	}
	m.Leave = leave
	d.Value = m
	if _, err := a.State.Store.Commit(ctx, append(ops, a.State.Machines.Updating(d))...); err != nil {
		return fmt.Errorf("remove machine %s: %w", key, err)
	}
	return nil
}

// lastMember says that no other machine of its cluster has etcd that may have joined.
func lastMember(s *state.State, m records.Machine) bool {
	if !m.Roles.Etcd || !m.Status.Member {
		return false
	}
	for _, d := range s.MachinesByCluster.Find(m.Cluster()) {
		if other := d.Value; other.Name != m.Name && other.Deleting.IsZero() && other.Status.Member {
			return false
		}
	}
	return true
}
