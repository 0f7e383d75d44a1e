// Secrets and ConfigMaps that people write, one by one or in documents beside clusters, and in which namespaces.

package clusters

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/references"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// mayEnter refuses a namespace in which a person may make nothing: a *records.DeniedError. The common one and that of credentials are open to all. Others are for
// administrators, for people who may change all objects, and for those who have something there: a cluster that they own, or an object that they made.
func mayEnter(s *state.State, who auth.Identity, namespace string) error {
	if namespace == clusterspec.DefaultNamespace || namespace == objects.CredentialsNamespace || auth.May(who, auth.Update, auth.Object{Kind: auth.SharedObject}) {
		return nil
	}
	for _, d := range s.Clusters.List() {
		if d.Value.Namespace == namespace && auth.May(who, auth.Own, auth.OfCluster(d.Value.ID)) {
			return nil
		}
	}
	for _, kind := range []string{objects.Secret, objects.ConfigMap} {
		for _, d := range s.Objects.ListIn(objects.KeyOf(kind, namespace, "")) {
			if d.Value.CreatorID != "" && d.Value.CreatorID == who.UserID {
				return nil
			}
		}
	}
	return &records.DeniedError{Reason: fmt.Sprintf("namespace %s is not given to you: use %s, or have an administrator make a cluster there that you own", namespace, clusterspec.DefaultNamespace)}
}

// writing is an object as it is stored when a person writes it.
type writing struct {
	store.Document[objects.Object]
	// Changed is false when it is stored so already.
	Changed bool
}

// prepareAll is what becomes of objects that a person writes, and the objects alone. Of names of clusters in their annotations those count
// that clusters have now, or had when the name was written. The error is a *records.DeniedError.
func prepareAll(s *state.State, who auth.Identity, given []objects.Object) (all []writing, stored []objects.Object, err error) {
	for _, o := range given {
		w, err := prepare(s, who, o)
		if err != nil {
			return nil, nil, fmt.Errorf("apply: %w", err)
		}
		all, stored = append(all, w), append(stored, w.Value)
	}
	return all, stored, nil
}

func prepare(s *state.State, who auth.Identity, o objects.Object) (writing, error) {
	d, exists := s.Objects.Get(o.Key())
	switch {
	case exists && !auth.May(who, auth.Update, auth.OfShared(d.Value)):
		return writing{}, &records.DeniedError{Reason: fmt.Sprintf("%s is not yours to change: choose another name", objects.Named(o.Key()))}
	case exists:
		o.UID, o.CreatorID = d.Value.UID, d.Value.CreatorID
	case !auth.May(who, auth.Create, auth.Object{Kind: auth.SharedObject}):
		return writing{}, &records.DeniedError{Reason: fmt.Sprintf("user %s may not create or change Secrets and ConfigMaps", who.Username)}
	default:
		if err := mayEnter(s, who, o.Namespace); err != nil {
			return writing{}, err
		}
		d.Key, o.UID, o.CreatorID = o.Key(), randomid.UID(), who.UserID
	}
	o.Clusters = bound(s, who, d.Value.Clusters, o)
	if exists && objects.Equal(d.Value, o) {
		return writing{Document: d}, nil
	}
	d.Value = o
	return writing{Document: d, Changed: true}, nil
}

// Write is the write of an object that changed. Names in its annotations that no cluster had stand for clusters that are made with it, by
// their names.
func (w writing) Write(s *state.State, made map[string]string) store.Op {
	for name, id := range made {
		if is, named := w.Value.Clusters[name]; named && is == "" {
			w.Value.Clusters[name] = id
		}
	}
	if w.Revision == 0 {
		return s.Objects.Creating(w.Key, w.Value)
	}
	return s.Objects.Updating(w.Document)
}

// bound are the IDs of the clusters that the annotations of an object name, by the name there. A name is that of a cluster which the
// person sees, and keeps the ID that it had when it was written, so that a later cluster of the name is not meant.
func bound(s *state.State, who auth.Identity, before map[string]string, o objects.Object) map[string]string {
	var all map[string]string
	for _, name := range o.AllowedNames() {
		id, known := before[name]
		if !known {
			if d, ok := s.ClustersByID.First(name); ok {
				id = d.Value.ID
			} else if d, ok := s.ClustersByName.First(name); ok && auth.May(who, auth.Get, auth.OfCluster(d.Value.ID)) {
				id = d.Value.ID
			}
		}
		if all == nil {
			all = map[string]string{}
		}
		all[name] = id
	}
	return all
}

