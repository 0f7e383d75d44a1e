// Operations on clusters: what people ask for that restarts or removes machines is a record, one at a time for
// a cluster. Here they begin, are queued, and take their turn; package decide carries them on.

package clusters

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/references"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
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
	// Ask is what package steps carries out; see server/etcdops.
	Ask json.RawMessage `json:"ask,omitempty"`
	// Guard is of an upgrade that begins with a snapshot.
	Guard *steps.Guard `json:"guard,omitempty"`
}

// begin is the record of a request on a cluster and the writes that belong to it; see admission.Begin.
func (a *Applier) begin(ctx context.Context, key records.ClusterKey, kind operations.Kind, title string, asked Request, generation int64, p params) (operations.Operation, []store.Op, error) {
	r := admission.Request{Subject: key, Kind: kind, Title: title, By: asked.Who.UserID, Generation: generation, Turn: asked.Turn, Hurry: asked.Hurry, Failing: a.crashing(key), Params: p}
	if kind == operations.KindUninstall {
		r.Dismiss = "cluster " + key.Name() + " is deleted"
		r.Final = fmt.Sprintf("removes the whole cluster, which does not work without a part of its hosts: wait for it, or forget the cluster with what is left on them: drover clusters rm %s --force --yes", key.Name())
	}
	o, writes, _, err := admission.Begin(ctx, a.State, r, a.Now)
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

// Turn is what becomes of the operations that wait on a cluster, with the writes that begin the one whose turn it is; there is nothing
// where each has to wait on. On a cluster that is deleted they end, and so does one that cannot be carried out, so that the next one
// has its turn.
func Turn(s *state.State, cluster store.Document[records.Cluster], now time.Time) (next []operations.Operation, writes []store.Op, err error) {
	all := s.OperationsOf(records.ClusterKey(cluster.Key))
	if !cluster.Value.Deleting.IsZero() {
		for _, o := range all {
			if o.State != operations.Queued {
				continue
			}
			ended, err := o.To(operations.Aborted, "cluster "+cluster.Value.Name+" is deleted", now)
			if err != nil {
				return nil, nil, err
			}
			next = append(next, ended)
		}
		return next, nil, nil
	}
	first, ok := operations.Next(cluster.Key, all)
	if !ok {
		return nil, nil, nil
	}
	begun, writes, err := turn(s, cluster, first, now)
	return []operations.Operation{begun}, writes, err
}

// turn begins an operation, or ends one that cannot be carried out.
func turn(s *state.State, cluster store.Document[records.Cluster], first operations.Operation, now time.Time) (operations.Operation, []store.Op, error) {
	aborted := func(why error) (operations.Operation, []store.Op, error) {
		next, err := first.To(operations.Aborted, why.Error(), now)
		return next, nil, err
	}
	next, err := first.To(operations.Running, "", now)
	if err != nil {
		return next, nil, err
	}
	if cluster.Value.Spec.RKE1() && operations.RKE1(first.Kind) {
		return next, nil, nil // server/controllers/rke1 carries it out
	}
	p, err := readParams(first)
	if err != nil {
		next.Once = true // nothing of it can be tried again
		next, err = next.To(operations.Failed, fmt.Sprintf("what operation %s was to do cannot be read, as servers of another version may have written it: %v; ask for it anew", first.ID, err), now)
		return next, nil, err
	}
	if p.Document != nil {
		// It was asked for when the cluster was another one.
		if stale := stale(s, cluster.Value, *p.Document); stale != nil {
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
		return next, []store.Op{s.Clusters.Updating(cluster)}, nil
	}
	d, ok := s.Machines.Get(string(p.Machine))
	switch {
	case p.Ask != nil:
		return next, nil, nil
	case !ok:
		return next, nil, nil // it has gone, and the operation ends with that
	case !p.Leave.Force && lastMember(s, d.Value):
		return aborted(&records.LastMemberError{Machine: d.Value.Name, Cluster: d.Value.ClusterName})
	}
	d.Value.Deleting, d.Value.Leave = now, p.Leave
	return next, []store.Op{s.Machines.Updating(d)}, nil
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

// stale is why a document that was queued cannot be taken any more; nil when it can.
func stale(s *state.State, cluster records.Cluster, doc clusterspec.Document) error {
	before, after := documentOf(cluster), doc
	after.Metadata.Annotations = merged(cluster.Annotations, doc.Metadata.Annotations)
	return clusterspec.CheckChange(before, after, clusterspec.Live{Versions: Running(s, cluster), Started: cluster.Status.Initialized})
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
