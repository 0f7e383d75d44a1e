package secrets

import (
	"time"

	"github.com/drover-project/drover/server/api/kube/kinds"
	"github.com/drover-project/drover/server/api/kube/persons"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/references"
)

// Listed is what lists and watches of Kubernetes have.
func (a *API) Listed() persons.Kind {
	show := func(d references.Document) persons.Object {
		form := d.Value.Form(d.Revision)
		return persons.Object{
			Key: d.Value.Namespace + "/" + d.Value.Name, May: references.About(d.Value), Revision: d.Revision, Content: form,
			Cells: []any{d.Value.Name, d.Value.Type, len(d.Value.Data), time.Time{}},
		}
	}
	s := shown[persons.Object]{a.State, show}
	return persons.Kind{Definition: kinds.Secrets(), Collection: subscribe.Objects, List: s.list, Get: s.get, Changed: s.changed}
}
