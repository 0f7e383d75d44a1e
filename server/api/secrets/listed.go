package secrets

import (
	"time"

	"github.com/drover-project/drover/server/api/kube"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
)

// Listed is what lists and watches of Kubernetes have.
func (a *API) Listed() kube.PersonKind {
	show := func(d clusters.StoredObject) kube.PersonObject {
		form := d.Value.Form(d.Revision)
		return kube.PersonObject{
			Key: d.Value.Namespace + "/" + d.Value.Name, May: auth.OfShared(d.Value), Revision: d.Revision, Content: form,
			Cells: []any{d.Value.Name, d.Value.Type, len(d.Value.Data), time.Time{}},
		}
	}
	s := shown[kube.PersonObject]{a.State, show}
	return kube.PersonKind{Definition: kube.SecretDefinition(), Collection: subscribe.Objects, List: s.list, Get: s.get, Changed: s.changed}
}
