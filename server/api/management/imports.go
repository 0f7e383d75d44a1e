// Clusters that are made over /v3: those that exist already and are imported.

package management

import (
	"encoding/json"
	"net/http"

	"github.com/drover-project/drover/server/api/conditions"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
)

// importCluster makes a cluster that waits for its agent. Clusters of k3s and RKE2 that the server provisions are documents
// of provisioning.cattle.io.
func (a *API) importCluster(c *Request, in norman.Input) (route.Answer, error) {
	for _, other := range []string{"k3sConfig", "rke2Config"} {
		if in.Has(other) {
			return route.Answer{}, norman.Invalid(norman.InvalidOption, other,
				"%s asks for a cluster that the server provisions, which is not made here: apply its document (drover apply -f, or POST /v1/provisioning.cattle.io.clusters); a cluster that is imported comes without it", other)
		}
	}
	name, err := in.Required("name")
	if err != nil {
		return route.Answer{}, err
	}
	doc := clusterspec.Document{APIVersion: clusterspec.APIVersion, Kind: clusterspec.Kind, Metadata: clusterspec.Metadata{Name: name}}
	labels, err := newMapEdit(in, "labels", true)
	if err != nil {
		return route.Answer{}, err
	}
	annotations, err := newMapEdit(in, "annotations", true)
	if err != nil {
		return route.Answer{}, err
	}
	description, err := describe(in)
	if err != nil {
		return route.Answer{}, err
	}
	doc.Metadata.Labels, doc.Metadata.Annotations = labels.apply(nil), annotations.apply(nil)
	if description != "" {
		doc.Metadata.Annotations = mapEdit{given: true, set: map[string]string{conditions.DescriptionAnnotation: description}}.apply(doc.Metadata.Annotations)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return route.Answer{}, err
	}
	checked, err := clusterspec.ParseSpec(text, a.Clusters.Versions())
	if err != nil {
		return route.Answer{}, err
	}
	if _, taken := a.State.ClustersByName.First(name); taken {
		return route.Answer{}, clusters.ErrNotUnique
	}
	results, err := a.Clusters.Apply(c.Ctx(), []clusterspec.Document{checked}, clusters.Request{Who: c.Who, Allow: c.MayApply})
	if err != nil {
		return route.Answer{}, err
	}
	c.Concern(results[0].ID)
	return a.shown(c, http.StatusCreated, a.clusterObject(results[0].Cluster, 0, c.URLs), nil), nil
}
