// Package clusters holds what people do to clusters: documents are taken in, with the Secrets and ConfigMaps that they name, clusters are imported, paused
// and removed, and operations on them are asked for.
package clusters

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/references"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Action is what applying a document does, or would do.
type Action = apitypes.ApplyAction

// The actions of an apply.
const (
	Created    = apitypes.ApplyCreated
	Configured = apitypes.ApplyConfigured
	Unchanged  = apitypes.ApplyUnchanged
	Queued     = apitypes.ApplyQueued
)

// Result is what became of one document.
type Result struct {
	apitypes.ApplyResult
	// Cluster is as it is then; of a Secret or ConfigMap it is empty.
	Cluster records.Cluster `json:"-"`
}

// Applier takes cluster documents into the store.
type Applier struct {
	State *state.State
	// Preview is what would be decided on a cluster if it were stored as given, with the Secrets and ConfigMaps that are
	// given beside it.
	Preview func(records.Cluster, ...objects.Object) apitypes.Preview
	// CheckRKE1 says what is wrong with the config of an RKE1 cluster, and what is taken and likely a mistake.
	CheckRKE1 func(records.Cluster) (warnings []string, err error)
	// PreviewRKE1 asks the hosts of an RKE1 cluster what would be done on them, a line for each change.
	PreviewRKE1 func(context.Context, records.Cluster) ([]string, error)
	// DefaultRegistry gives the server's default registry; nil for none.
	DefaultRegistry func() string
	// Versions is the current version data.
	Versions func() *versions.Data
	Now      func() time.Time
}

// Request is how documents are to be taken in.
type Request struct {
	// Who applies them: what they may read the clusters may use.
	Who auth.Identity
	// Allow refuses to change a cluster, or to make a new one, which is nil; nil allows both.
	Allow func(existing *records.Cluster) error
	// DryRun stores nothing.
	DryRun bool
	// Turn is what becomes of a change while another operation on its cluster is under way.
	Turn admission.Turn
	// NoSnapshot has an upgrade begin without a snapshot of etcd, and Hurry has the change not wait for the maintenance window.
	NoSnapshot, Hurry bool
	// Limits bound what may be done on machines: beyond them the documents are refused.
	Limits Limits
	// Whole has the labels and annotations of a document replace those of its cluster; otherwise they are added to them.
	Whole bool
	// Seen is the revision of the cluster that a document is a change of, zero for none; nil takes any. Another one is a
	// *store.ConflictError.
	Seen *int64
	// Generation is that of the spec which the preview was made of, zero for a cluster that is not there; nil takes any. Another
	// one is a *records.ChangedError.
	Generation *int64
	// Owners say who set which field; see records.Cluster. Nil leaves what is there.
	Owners json.RawMessage
}

// Apply stores all documents in one transaction, or none of them. In a dry run it
// stores nothing and returns what it would have done, with the decision that would follow. What goes beyond the limits is a *records.LimitError; *operations.BusyError says that another operation is under way, and *operations.QueueFullError
// that too many wait.
func (a *Applier) Apply(ctx context.Context, docs []clusterspec.Document, request Request) ([]Result, error) {
	return a.ApplyStream(ctx, clusterspec.Stream{Clusters: docs}, request)
}

// ApplyStream is Apply with the Secrets and ConfigMaps of a stream, whose results come first. The errors are those of Apply.
func (a *Applier) ApplyStream(ctx context.Context, stream clusterspec.Stream, request Request) ([]Result, error) {
	return store.RetryFor(func() ([]Result, error) { return a.apply(ctx, stream, request) })
}

