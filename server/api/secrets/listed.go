package secrets

import (
	"time"

	"github.com/drover-project/drover/plans/objects"
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
	return persons.Kind{
		Definition: kinds.Secrets(), Collection: subscribe.Objects,
		List: func() (all []persons.Object) {
			for _, d := range a.State.Objects.ListIn(objects.Secret + "/") {
				all = append(all, show(d))
			}
			return all
		},
		Get: func(key string) (persons.Object, bool) {
			d, ok := a.State.Objects.Get(objects.Secret + "/" + key)
			return show(d), ok
		},
		Changed: func(c subscribe.Change) (string, *persons.Object, bool) {
			key, gone, is := changed(c)
			if gone == nil {
				return key, nil, is
			}
			last := show(*gone)
			return key, &last, true
		},
	}
}
