// Operations on clusters: what people ask for that restarts or removes machines is a record, one at a time for
// a cluster. Here they begin, are queued, and take their turn; the planner carries them on.

package clusters

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/references"
	"github.com/drover-project/drover/server/rke/want"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/turns"
)

// params are of an operation whose turn has not come: what it does then.
type params struct {
	// Document is the cluster as it shall be.
	Document *clusterspec.Document `json:"document,omitempty"`
	// Whole is Request.Whole of the document.
	Whole bool `json:"whole,omitempty"`
	// Granted is what the cluster may use of what the document names, as it was when that was applied.
	Granted map[string]records.Granted `json:"granted,omitempty"`
	// Machine is the one to remove, in the way of Leave.
	Machine records.MachineKey `json:"machine,omitempty"`
	Leave   records.Leave      `json:"leave,omitzero"`
	// Ask is what package steps carries out; see server/daytwo.
	Ask json.RawMessage `json:"ask,omitempty"`
	// Guard is of an upgrade that begins with a snapshot.
	Guard *steps.Guard `json:"guard,omitempty"`
}

// begin is the record of a request on a cluster and the writes that belong to it; see turns.Begin.
func (a *Applier) begin(key records.ClusterKey, kind operations.Kind, title string, asked Request, generation int64, p params) (operations.Operation, []store.Op, error) {
	r := turns.Request{Subject: key, Kind: kind, Title: title, By: asked.Who.UserID, Generation: generation, Turn: asked.Turn, Hurry: asked.Hurry, Failing: a.crashing(key), Params: p}
	if kind == operations.KindUninstall {
		r.Dismiss = "cluster " + key.Name() + " is deleted"
		r.Final = fmt.Sprintf("removes the whole cluster, which does not work without a part of its hosts: wait for it, or forget the cluster with what is left on them: drover clusters rm %s --force --yes", key.Name())
	}
	o, writes, _, err := turns.Begin(a.State, r, a.Now)
	return o, writes, err
}

// admission writes the cluster as it is, on the condition that it was not written since the caller read it. With it in
// the transaction of each operation that begins or is queued, what was checked after that reading holds: of two
// requests in the same moment one conflicts with the other, and is checked again.
func (a *Applier) admission(cluster store.Document[records.Cluster]) store.Op {
	return a.State.Clusters.Updating(cluster)
}

// crashing says that a machine that is not Active reports a service that systemd starts again and again under its plan, or a
// static pod that the kubelet does: the plan was carried out, and what it set does not work. A pod may be started again once
// where all is well, as one that comes before etcd does.
func (a *Applier) crashing(key records.ClusterKey) bool {
	return slices.ContainsFunc(a.State.MachinesByCluster.Find(key), func(m *store.Document[records.Machine]) bool {
		secret, ok := a.State.PlanSecrets.Get(records.MachineKey(m.Key).PlanSecret())
		if !ok || m.Value.Status.State == records.Active {
			return false
		}
		report, ok := plans.ReadHostReport(secret.Value.Data)
		return ok && (slices.ContainsFunc(report.Units, func(u plans.UnitReport) bool { return u.Restarts > 0 }) ||
			slices.ContainsFunc(report.Pods, func(p plans.PodReport) bool { return p.Restarts > 1 }))
	})
}

// promote gives the oldest queued operation of a cluster its turn. It says whether something was written.
func (c *Controller) promote(ctx context.Context, cluster store.Document[records.Cluster], all []operations.Operation) (bool, error) {
	if !cluster.Value.Deleting.IsZero() {
		return c.dismiss(ctx, cluster, all)
	}
	first, found := operations.Active(cluster.Key, all)
	if !found || first.State != operations.Queued || !operations.Ready(first, all) {
		return false, nil
	}
	next, writes, err := c.turn(cluster, first)
	if err != nil {
		return false, err
	}
	d, _ := c.State.Operations.Get(first.Key())
	d.Value = next
	if _, err := c.State.Store.Commit(ctx, append(writes, c.State.Operations.Updating(d))...); err != nil {
		return false, fmt.Errorf("begin operation %s: %w", first.ID, err)
	}
	c.Logger.Info("operation has its turn", "operation", next.ID, "kind", next.Kind, "cluster", cluster.Key, "state", next.State)
	return true, nil
}

