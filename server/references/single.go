// Secrets one by one, as surfaces show and change them that know no documents of clusters.

package references

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/listing"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Document is a Secret as it is stored.
type Document = store.Document[objects.Object]

// Secrets are those that a person may read, of one namespace or, with "", of all, that the selectors of a list choose. They are in the order
// of their keys.
func Secrets(s *state.State, who auth.Identity, namespace string, o listing.Options) []Document {
	key := objects.Secret + "/"
	if namespace != "" {
		key = objects.KeyOf(objects.Secret, namespace, "")
	}
	return slices.DeleteFunc(slices.Clone(s.Objects.ListIn(key)), func(d Document) bool {
		about := fields.Set{"metadata.name": d.Value.Name, "metadata.namespace": d.Value.Namespace, "type": d.Value.Type}
		return !Reads(who, d.Value) || o.Labels != nil && !o.Labels.Matches(labels.Set(d.Value.Labels)) || o.Fields != nil && !o.Fields.Matches(about)
	})
}

// Secret is one that a person may read.
func Secret(s *state.State, who auth.Identity, namespace, name string) (Document, bool) {
	d, ok := s.Objects.Get(objects.KeyOf(objects.Secret, namespace, name))
	return d, ok && Reads(who, d.Value)
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

// At says which state of a Secret a write is for.
type At struct {
	// New is set for a Secret that must not exist yet, else it has to exist.
	New bool
	// Revision is that of the Secret that is replaced; 0 is any.
	Revision int64
	// DryRun stores nothing.
	DryRun bool
}

// Put stores a Secret that a person writes, by the rules of Prepare. Errors are a *store.ExistsError, *store.NotFoundError, *store.ConflictError,
// *records.DeniedError, *records.UnkeepableError, and those of quotas.
func Put(ctx context.Context, s *state.State, who auth.Identity, o objects.Object, at At) (Document, error) {
	if err := Keepable(o); err != nil {
		return Document{}, err
	}
	w, err := prepare(s, who, o)
	if err != nil {
		return Document{}, fmt.Errorf("write %s: %w", Named(o.Key()), err)
	}
	switch {
	case at.New && w.Revision != 0:
		return Document{}, &store.ExistsError{Collection: "secrets", Key: o.Namespace + "/" + o.Name}
	case !at.New && w.Revision == 0:
		return Document{}, &store.NotFoundError{Collection: "secrets", Key: o.Namespace + "/" + o.Name}
	case at.Revision != 0 && at.Revision != w.Revision:
		return Document{}, &store.ConflictError{Collection: "secrets", Key: o.Namespace + "/" + o.Name, Wanted: at.Revision, Current: w.Revision}
	case !w.Changed || at.DryRun:
		return w.Document, nil
	}
	if _, err := s.Store.Commit(ctx, w.Write(s, nil)); err != nil {
		return Document{}, fmt.Errorf("write %s: %w", Named(o.Key()), err)
	}
	d, ok := s.Objects.Get(o.Key())
	if !ok { // removed by another in the same moment
		return Document{}, &store.NotFoundError{Collection: "secrets", Key: o.Namespace + "/" + o.Name}
	}
	return d, nil
}