// Unbound is a sentence about the names in an object's annotations that count for no cluster; empty for none.
func Unbound(o objects.Object) string {
	var names []string
	for name, id := range o.Clusters {
		if id == "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("its annotation names %s, and no cluster that you see had that name when it was written: it counts for none; write the ID of the cluster", strings.Join(names, ", "))
}

// RemoveObject removes a Secret or ConfigMap by its key. An object that a cluster uses stays: *records.InUseError. References of others hold no removal up, and neither does a
// cluster that is being removed, which gets no more of it: helm and kubectl remove both without waiting for the cluster's end.
func RemoveObject(ctx context.Context, s *state.State, key string) error {
	d, ok := s.Objects.Get(key)
	if !ok {
		return &store.NotFoundError{Collection: "objects", Key: key}
	}
	var users []string
	for _, one := range s.Clusters.List() {
		if one.Value.Deleting.IsZero() && references.Usable(one.Value, d.Value) && slices.Contains(one.Value.Spec.Objects(one.Value.Namespace), key) {
			users = append(users, string(records.ClusterKey(one.Key)))
		}
	}
	if len(users) > 0 {
		slices.Sort(users)
		return &records.InUseError{Object: key, Clusters: users}
	}
	if err := s.Objects.Delete(ctx, key, d.Revision); err != nil {
		return fmt.Errorf("remove %s: %w", key, err)
	}
	return nil
}

// StoredObject is a Secret or ConfigMap as it is stored.
type StoredObject = store.Document[objects.Object]

// Secret is one that a person may read.
func Secret(s *state.State, who auth.Identity, namespace, name string) (StoredObject, bool) {
	d, ok := s.Objects.Get(objects.KeyOf(objects.Secret, namespace, name))
	return d, ok && auth.May(who, auth.Get, auth.OfShared(d.Value))
}

// serviceAccountToken is the type of Secrets that clusters make for themselves.
const serviceAccountToken = "kubernetes.io/service-account-token"

// keepable refuses what would be taken for what the server or a cluster makes: a *records.UnkeepableError.
func keepable(o objects.Object) error {
	switch {
	case records.IsPlanSecret(o.Name):
		return &records.UnkeepableError{Field: "metadata.name", Reason: "a name with this end is that of a machine's plan: choose another"}
	case o.Type == plans.SecretType:
		return &records.UnkeepableError{Field: "type", Reason: "plans are made by the server, and live and end with their machines"}
	case o.Type == serviceAccountToken:
		return &records.UnkeepableError{Field: "type", Reason: "clusters make tokens of service accounts themselves, and this server has no service accounts"}
	}
	return nil
}

// SecretAt says which state of a Secret a write is for.
type SecretAt struct {
	// New is set for a Secret that must not exist yet, else it has to exist.
	New bool
	// Revision is that of the Secret that is replaced; 0 is any.
	Revision int64
	// DryRun stores nothing.
	DryRun bool
}

// PutSecret stores a Secret that a person writes, by the rules of prepare. Errors are a *store.ExistsError, *store.NotFoundError, *store.ConflictError,
// *records.DeniedError, *records.UnkeepableError, and those of quotas.
func PutSecret(ctx context.Context, s *state.State, who auth.Identity, o objects.Object, at SecretAt) (StoredObject, error) {
	if err := keepable(o); err != nil {
		return StoredObject{}, err
	}
	w, err := prepare(s, who, o)
	if err != nil {
		return StoredObject{}, fmt.Errorf("write %s: %w", objects.Named(o.Key()), err)
	}
	switch {
	case at.New && w.Revision != 0:
		return StoredObject{}, &store.ExistsError{Collection: "secrets", Key: o.Namespace + "/" + o.Name}
	case !at.New && w.Revision == 0:
		return StoredObject{}, &store.NotFoundError{Collection: "secrets", Key: o.Namespace + "/" + o.Name}
	case at.Revision != 0 && at.Revision != w.Revision:
		return StoredObject{}, &store.ConflictError{Collection: "secrets", Key: o.Namespace + "/" + o.Name, Wanted: at.Revision, Current: w.Revision}
	case !w.Changed || at.DryRun:
		return w.Document, nil
	}
	if _, err := s.Store.Commit(ctx, w.Write(s, nil)); err != nil {
		return StoredObject{}, fmt.Errorf("write %s: %w", objects.Named(o.Key()), err)
	}
	d, ok := s.Objects.Get(o.Key())
	if !ok { // removed by another in the same moment
		return StoredObject{}, &store.NotFoundError{Collection: "secrets", Key: o.Namespace + "/" + o.Name}
	}
	return d, nil
}

// granted are the rights of a cluster whose document a user applies; see references.Grant.
func granted(before, after records.Cluster, who auth.Identity, find references.Lookup) map[string]records.Granted {
	return references.Grant(before, after, who.UserID, func(o objects.Object) bool { return auth.May(who, auth.Get, auth.OfShared(o)) }, find)
}

// write is what becomes of Secrets and ConfigMaps, and the writes, beside the results of clusters that are made with them.
func (a *Applier) write(all []writing, clusters []Result) (results []Result, ops []store.Op) {
	made := map[string]string{}
	for _, r := range clusters {
		if r.Action == Created {
			made[r.Name] = r.ID
		}
	}
	for _, w := range all {
		result := Result{ApplyResult: apitypes.ApplyResult{Kind: w.Value.Kind, Namespace: w.Value.Namespace, Name: w.Value.Name, Action: Unchanged}}
		if w.Changed {
			if result.Action = Created; w.Revision != 0 {
				result.Action = Configured
			}
			ops = append(ops, w.Write(a.State, made))
		}
		if text := Unbound(w.Value); text != "" {
			result.Warnings = []string{text}
		}
		results = append(results, result)
	}
	return results, ops
}
