// The type cluster: what a provisioning cluster looks like to clients of /v3.

package management

import (
	"context"
	"fmt"
	"maps"
	"net/http"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Clusters serves the type cluster.
type Clusters struct {
	State   *state.State
	Applier *clusters.Applier
	// Versions are those that documents may name.
	Versions func() *versions.Data
	// RKE begins operations on RKE1 clusters; nil refuses them.
	RKE interface {
		Ask(ctx context.Context, key records.ClusterKey, asked desired.Request, by string, turn admission.Turn) (operations.Operation, error)
	}
	Seen
}

// Seen is what is seen of clusters' own APIs.
type Seen struct {
	// API is what is seen of a cluster's own API; nil sees nothing.
	API       func(records.ClusterKey) observed.API
	Requested *PodRequests // sums of what pods ask for
}

func (s Seen) api(key records.ClusterKey) observed.API {
	if s.API == nil {
		return observed.API{}
	}
	return s.API(key)
}

func (a Clusters) kind() *Kind {
	text := norman.Field{Type: "string"}
	quantities := norman.Field{Type: "map[string]"}
	actions := rke1Actions()
	actions["generateKubeconfig"] = norman.Action{Output: "generateKubeconfigOutput"}
	return &Kind{
		Schema: norman.Schema{
			ID: "cluster", Plural: "clusters",
			Fields: norman.Fields(map[string]norman.Field{
				"name":        {Type: "dnsLabel", Create: true, Update: true, Required: true},
				"description": {Type: "string", Create: true, Update: true},
				"driver":      text, "provider": text, "apiEndpoint": text, "fleetWorkspaceName": text,
				"internal":  {Type: "boolean", Default: false},
				"nodeCount": {Type: "int"},
				"version":   {Type: "json"}, "info": {Type: "json"}, "conditions": {Type: "array[clusterCondition]"},
				"appliedSpec": {Type: "json", Nullable: true}, "failedSpec": {Type: "json", Nullable: true}, "certificatesExpiration": {Type: "json"},
				"localClusterAuthEndpoint": {Type: "json", Create: true}, "rancherKubernetesEngineConfig": {Type: "json", Create: true, Nullable: true}, "agentEnvVars": {Type: "array[envVar]", Create: true, Update: true},
				"capacity": quantities, "allocatable": quantities, "requested": quantities, "limits": quantities,
			}),
			ResourceActions: actions,
		},
		List: a.list,
		Get:  a.get,
	}
}

func (a Clusters) list(c *route.Call) []norman.Object {
	machines := a.State.MachineCounts()
	docs := a.State.Clusters.List()
	objects := make([]norman.Object, len(docs))
	for i, d := range docs {
		a.Requested.Look(c.Ctx(), records.ClusterKey(d.Key))
		objects[i] = a.object(d.Value, machines[d.Value.ID], c.URLs)
	}
	return objects
}

func (a Clusters) get(c *route.Call, id string) (norman.Object, bool) {
	d, ok := visibleCluster(a.State, c, id)
	if !ok {
		return norman.Object{}, false
	}
	a.Requested.Soon(c.Ctx(), records.ClusterKey(d.Key))
	return a.object(d.Value, a.State.MachineCount(id), c.URLs), true
}

// visibleCluster finds a cluster that the caller may see by its id.
func visibleCluster(s *state.State, c *route.Call, id string) (store.Document[records.Cluster], bool) {
	d, ok := s.ClustersByID.First(id)
	return d, ok && auth.May(c.Who, auth.Get, auth.OfCluster(id))
}

func (a Clusters) object(cl records.Cluster, machines int, u norman.URLs) norman.Object {
	driver, provider := k8sobjects.Driver(cl, machines)
	summary := k8sobjects.ClusterSummaryOfV3(cl)
	object := norman.Object{
		ID: cl.ID, Actions: k8sobjects.ActionsOf(cl),
		Links: map[string]string{
			"nodes":                     u.Base + "/v3/nodes?clusterId=" + cl.ID,
			"projects":                  u.Base + "/v3/projects?clusterId=" + cl.ID,
			"clusterRegistrationTokens": u.Base + "/v3/clusterregistrationtokens?clusterId=" + cl.ID,
			"schemas":                   u.Base + "/v3/cluster/" + cl.ID + "/schemas",
			"subscribe":                 u.Base + "/v3/cluster/" + cl.ID + "/subscribe",
		},
		Fields: map[string]any{
			"name": cl.Name, "description": cl.Annotations[k8sobjects.DescriptionAnnotation], "uuid": cl.UID,
			"created": cl.Created, "creatorId": norman.Reference(cl.CreatorID), "labels": norman.Map(cl.Labels), "annotations": norman.Map(cl.Annotations),
			"driver": driver, "provider": provider, "internal": false, "fleetWorkspaceName": cl.Namespace,
			"apiEndpoint": cl.Status.APIEndpoint, "nodeCount": machines, "conditions": k8sobjects.ConditionsOf(cl, machines),
			"capacity": map[string]string{}, "allocatable": map[string]string{}, "requested": a.Requested.Now(records.ClusterKey(cl.Key())).Cluster, "limits": map[string]string{},
			"info": map[string]any{
				"kubernetesVersion": desired.Version(cl.Spec), "nodeCount": machines,
			},
		},
	}
	summary.Into(object.Fields)
	object.Fields["capacity"], object.Fields["allocatable"] = sums(a.api(records.ClusterKey(cl.Key())))
	if !cl.Spec.Docker() { // which are clusters of the management API alone
		info, _ := object.Fields["info"].(map[string]any)
		info["provisioningClusterRef"] = map[string]string{
			"apiVersion": clusterspec.APIVersion, "kind": clusterspec.Kind, "namespace": cl.Namespace, "name": cl.Name, "uid": cl.UID,
		}
	}
	if cl.Status.Version != "" {
		object.Fields["version"] = map[string]string{"gitVersion": cl.Status.Version}
	}
	if cl.Spec.Docker() {
		object.Fields["rancherKubernetesEngineConfig"] = desired.Public(cl.Spec)
	}
	if e := cl.Spec.AuthEndpoint(); e.Enabled {
		object.Fields["localClusterAuthEndpoint"] = e
	} else if cl.Spec.LocalClusterAuthEndpoint != nil {
		object.Fields["localClusterAuthEndpoint"] = cl.Spec.LocalClusterAuthEndpoint
	}
	if len(cl.Spec.AgentEnvVars) > 0 {
		object.Fields["agentEnvVars"] = cl.Spec.AgentEnvVars
	}
	kept, _ := a.State.RKEStates.Get(cl.Key())
	rke1Fields(&object, cl, kept.Value, u)
	if !cl.Deleting.IsZero() {
		object.Fields["removed"] = cl.Deleting
	}
	return object
}

// Create is POST of the type: with {"name": "quarry", "rancherKubernetesEngineConfig": {…}} a cluster of RKE1, with
// the name alone one that exists already and is imported.
func (a Clusters) Create(c *Request, in norman.Input) (route.Answer, error) {
	if err := refuseNewCluster(in); err != nil {
		return route.Answer{}, err
	}
	if in.Has("rancherKubernetesEngineConfig") {
		return a.createRKE1(c, in)
	}
	return a.importCluster(c, in)
}

// createRKE1 makes a cluster of RKE1. It is the document that drover apply takes, so that the same is checked of it.
func (a Clusters) createRKE1(c *Request, in norman.Input) (route.Answer, error) {
	data, err := newClusterDocument(in)
	if err != nil {
		return route.Answer{}, err
	}
	docs, err := clusterspec.Parse(data, a.Versions())
	if err != nil {
		return route.Answer{}, norman.Invalid(norman.InvalidBodyContent, "rancherKubernetesEngineConfig", "%v", err)
	}
	results, err := a.Applier.Apply(c.Ctx(), docs, clusters.Request{Who: c.Who, Allow: func(existing *records.Cluster) error {
		if existing != nil {
			return fmt.Errorf("create cluster %s: %w", existing.Name, records.ErrNotUnique)
		}
		return c.MayApply(nil)
	}})
	if err != nil {
		return route.Answer{}, err
	}
	if len(results) != 1 {
		return route.Answer{}, norman.Errorf(http.StatusInternalServerError, norman.ServerError, "the cluster was not made")
	}
	d, ok := a.State.ClustersByID.First(results[0].ID)
	if !ok {
		return route.Answer{}, norman.Missing("cluster", results[0].ID)
	}
	return c.Shown(http.StatusCreated, a.object(d.Value, 0, c.URLs)), nil
}

// Update is PUT: name has to be there and cannot change, the description and the
// maps can. What hosts run is changed over /v1 or by applying a document.
func (a Clusters) Update(c *Request, in norman.Input) (route.Answer, error) {
	d, ok := visibleCluster(a.State, c.Call, c.id)
	if !ok {
		return route.Answer{}, norman.Missing("cluster", c.id)
	}
	name, err := in.Required("name")
	if err != nil {
		return route.Answer{}, err
	}
	if name != d.Value.Name {
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "name", "the name %q of a cluster cannot be changed (to %q)", d.Value.Name, name)
	}
	if err := a.changeSettings(c, in, d.Value); err != nil {
		return route.Answer{}, err
	}
	replace := c.Query().Get("_replace") == "true"
	labels, err := newMapEdit(in, "labels", replace)
	if err != nil {
		return route.Answer{}, err
	}
	annotations, err := newMapEdit(in, "annotations", replace)
	if err != nil {
		return route.Answer{}, err
	}
	description, err := describe(in)
	if err != nil {
		return route.Answer{}, err
	}
	d, err = a.State.Clusters.Modify(c.Ctx(), d.Key, func(cl records.Cluster) (records.Cluster, error) {
		cl.Labels, cl.Annotations = labels.apply(cl.Labels), annotations.apply(cl.Annotations)
		if in.Has("description") {
			cl.Annotations = mapEdit{given: true, set: map[string]string{k8sobjects.DescriptionAnnotation: description}}.apply(cl.Annotations)
		}
		return cl, nil
	})
	if err != nil {
		return route.Answer{}, err
	}
	object := a.object(d.Value, a.State.MachineCount(c.id), c.URLs)
	return c.Shown(http.StatusOK, object), nil
}

