// The type cluster: what a provisioning cluster looks like to clients of /v3.

package api

import (
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/versions"
)

// descriptionAnnotation is where the peers keep descriptions.
const descriptionAnnotation = "field.cattle.io/description"

func (a *API) clusterKind() *kind {
	text := norman.Field{Type: "string"}
	quantities := norman.Field{Type: "map[string]"}
	return &kind{
		schema: norman.Schema{
			ID: "cluster", Plural: "clusters",
			Fields: norman.Fields(map[string]norman.Field{
				"name":        {Type: "dnsLabel", Update: true, Required: true},
				"description": {Type: "string", Update: true},
				"driver":      text, "provider": text, "apiEndpoint": text, "fleetWorkspaceName": text,
				"internal":  {Type: "boolean", Default: false},
				"nodeCount": {Type: "int"},
				"version":   {Type: "json"}, "info": {Type: "json"}, "conditions": {Type: "array[clusterCondition]"},
				"localClusterAuthEndpoint": {Type: "json"}, "rancherKubernetesEngineConfig": {Type: "json", Nullable: true}, "agentEnvVars": {Type: "array[envVar]"},
				"capacity": quantities, "allocatable": quantities, "requested": quantities, "limits": quantities,
			}),
			ResourceActions: map[string]norman.Action{"generateKubeconfig": {Output: "generateKubeconfigOutput"}},
		},
		list: a.listClusters,
		get:  a.getCluster,
	}
}

func (a *API) listClusters(c *call) []norman.Object {
	if !c.who.Admin {
		return nil
	}
	machines := a.machineCounts()
	docs := a.State.Clusters.List()
	objects := make([]norman.Object, len(docs))
	for i, d := range docs {
		objects[i] = clusterObject(d.Value, machines[d.Value.ID], c.urls)
	}
	return objects
}

func (a *API) getCluster(c *call, id string) (norman.Object, bool) {
	d, ok := a.visibleCluster(c, id)
	if !ok {
		return norman.Object{}, false
	}
	return clusterObject(d.Value, a.machineCounts()[id], c.urls), true
}

// visibleCluster finds a cluster by its id.
func (a *API) visibleCluster(c *call, id string) (store.Document[records.Cluster], bool) {
	if !c.who.Admin {
		return store.Document[records.Cluster]{}, false
	}
	return a.clusterByID(id)
}

func (a *API) clusterByID(id string) (store.Document[records.Cluster], bool) { return a.byID.get(id) }

// machineCounts is how many machines each cluster has, by cluster id.
func (a *API) machineCounts() map[string]int {
	counts := map[string]int{}
	for _, d := range a.State.Machines.List() {
		counts[d.Value.ClusterID]++
	}
	return counts
}

func clusterObject(cl records.Cluster, machines int, u norman.URLs) norman.Object {
	driver, provider := clusterDriver(cl, machines)
	state := clusterSummary(cl)
	object := norman.Object{
		ID: cl.ID, Actions: clusterActions(cl),
		Links: map[string]string{
			"nodes":                     u.Base + "/v3/nodes?clusterId=" + cl.ID,
			"projects":                  u.Base + "/v3/projects?clusterId=" + cl.ID,
			"clusterRegistrationTokens": u.Base + "/v3/clusterregistrationtokens?clusterId=" + cl.ID,
			"schemas":                   u.Base + "/v3/cluster/" + cl.ID + "/schemas",
			"subscribe":                 u.Base + "/v3/cluster/" + cl.ID + "/subscribe",
		},
		Fields: map[string]any{
			"name": cl.Name, "description": cl.Annotations[descriptionAnnotation], "uuid": cl.UID,
			"created": cl.Created, "creatorId": orNull(cl.CreatorID), "labels": orEmpty(cl.Labels), "annotations": orEmpty(cl.Annotations),
			"driver": driver, "provider": provider, "internal": false, "fleetWorkspaceName": cl.Namespace,
			"apiEndpoint": cl.Status.APIEndpoint, "nodeCount": machines, "conditions": clusterConditions(cl, machines),
			"capacity": map[string]string{}, "allocatable": map[string]string{}, "requested": map[string]string{}, "limits": map[string]string{},
			"info": map[string]any{
				"kubernetesVersion": cl.Spec.KubernetesVersion, "nodeCount": machines, "provisioningClusterRef": cl.Key(),
			},
		},
	}
	state.into(object.Fields)
	if cl.Status.Version != "" {
		object.Fields["version"] = map[string]string{"gitVersion": cl.Status.Version}
	}
	if cl.Spec.Docker() {
		object.Fields["rancherKubernetesEngineConfig"] = cl.Spec.RancherKubernetesEngineConfig
	}
	if cl.Spec.LocalClusterAuthEndpoint != nil {
		object.Fields["localClusterAuthEndpoint"] = cl.Spec.LocalClusterAuthEndpoint
	}
	if len(cl.Spec.AgentEnvVars) > 0 {
		object.Fields["agentEnvVars"] = cl.Spec.AgentEnvVars
	}
	if !cl.Deleting.IsZero() {
		object.Fields["removed"] = cl.Deleting
	}
	return object
}

// clusterDriver is "" until the first host has registered: the CLI gives out join
// commands for such clusters only. For Docker hosts it is known from the start.
func clusterDriver(cl records.Cluster, machines int) (driver, provider string) {
	switch {
	case cl.Spec.Docker():
		return "rancherKubernetesEngine", "rke"
	case machines == 0 || cl.Spec.KubernetesVersion == "":
		return "", ""
	}
	runtime := string(versions.RuntimeOf(cl.Spec.KubernetesVersion))
	return runtime, runtime
}

