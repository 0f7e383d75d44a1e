// Clusters that are made over /v3: those that exist already and are imported, and the fields by which they are changed.

package management

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// importCluster makes a cluster that waits for its agent. Clusters of k3s and RKE2 that the server provisions are documents
// of provisioning.cattle.io.
func (a Clusters) importCluster(c *Request, in norman.Input) (route.Answer, error) {
	text, err := newClusterDocument(in)
	if err != nil {
		return route.Answer{}, err
	}
	checked, err := clusterspec.ParseSpec(text, a.Applier.Versions())
	if err != nil {
		return route.Answer{}, plainError(err)
	}
	if _, taken := a.State.ClustersByName.First(checked.Metadata.Name); taken {
		return route.Answer{}, records.ErrNotUnique
	}
	results, err := a.Applier.Apply(c.Ctx(), []clusterspec.Document{checked}, clusters.Request{Who: c.Who, Allow: c.MayApply})
	if err != nil {
		return route.Answer{}, err
	}
	c.Concern(results[0].ID)
	return c.Shown(http.StatusCreated, a.object(results[0].Cluster, 0, c.URLs)), nil
}

// changeSettings does what a PUT asks for in the fields that belong to a cluster's document: the environment of the agent of an
// imported cluster changes; all else is refused where it differs from what is, since its place is the document. Clients send back
// what they read.
func (a Clusters) changeSettings(c *Request, in norman.Input, cl records.Cluster) error {
	if err := refuseNewCluster(in); err != nil {
		return err
	}
	given, err := newClusterSpec(in, newClusterSettings())
	if err != nil {
		return err
	}
	shown := a.object(cl, 0, c.URLs).Fields
	for _, field := range newClusterSettings() {
		is, err := plainJSON(shown[field])
		if err != nil {
			return err
		}
		ofDocument := slices.Contains([]string{"agentEnvVars", "localClusterAuthEndpoint", "rancherKubernetesEngineConfig"}, field) && !cl.Spec.Imported()
		emptied := field == "agentEnvVars" && in.Names(field) && !in.Asks(field) && !ofDocument
		switch {
		case reflect.DeepEqual(is, given[field]), !in.Asks(field) && !emptied:
			delete(given, field)
		case ofDocument:
			return norman.Invalid(norman.InvalidOption, field, "%s of cluster %s is part of its document: change it there, with drover apply or over /v1", field, cl.Name)
		case emptied:
			given[field] = []any{} // Terraform's provider sends null for none
		}
	}
	if len(given) == 0 {
		return nil
	}
	doc := clusterspec.Document{APIVersion: clusterspec.APIVersion, Kind: clusterspec.Kind, Metadata: clusterspec.Metadata{
		Name: cl.Name, Namespace: cl.Namespace, Labels: cl.Labels, Annotations: cl.Annotations,
	}}
	text, err := json.Marshal(map[string]any{"apiVersion": doc.APIVersion, "kind": doc.Kind, "metadata": doc.Metadata, "spec": given})
	if err != nil {
		return err
	}
	checked, err := clusterspec.ParseSpec(text, a.Applier.Versions())
	if err != nil {
		return plainError(err)
	}
	if !slices.Equal(checked.Spec.AgentEnvVars, cl.Spec.AgentEnvVars) && cl.Spec.Imported() {
		_, err = a.Applier.Apply(c.Ctx(), []clusterspec.Document{checked}, clusters.Request{Who: c.Who, Allow: c.MayApply})
	}
	return err
}

// plainJSON is a value as a client reads it.
func plainJSON(value any) (plain any, err error) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &plain)
	}
	return plain, err
}