func (a *Applier) apply(ctx context.Context, stream clusterspec.Stream, request Request) ([]Result, error) {
	writings, given, err := prepareAll(a.State, request.Who, stream.Objects)
	if err != nil {
		return nil, err
	}
	find := references.Stored(a.State, given...)
	var ofDocs []store.Op
	var results []Result
	for _, doc := range stream.Clusters {
		result, cluster, docOps, err := a.one(doc, request, find)
		if err != nil {
			return nil, err
		}
		result.Cluster = cluster
		result.Warnings = append(clusterspec.Warnings(doc, a.Versions()), a.warnings(cluster)...)
		result.Warnings = append(result.Warnings, references.Faults(cluster, find)...)
		if cluster.Spec.RKE1() {
			if err := a.rke1(ctx, &result, cluster, request.DryRun); err != nil {
				return nil, err
			}
		}
		if result.Action == Configured || request.DryRun && result.Action != Unchanged {
			preview := a.Preview(cluster, given...)
			if err := request.Limits.check(records.NewClusterKey(cluster.Namespace, cluster.Name), preview); err != nil {
				return nil, err
			}
			if request.DryRun {
				result.Preview = &preview
			} else if docOps, err = a.operate(ctx, &result, doc, cluster, preview, request, docOps); err != nil {
				return nil, err
			}
		}
		results = append(results, result)
		ofDocs = append(ofDocs, docOps...)
	}
	first, writes := a.write(writings, results)
	results, writes = append(first, results...), append(writes, ofDocs...)
	if request.DryRun || len(writes) == 0 {
		return results, nil
	}
	if _, err := a.State.Store.Commit(ctx, writes...); err != nil {
		return nil, fmt.Errorf("store what was applied: %w", err)
	}
	return results, nil
}

// rke1 refuses a config that cannot be carried out, and looks at the hosts for a dry run.
func (a *Applier) rke1(ctx context.Context, result *Result, cluster records.Cluster, dryRun bool) error {
	warnings, err := a.CheckRKE1(cluster)
	if err != nil {
		return fmt.Errorf("apply cluster %s: %w", cluster.Name, err)
	}
	result.Warnings = append(result.Warnings, warnings...)
	if dryRun {
		result.Hosts, err = a.PreviewRKE1(ctx, cluster)
	}
	return err
}

// one is what applying a document does: the cluster as it is then, and the writes; none when it is so already.
func (a *Applier) one(doc clusterspec.Document, request Request, find references.Lookup) (Result, records.Cluster, []store.Op, error) {
	key := records.NewClusterKey(doc.Metadata.Namespace, doc.Metadata.Name)
	existing, ok := a.State.Clusters.Get(string(key))
	if seen := request.Seen; seen != nil && *seen != existing.Revision {
		return Result{}, existing.Value, nil, &store.ConflictError{Collection: "clusters", Key: string(key), Wanted: *seen, Current: existing.Revision}
	}
	if g := request.Generation; g != nil && *g != existing.Value.Generation {
		return Result{}, existing.Value, nil, &records.ChangedError{Cluster: string(key)}
	}
	var is *records.Cluster
	if ok {
		is = &existing.Value
	}
	if request.Allow != nil {
		if err := request.Allow(is); err != nil {
			return Result{}, records.Cluster{}, nil, fmt.Errorf("apply cluster %s: %w", key, err)
		}
	}
	if !ok {
		return a.create(key, doc, request, find)
	}
	cluster := existing.Value
	result := resultOf(cluster, Unchanged)
	if !cluster.Deleting.IsZero() {
		return result, cluster, nil, &records.RemovingError{Cluster: string(key)}
	}
	next := withDocument(cluster, doc, request.Whole)
	if err := clusterspec.CheckChange(documentOf(cluster), documentOf(next), clusterspec.Live{Versions: Running(a.State, cluster), Started: cluster.Status.Initialized}); err != nil {
		return result, cluster, nil, err
	}
	if next.Generation == cluster.Generation && cluster.Status.Halted == cluster.Generation {
		next = changed(next) // applied again, a change whose roll-out was aborted is a change once more
	}
	if request.Owners != nil {
		next.Owners = request.Owners
	}
	next.Granted = granted(cluster, next, request.Who, find)
	same := next.Generation == cluster.Generation && bytes.Equal(next.Owners, cluster.Owners) && references.Same(cluster.Granted, next.Granted) &&
		maps.Equal(cluster.Labels, next.Labels) && maps.Equal(cluster.Annotations, next.Annotations)
	refused := cluster.MayChange()
	if same && (refused != nil || clusterspec.Same(cluster.Spec, next.Spec)) {
		return result, cluster, nil, nil
	}
	if refused != nil {
		return result, cluster, nil, fmt.Errorf("apply cluster %s: %w", key, refused)
	}
	existing.Value = next
	result.Action = Configured
	return result, next, []store.Op{a.State.Clusters.Updating(existing)}, nil
}