// clusterActions are what can be done: a cluster of Docker hosts has no Kubernetes to reach.
func clusterActions(cl records.Cluster) []string {
	if cl.Spec.Docker() {
		return nil
	}
	return []string{"generateKubeconfig"}
}

// updateCluster is PUT: name has to be there and cannot change, the description and the
// maps can. What hosts run is changed over /v1 or by applying a document.
func (a *API) updateCluster(c *call) (answer, error) {
	in, err := c.input(c.kind.schema)
	if err != nil {
		return answer{}, err
	}
	d, ok := a.visibleCluster(c, c.id)
	if !ok {
		return answer{}, norman.Missing("cluster", c.id)
	}
	name, err := in.Required("name")
	if err != nil {
		return answer{}, err
	}
	if name != d.Value.Name {
		return answer{}, norman.Invalid(norman.InvalidOption, "name", "the name %q of a cluster cannot be changed (to %q)", d.Value.Name, name)
	}
	replace := c.query().Get("_replace") == "true"
	labels, err := newMapEdit(in, "labels", replace)
	if err != nil {
		return answer{}, err
	}
	annotations, err := newMapEdit(in, "annotations", replace)
	if err != nil {
		return answer{}, err
	}
	description, err := in.String("description")
	if err != nil {
		return answer{}, err
	}
	d, err = a.State.Clusters.Modify(c.ctx(), d.Key, func(cl records.Cluster) (records.Cluster, error) {
		cl.Labels, cl.Annotations = labels.apply(cl.Labels), annotations.apply(cl.Annotations)
		if in.Has("description") {
			cl.Annotations = mapEdit{given: true, set: map[string]string{descriptionAnnotation: description}}.apply(cl.Annotations)
		}
		return cl, nil
	})
	if err != nil {
		return answer{}, err
	}
	object := clusterObject(d.Value, a.machineCounts()[c.id], c.urls)
	return answer{status: http.StatusOK, object: &object}, nil
}

// removeCluster asks for the removal; 200 with the cluster while that is going on.
func (a *API) removeCluster(c *call) (answer, error) {
	d, ok := a.visibleCluster(c, c.id)
	if !ok {
		return answer{}, norman.Missing("cluster", c.id)
	}
	if err := a.Clusters.Remove(c.ctx(), d.Key); err != nil {
		return answer{}, err
	}
	return a.afterRemoval(c)
}

// afterRemoval shows what is left of the resource, if anything is.
func (a *API) afterRemoval(c *call) (answer, error) {
	if object, ok := c.kind.get(c, c.id); ok {
		return answer{status: http.StatusOK, object: &object}, nil
	}
	return answer{status: http.StatusNoContent}, nil
}

// summary is a state as the peers summarise conditions.
type summary struct {
	state, transitioning, message string
}

func (s summary) into(fields map[string]any) {
	fields["state"], fields["transitioning"], fields["transitioningMessage"] = s.state, s.transitioning, s.message
}

func clusterSummary(cl records.Cluster) summary {
	s := summary{state: cl.Status.State, transitioning: "yes", message: cl.Status.Message}
	if s.state == "" {
		s.state = "pending"
	}
	if !cl.Deleting.IsZero() {
		s.state = "removing"
	}
	switch {
	case cl.Status.Failed:
		s.transitioning = "error"
	case s.state == "active":
		s.transitioning = "no"
		if !cl.Spec.Docker() { // whose message tells how many hosts are there
			s.message = ""
		}
	case s.message == "" && s.state == "removing":
		s.message = "waiting for the cluster's machines to be removed"
	}
	return s
}

// condition is one condition of an object, as the peers write them.
type condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	LastUpdateTime     string `json:"lastUpdateTime,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
}

// clusterConditions are made from the status, in the order clients know them.
func clusterConditions(cl records.Cluster, machines int) []condition {
	st := cl.Status
	pick := func(done bool) string {
		switch {
		case done:
			return "True"
		case st.Failed:
			return "False"
		}
		return "Unknown"
	}
	boolean := func(b bool) string {
		if b {
			return "True"
		}
		return "False"
	}
	updated := st.ObservedGeneration >= cl.Generation && st.Initialized && (st.State == "active" || st.State == "unavailable")
	waiting := st.Message
	ready := condition{Type: "Ready", Status: boolean(st.Ready)}
	if !st.Ready {
		ready.Message = waiting
		if st.Initialized && !st.Connected {
			ready.Reason = "Disconnected"
		}
	}
	pending := condition{Type: "Pending", Status: "True"}
	if machines == 0 && !st.Initialized {
		pending.Status, pending.Message = "Unknown", "waiting for the first host to join"
	}
	list := []condition{
		pending,
		{Type: "Provisioned", Status: pick(st.Initialized), Message: unless(st.Initialized, waiting)},
		{Type: "Waiting", Status: pick(st.Initialized), Message: unless(st.Initialized, waiting)},
		{Type: "DefaultProjectCreated", Status: "True"},
		{Type: "SystemProjectCreated", Status: "True"},
		{Type: "Connected", Status: boolean(st.Connected)},
		ready,
		{Type: "Updated", Status: pick(updated), Message: unless(updated, waiting)},
	}
	at := st.Since
	if at.IsZero() {
		at = cl.Created
	}
	for i := range list {
		list[i].LastUpdateTime = at.UTC().Format(time.RFC3339)
	}
	return list
}

func unless(done bool, message string) string {
	if done {
		return ""
	}
	return message
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
		return mapEdit{}, fmt.Errorf("read the body: %w", err)
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

// orNull shows an empty reference as null.
func orNull(id string) any {
	if id == "" {
		return nil
	}
	return id
}

// orEmpty shows an absent map as an empty one.
func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
