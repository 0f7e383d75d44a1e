// Operations on clusters: what people ask for that restarts or removes machines is a record, one at a time for
// a cluster. Here they begin, are queued, and take their turn; the planner carries them on.

package clusters

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner"
	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Turn says what becomes of a request while another operation on the cluster is under way.
type Turn int

const (
	// Refuse refuses it with the name of the other one: *operations.BusyError.
	Refuse Turn = iota
	// Queue has it wait until the others have ended.
	Queue
	// Replace ends a change that is under way in its favour; what was begun on a machine is not undone. Operations of
	// other kinds are not replaced.
	Replace
)

// params are of an operation whose turn has not come: what it does then.
type params struct {
	// Document is the cluster as it shall be.
	Document *clusterspec.Document `json:"document,omitempty"`
	// Machine is the one to remove, in the way of Leave.
	Machine records.MachineKey `json:"machine,omitempty"`
	Leave   records.Leave      `json:"leave,omitzero"`
}

// begin is the record of a request and the writes that belong to it: the record, those that it replaces, and old
// ones that are dropped. The record is running, or queued.
func (a *Applier) begin(key records.ClusterKey, kind, title, by string, generation int64, turn Turn, p params) (operations.Operation, []store.Op, error) {
	all := a.State.OperationsOf(key)
	now := a.Now().UTC()
	text, err := json.Marshal(p)
	if err != nil {
		return operations.Operation{}, nil, fmt.Errorf("keep what is asked for on cluster %s: %w", key, err)
	}
	o := operations.Operation{
		ID: operations.IDPrefix + random.ID(8), Kind: kind, Subject: string(key), Title: title, By: by, Generation: generation, Params: text, Created: now,
	}
	var ops []store.Op
	if first, busy := operations.Active(string(key), all); busy && (turn == Replace || failing(first) || a.crashing(key)) && replaceable(first) {
		ended, err := first.To(operations.Aborted, "replaced by "+o.ID, now)
		if err != nil {
			return o, nil, err
		}
		d, _ := a.State.Operations.Get(ended.Key())
		d.Value = ended
		ops = append(ops, a.State.Operations.Updating(d))
		for i := range all {
			if all[i].ID == ended.ID {
				all[i] = ended
			}
		}
	}
	if o, err = operations.Begin(o, all, turn == Queue); err != nil {
		return o, nil, err
	}
	for _, old := range operations.Prune(all, operations.Kept) {
		ops = append(ops, a.State.Operations.Deleting(old.Key(), 0))
	}
	return o, append(ops, a.State.Operations.Creating(o.Key(), o)), nil
}

// replaceable says that a newer wish of the cluster's owner may take the place of an operation.
func replaceable(o operations.Operation) bool {
	return (o.Kind == planner.KindChange || o.Kind == planner.KindUpgrade) && o.State != operations.Queued
}

// failing says that a machine could not be changed: correcting the cluster is what mends that.
func failing(o operations.Operation) bool {
	for _, t := range o.Tasks {
		if t.State == operations.TaskFailed {
			return true
		}
	}
	return false
}

// crashing says that a machine that is not Active reports a service that systemd starts again and again under its plan:
// the plan was carried out, and what it set does not work.
func (a *Applier) crashing(key records.ClusterKey) bool {
	return slices.ContainsFunc(a.State.MachinesByCluster.Find(key), func(m *store.Document[records.Machine]) bool {
		secret, ok := a.State.PlanSecrets.Get(records.MachineKey(m.Key).PlanSecret())
		if !ok || m.Value.Status.State == records.Active {
			return false
		}
		report, ok := plans.ReadHostReport(secret.Value.Data)
		return ok && slices.ContainsFunc(report.Units, func(u plans.UnitReport) bool { return u.Restarts > 0 })
	})
}

// promote gives the oldest queued operation of a cluster its turn. It says whether something was written.
func (c *Controller) promote(ctx context.Context, cluster store.Document[records.Cluster], all []operations.Operation) (bool, error) {
	first, found := operations.Active(cluster.Key, all)
	if !found || first.State != operations.Queued || !operations.Ready(first, all) {
		return false, nil
	}
	var p params
	if err := json.Unmarshal(first.Params, &p); err != nil {
		return false, fmt.Errorf("read what operation %s does: %w", first.ID, err)
	}
	next, err := first.To(operations.Running, "", c.Now().UTC())
	if err != nil {
		return false, err
	}
	var ops []store.Op
	switch {
	case p.Document != nil && c.stale(cluster.Value, *p.Document) != nil:
		// It was asked for when the cluster was another one.
		if next, err = first.To(operations.Aborted, c.stale(cluster.Value, *p.Document).Error(), c.Now().UTC()); err != nil {
			return false, err
		}
	case p.Document != nil:
		changed := cluster
		changed.Value = withDocument(cluster.Value, *p.Document)
		next.Generation = changed.Value.Generation
		ops = append(ops, c.State.Clusters.Updating(changed))
	case p.Machine != "":
		if d, ok := c.State.Machines.Get(string(p.Machine)); ok && !p.Leave.Force && lastMember(c.State, d.Value) {
			if next, err = first.To(operations.Aborted, (&LastMemberError{Machine: d.Value.Name, Cluster: d.Value.ClusterName}).Error(), c.Now().UTC()); err != nil {
				return false, err
			}
		} else if ok {
			d.Value.Deleting, d.Value.Leave = c.Now().UTC(), p.Leave
			ops = append(ops, c.State.Machines.Updating(d))
		}
	}
	d, _ := c.State.Operations.Get(first.Key())
	d.Value = next
	if _, err := c.State.Store.Commit(ctx, append(ops, c.State.Operations.Updating(d))...); err != nil {
		return false, fmt.Errorf("begin operation %s: %w", first.ID, err)
	}
	c.Logger.Info("operation begins", "operation", next.ID, "kind", next.Kind, "cluster", cluster.Key)
	return true, nil
}

// stale is why a document that was queued cannot be taken any more; nil when it can.
func (c *Controller) stale(cluster records.Cluster, doc clusterspec.Document) error {
	before, after := documentOf(cluster), doc
	after.Metadata.Annotations = merged(cluster.Annotations, doc.Metadata.Annotations)
	return clusterspec.CheckChange(before, after, clusterspec.Live{Versions: running(c.State, cluster), Started: cluster.Status.Initialized})
}

func documentOf(cluster records.Cluster) clusterspec.Document {
	return clusterspec.Document{Metadata: clusterspec.Metadata{Name: cluster.Name, Annotations: cluster.Annotations}, Spec: cluster.Spec}
}

// withDocument is a cluster as its document wants it.
func withDocument(cluster records.Cluster, doc clusterspec.Document) records.Cluster {
	cluster.Labels = merged(cluster.Labels, doc.Metadata.Labels)
	cluster.Annotations = merged(cluster.Annotations, doc.Metadata.Annotations)
	if !clusterspec.Equal(cluster.Spec, doc.Spec) {
		cluster.Spec = doc.Spec
		cluster.Generation++
		// The owner changes the cluster anyway: the moment to take the newest rendering.
		cluster.Status.Renderer = 0
	}
	return cluster
}