func resultOf(cluster records.Cluster, action Action) Result {
	return Result{ApplyResult: apitypes.ApplyResult{Namespace: cluster.Namespace, Name: cluster.Name, ID: cluster.ID, Action: action}}
}

// operate puts a change of a running cluster under an operation when machines restart for it. The writes are those of
// the change itself; a change that is queued is not written yet.
func (a *Applier) operate(ctx context.Context, result *Result, doc clusterspec.Document, after records.Cluster, preview apitypes.Preview, request Request, writes []store.Op) ([]store.Op, error) {
	key := records.NewClusterKey(after.Namespace, after.Name)
	before, _ := a.State.Clusters.Get(string(key))
	if !after.Status.Initialized || after.Spec.Docker() || before.Value.Generation == after.Generation || preview.Restarts == 0 {
		return writes, nil
	}
	kind, title := operations.KindChange, fmt.Sprintf("change cluster %s, which restarts %d of its machines", after.Name, preview.Restarts)
	p := params{Document: &doc, Whole: request.Whole, Granted: after.Granted}
	if from, to := a.upgradedFrom(before.Value), after.Spec.KubernetesVersion; from != to {
		kind, title = operations.KindUpgrade, fmt.Sprintf("upgrade cluster %s from %s to %s", after.Name, from, to)
		if !request.NoSnapshot && after.Annotations[clusterspec.NoSnapshot] != "true" {
			p.Guard = &steps.Guard{Spec: before.Value.Spec}
			p.Guard.Spec.KubernetesVersion = from
		}
	}
	o, recorded, err := a.begin(ctx, key, kind, title, request, after.Generation, p)
	if err != nil {
		return nil, fmt.Errorf("apply cluster %s: %w", key, err)
	}
	result.Operation = o.ID
	if o.State == operations.Queued {
		result.Action = Queued
		return append(recorded, a.admission(before)), nil
	}
	return append(writes, recorded...), nil
}

// upgradedFrom is the version from which a cluster would be upgraded: the one that it is to have, or the one that runs
// where its roll-out was stopped before it began.
func (a *Applier) upgradedFrom(cluster records.Cluster) string {
	wanted, all := cluster.Spec.KubernetesVersion, Running(a.State, cluster)
	if cluster.Status.Halted != cluster.Generation || len(all) == 0 || slices.ContainsFunc(all, func(v string) bool { return v != all[0] }) {
		return wanted
	}
	return all[0]
}

// Running are the Kubernetes versions that a cluster's API and nodes report, as far as they were seen.
func Running(s *state.State, cluster records.Cluster) []string {
	var all []string
	if cluster.Status.Version != "" {
		all = append(all, cluster.Status.Version)
	}
	for _, m := range s.MachinesByCluster.Find(records.NewClusterKey(cluster.Namespace, cluster.Name)) {
		if node := m.Value.Status.Node; node != nil && node.KubeletVersion != "" {
			all = append(all, node.KubeletVersion)
		}
	}
	return all
}

// create makes a cluster with all that belongs to it from the start.
func (a *Applier) create(key records.ClusterKey, doc clusterspec.Document, request Request, find references.Lookup) (Result, records.Cluster, []store.Op, error) {
	if err := mayEnter(a.State, request.Who, key.Namespace()); err != nil {
		return Result{}, records.Cluster{}, nil, fmt.Errorf("apply cluster %s: %w", key, err)
	}
	cluster, writes, err := a.new(key, doc, request.Who.UserID)
	if err != nil {
		return Result{}, cluster, nil, err
	}
	cluster.Owners = request.Owners
	cluster.Granted = granted(records.Cluster{}, cluster, request.Who, find)
	writes = append(writes, a.State.Clusters.Creating(string(key), cluster))
	return resultOf(cluster, Created), cluster, writes, nil
}