// Remove asks for the removal; 200 with the cluster while that is going on.
func (a Clusters) Remove(c *Request) (route.Answer, error) {
	d, ok := visibleCluster(a.State, c.Call, c.id)
	if !ok {
		return route.Answer{}, norman.Missing("cluster", c.id)
	}
	if err := a.Applier.Remove(c.Ctx(), records.ClusterKey(d.Key), c.Leave()); err != nil {
		return route.Answer{}, err
	}
	return c.AfterRemoval()
}

// mapEdit is a change of labels or annotations: given keys are set, those with null are
// removed, and all others go only when the map is replaced.
type mapEdit struct {
	given, replace bool
	set            map[string]string
	removed        []string
}

func newMapEdit(in norman.Input, name string, replace bool) (mapEdit, error) {
	set, removed, err := in.Map(name)
	if err != nil {
		return mapEdit{}, fmt.Errorf("read the Body: %w", err)
	}
	return mapEdit{given: in.Has(name), replace: replace, set: set, removed: removed}, nil
}

func (e mapEdit) apply(m map[string]string) map[string]string {
	if !e.given {
		return m
	}
	changed := map[string]string{}
	if !e.replace {
		maps.Copy(changed, m)
	}
	maps.Copy(changed, e.set)
	for _, k := range e.removed {
		delete(changed, k)
	}
	return changed
}