// turn is what becomes of a queued operation whose turn it is, with the writes that begin it. One that cannot be carried
// out ends here, so that the next one has its turn.
func (c *Controller) turn(cluster store.Document[records.Cluster], first operations.Operation) (operations.Operation, []store.Op, error) {
	now := c.Now().UTC()
	aborted := func(why error) (operations.Operation, []store.Op, error) {
		next, err := first.To(operations.Aborted, why.Error(), now)
		return next, nil, err
	}
	next, err := first.To(operations.Running, "", now)
	if err != nil {
		return next, nil, err
	}
	if want.IsWish(first) {
		return next, nil, nil // server/rke carries it out
	}
	p, err := readParams(first)
	if err != nil {
		next.Once = true // nothing of it can be tried again
		next, err = next.To(operations.Failed, fmt.Sprintf("what operation %s was to do cannot be read, as servers of another version may have written it: %v; ask for it anew", first.ID, err), now)
		return next, nil, err
	}
	if p.Document != nil {
		// It was asked for when the cluster was another one.
		if stale := c.stale(cluster.Value, *p.Document); stale != nil {
			return aborted(stale)
		}
		if p.Guard != nil && cluster.Value.Spec.KubernetesVersion != p.Document.Spec.KubernetesVersion {
			p.Guard.Spec = cluster.Value.Spec
			if next.Params, err = json.Marshal(p); err != nil {
				return next, nil, fmt.Errorf("keep what operation %s begins with: %w", first.ID, err)
			}
		}
		cluster.Value = withDocument(cluster.Value, *p.Document, p.Whole)
		cluster.Value.Granted = references.Keep(cluster.Value.Granted, p.Granted, cluster.Value)
		next.Generation = cluster.Value.Generation
		return next, []store.Op{c.State.Clusters.Updating(cluster)}, nil
	}
	d, ok := c.State.Machines.Get(string(p.Machine))
	switch {
	case p.Ask != nil:
		return next, nil, nil
	case !ok:
		return next, nil, nil // it has gone, and the operation ends with that
	case !p.Leave.Force && lastMember(c.State, d.Value):
		return aborted(&LastMemberError{Machine: d.Value.Name, Cluster: d.Value.ClusterName})
	}
	d.Value.Deleting, d.Value.Leave = now, p.Leave
	return next, []store.Op{c.State.Machines.Updating(d)}, nil
}

// readParams are what a queued operation does: a document, or a machine that is removed.
func readParams(o operations.Operation) (params, error) {
	var p params
	if err := json.Unmarshal(o.Params, &p); err != nil {
		return p, err
	}
	if (p.Document == nil) == (p.Machine == "") && p.Ask == nil {
		return p, fmt.Errorf("%q names neither a cluster's document nor a machine", o.Kind)
	}
	return p, nil
}

// dismiss ends the operations that wait on a cluster that is being deleted. It says whether there were any.
func (c *Controller) dismiss(ctx context.Context, cluster store.Document[records.Cluster], all []operations.Operation) (bool, error) {
	dismissed, err := dismissed(all, cluster.Value.Name, c.Now().UTC())
	if err != nil || len(dismissed) == 0 {
		return false, err
	}
	var writes []store.Op
	for _, o := range dismissed {
		d, _ := c.State.Operations.Get(o.Key())
		d.Value = o
		writes = append(writes, c.State.Operations.Updating(d))
	}
	if _, err := c.State.Store.Commit(ctx, writes...); err != nil {
		return false, fmt.Errorf("end what waits on cluster %s, which is deleted: %w", cluster.Key, err)
	}
	return true, nil
}

// dismissed are the queued ones of some operations as they end with their cluster.
func dismissed(all []operations.Operation, cluster string, now time.Time) ([]operations.Operation, error) {
	var ended []operations.Operation
	for _, o := range all {
		if o.State != operations.Queued {
			continue
		}
		next, err := o.To(operations.Aborted, "cluster "+cluster+" is deleted", now)
		if err != nil {
			return nil, err
		}
		ended = append(ended, next)
	}
	return ended, nil
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

// withDocument is a cluster as its document wants it; whole is Request.Whole.
func withDocument(cluster records.Cluster, doc clusterspec.Document, whole bool) records.Cluster {
	if !whole {
		doc.Metadata.Labels, doc.Metadata.Annotations = merged(cluster.Labels, doc.Metadata.Labels), merged(cluster.Annotations, doc.Metadata.Annotations)
	}
	cluster.Labels, cluster.Annotations = doc.Metadata.Labels, doc.Metadata.Annotations
	if !clusterspec.Equal(cluster.Spec, doc.Spec) {
		cluster = changed(cluster)
	}
	cluster.Spec = doc.Spec
	return cluster
}

// changed is a cluster whose owner changes it: the moment to take the newest rendering.
func changed(cluster records.Cluster) records.Cluster {
	cluster.Generation++
	cluster.Status.Renderer = 0
	return cluster
}

// PreviewOperation is what an operation of package steps would do on the machines of its cluster if it began now, in its order. The
// error says why it could not begin.
func (c *Controller) PreviewOperation(o operations.Operation) ([]string, error) {
	cluster, ok := c.State.Clusters.Get(o.Subject)
	if !ok {
		return nil, &store.NotFoundError{Collection: "clusters", Key: o.Subject}
	}
	snapshot, _ := c.gather(cluster)
	snapshot.Operation = &o
	next := decide.Decide(snapshot).Operation
	if next == nil {
		return nil, fmt.Errorf("nothing is known yet of what operation %s would do on cluster %s; ask again in a moment", o.Kind, o.Subject)
	}
	if len(next.Tasks) == 0 {
		return nil, fmt.Errorf("%s: it would not begin: %s", o.Title, next.Reason)
	}
	var lines []string
	for _, t := range next.Tasks {
		lines = append(lines, t.Title)
	}
	return lines, nil
}
