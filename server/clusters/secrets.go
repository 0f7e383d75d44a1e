// Secrets one by one, as surfaces show and change them that know no documents of clusters.

package clusters

import (
	"context"
	"fmt"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// StoredObject is a Secret or ConfigMap as it is stored.
type StoredObject = store.Document[objects.Object]

// Secret is one that a person may read.
func Secret(s *state.State, who auth.Identity, namespace, name string) (StoredObject, bool) {
	d, ok := s.Objects.Get(objects.KeyOf(objects.Secret, namespace, name))
	return d, ok && auth.May(who, auth.Get, auth.OfShared(d.Value))
}

// serviceAccountToken is the type of Secrets that clusters make for themselves.
const serviceAccountToken = "kubernetes.io/service-account-token"

// Keepable refuses what would be taken for what the server or a cluster makes: a *records.UnkeepableError.
func Keepable(o objects.Object) error {
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

// PutSecret stores a Secret that a person writes, by the rules of Prepare. Errors are a *store.ExistsError, *store.NotFoundError, *store.ConflictError,
// *records.DeniedError, *records.UnkeepableError, and those of quotas.
func PutSecret(ctx context.Context, s *state.State, who auth.Identity, o objects.Object, at SecretAt) (StoredObject, error) {
	if err := Keepable(o); err != nil {
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