// new is a cluster that is about to be made, and the writes of what belongs to it from the start: its join tokens
// and its registration token, so that the first list already shows a usable cluster.
func (a *Applier) new(key records.ClusterKey, doc clusterspec.Document, creatorID string) (records.Cluster, []store.Op, error) {
	if other, ok := a.State.ClustersByName.First(doc.Metadata.Name); ok {
		return records.Cluster{}, nil, fmt.Errorf("apply cluster %s: a cluster of that name exists in namespace %s: %w", key, other.Value.Namespace, records.ErrNotUnique)
	}
	if fleet := records.FleetKey(doc.Metadata.Name); key.Fleet() {
		return records.Cluster{}, nil, &records.NamespaceError{Cluster: key}
	} else if _, taken := a.State.Fleets.Get(string(fleet)); taken {
		return records.Cluster{}, nil, fmt.Errorf("apply cluster %s: a fleet has that name, and a name is that of a cluster or of a fleet: %w", key, records.ErrNotUnique)
	}
	now := a.Now().UTC().Truncate(time.Second)
	cluster := records.Cluster{
		Object: records.Object{
			Namespace: doc.Metadata.Namespace, Name: doc.Metadata.Name, UID: randomid.UID(), Generation: 1, Created: now,
			Labels: doc.Metadata.Labels, Annotations: doc.Metadata.Annotations,
		},
		ID: a.newID(doc.Spec), CreatorID: creatorID, Spec: doc.Spec,
		Status: records.ClusterStatus{State: records.ClusterPending, Since: now},
	}
	cluster.Projects = records.NewClusterProjects(cluster.ID, now)
	token := records.RegistrationToken{
		ClusterID: cluster.ID, ClusterNamespace: cluster.Namespace, ClusterName: cluster.Name,
		Name: "default-token", Token: randomid.Secret(), Created: now,
	}
	writes := []store.Op{a.State.RegistrationTokens.Creating(token.Key(), token)}
	if !doc.Spec.Docker() && !doc.Spec.Imported() {
		writes = append(writes, a.State.ClusterSecrets.Creating(string(key), records.ClusterSecrets{ServerToken: randomid.Secret(), AgentToken: randomid.Secret()}))
	}
	return cluster, append(writes, a.owners(cluster)...), nil
}

// owners are the bindings by which the user who makes a cluster owns it.
func (a *Applier) owners(cluster records.Cluster) []store.Op {
	maker, ok := a.State.Users.Get(cluster.CreatorID)
	if !ok {
		return nil
	}
	var writes []store.Op
	for _, b := range roles.OfCreator(a.State.Roles(roles.RoleTemplate), cluster.ID, maker.Key, cluster.Created) {
		b.ID = cluster.ID + ":crtb-" + randomid.ID(5)
		writes = append(writes, a.State.Bindings.Creating(b.ID, b))
	}
	return writes
}

// newID is a management name that no cluster has. That of a cluster of Docker hosts, or of an imported one, is so
// short that the same one is drawn twice once in a while.
func (a *Applier) newID(spec clusterspec.Spec) string {
	if !spec.Docker() && !spec.Imported() {
		return "c-m-" + randomid.ID(8)
	}
	for {
		id := "c-" + randomid.ID(5)
		if _, taken := a.State.ClustersByID.First(id); !taken {
			return id
		}
	}
}

// merged is have with what an owner's document adds to it; it does not own what others set.
func merged(have, add map[string]string) map[string]string {
	if len(add) == 0 {
		return have
	}
	m := maps.Clone(have)
	if m == nil {
		m = map[string]string{}
	}
	maps.Copy(m, add)
	return m
}
