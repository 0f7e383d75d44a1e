// Clusters and machines over /v1: the objects of package forms with a state, and what changes them.

package steve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/patch"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

func (a *API) provisioningKind() *kind {
	return &kind{
		of:      auth.ProvisionedCluster,
		cluster: func(o Object) string { return o.text("status.clusterName") },
		schema:  Schema{Group: "provisioning.cattle.io", Version: "v1", Kind: "Cluster", Resource: "clusters", Namespaced: true},
		list: func(c *Request) []Object {
			machines := a.State.MachineCounts()
			objects := []Object{}
			for _, d := range a.State.Clusters.List() {
				if k8sobjects.IsProvisioned(d.Value) && auth.May(c.Who, auth.ListAll, auth.In(d.Value.ID, auth.ProvisionedCluster)) {
					objects = append(objects, provisioningObject(d, machines[d.Value.ID]))
				}
			}
			return objects
		},
		get: func(c *Request, id string) (Object, bool) {
			d, ok := a.State.Clusters.Get(id)
			if !ok || !k8sobjects.IsProvisioned(d.Value) || !auth.May(c.Who, auth.Get, auth.In(d.Value.ID, auth.ProvisionedCluster)) {
				return nil, false
			}
			return provisioningObject(d, a.State.MachineCount(d.Value.ID)), true
		},
	}
}

func (a *API) machineKind() *kind {
	return &kind{
		of: auth.ClusterMachine,
		cluster: func(o Object) string {
			d, _ := a.State.Clusters.Get(o.text("metadata.namespace") + "/" + o.text("spec.clusterName"))
			return d.Value.ID
		},
		schema: Schema{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine", Resource: "machines", Namespaced: true},
		list: func(c *Request) []Object {
			objects := []Object{}
			for _, d := range a.State.Machines.List() {
				if k8sobjects.IsMachine(d.Value) && auth.May(c.Who, auth.ListAll, auth.In(d.Value.ClusterID, auth.ClusterMachine)) {
					objects = append(objects, machineObject(d))
				}
			}
			return objects
		},
		get: func(c *Request, id string) (Object, bool) {
			d, ok := a.State.Machines.Get(id)
			if !ok || !k8sobjects.IsMachine(d.Value) || !auth.May(c.Who, auth.Get, auth.In(d.Value.ClusterID, auth.ClusterMachine)) {
				return nil, false
			}
			return machineObject(d), true
		},
	}
}

func (a *API) managementKind() *kind {
	return &kind{
		of:      auth.Cluster,
		cluster: func(o Object) string { return o.text("metadata.name") },
		schema:  Schema{Group: "management.cattle.io", Version: "v3", Kind: "Cluster", Resource: "clusters"},
		list: func(c *Request) []Object {
			machines := a.State.MachineCounts()
			objects := []Object{}
			for _, d := range a.State.Clusters.List() {
				if auth.May(c.Who, auth.ListAll, auth.OfCluster(d.Value.ID)) {
					objects = append(objects, c.managementObject(d, machines[d.Value.ID]))
				}
			}
			return objects
		},
		get: func(c *Request, id string) (Object, bool) {
			d, ok := a.State.ClustersByID.First(id)
			if !ok || !auth.May(c.Who, auth.Get, auth.OfCluster(id)) {
				return nil, false
			}
			return c.managementObject(d, a.State.MachineCount(id)), true
		},
	}
}

// withState adds the state that /v1 shows beside the Kubernetes fields.
func withState(o map[string]any, s k8sobjects.Summary) Object {
	if m, ok := o["metadata"].(map[string]any); ok {
		m["state"] = map[string]any{
			"name": s.State, "error": s.Transitioning == "error", "transitioning": s.Transitioning == "yes", "message": s.Message,
		}
	}
	return o
}

func provisioningObject(d store.Document[records.Cluster], machines int) Object {
	return withState(k8sobjects.Cluster(d, machines), k8sobjects.ClusterSummary(d.Value))
}

func machineObject(d store.Document[records.Machine]) Object {
	return withState(k8sobjects.Machine(d), k8sobjects.MachineSummary(d.Value))
}

func (c *Request) managementObject(d store.Document[records.Cluster], machines int) Object {
	o := withState(k8sobjects.ManagementCluster(d, machines), k8sobjects.ClusterSummary(d.Value))
	o["actions"] = map[string]string{}
	for _, action := range k8sobjects.ActionsOf(d.Value) {
		o["actions"] = map[string]string{action: c.kubeconfigURL(d.Value.ID)}
	}
	return o
}

func (c *Request) kubeconfigURL(id string) string {
	return c.URLs.Base + "/v3/clusters/" + id + "?action=generateKubeconfig"
}

// Kubeconfig sends the client to the action of /v3. The status keeps the method: a
// 302 would make most clients GET.
func (a *API) Kubeconfig(c *Request) (route.Answer, error) {
	c.W.Header().Set("Location", c.kubeconfigURL(c.id))
	return route.Answer{Status: http.StatusTemporaryRedirect}, nil
}

func (c *Request) body() ([]byte, error) { return norman.ReadBody(c.W, c.R, c.Limit) }

// sent is what clients may leave out of an object, since the URL says it.
type sent struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name            string `json:"name"`
		Namespace       string `json:"namespace"`
		GenerateName    string `json:"generateName"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

// document reads an object from a body; namespace and name are those of the URL, or "".
func (a *API) document(c *Request, data []byte, namespace, name string) (clusterspec.Document, string, error) {
	var fields map[string]any
	var head sent
	if strings.Contains(c.R.Header.Get("Content-Type"), "yaml") {
		doc, err := clusterspec.ParseSpec(data, a.Versions())
		return doc, "", err
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		return clusterspec.Document{}, "", norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "the body is not one JSON object: %v", err)
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return clusterspec.Document{}, "", norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "the body is not a Kubernetes object: %v", err)
	}
	if head.Metadata.GenerateName != "" {
		return clusterspec.Document{}, "", norman.Invalid(norman.InvalidOption, "metadata.generateName", "a cluster needs a metadata.name; names are not generated")
	}
	meta, _ := fields["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		fields["metadata"] = meta
	}
	for _, f := range []struct{ field, given, wanted string }{
		{"name", head.Metadata.Name, name}, {"namespace", head.Metadata.Namespace, namespace},
	} {
		if f.wanted == "" {
			continue
		}
		if f.given != "" && f.given != f.wanted {
			return clusterspec.Document{}, "", norman.Invalid(norman.InvalidOption, "metadata."+f.field, "%.80q is not the %s of the URL, %q", f.given, f.field, f.wanted)
		}
		meta[f.field] = f.wanted
	}
	if head.APIVersion == "" {
		fields["apiVersion"] = clusterspec.APIVersion
	}
	if head.Kind == "" {
		fields["kind"] = clusterspec.Kind
	}
	filled, err := json.Marshal(fields)
	if err != nil {
		return clusterspec.Document{}, "", fmt.Errorf("read the Body: %w", err)
	}
	doc, err := clusterspec.ParseSpec(filled, a.Versions())
	if bad, ok := errors.AsType[strictyaml.Errors](err); ok {
		for i := range bad {
			bad[i].Line = 0 // which would count those of the text that was made here
		}
	}
	return doc, head.Metadata.ResourceVersion, err
}

func (a *API) CreateCluster(c *Request) (route.Answer, error) {
	data, err := c.body()
	if err != nil {
		return route.Answer{}, err
	}
	doc, _, err := a.document(c, data, c.namespace, "")
	if err != nil {
		return route.Answer{}, err
	}
	key := doc.Metadata.Namespace + "/" + doc.Metadata.Name
	if _, exists := a.State.Clusters.Get(key); exists {
		return route.Answer{}, norman.Errorf(http.StatusConflict, norman.AlreadyExists, "there is a cluster %s already", key)
	}
	return a.apply(c, doc, http.StatusCreated)
}

func (a *API) apply(c *Request, doc clusterspec.Document, status int) (route.Answer, error) {
	if doc.APIVersion != clusterspec.APIVersion {
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "apiVersion", "is %s, but this is the place of %s; POST the document to /v1-drover/apply", doc.APIVersion, clusterspec.APIVersion)
	}
	results, err := a.Clusters.Apply(c.Ctx(), []clusterspec.Document{doc}, clusters.Request{Who: c.Who, Turn: admission.Replace, Allow: c.mayApply})
	if err != nil {
		return route.Answer{}, err
	}
	for _, r := range results {
		for _, warning := range r.Warnings { // in Kubernetes' form, which kubectl and dashboards show
			c.W.Header().Add("Warning", "299 - "+strconv.QuoteToASCII(warning))
		}
	}
	if len(results) == 1 && results[0].Action == clusters.Unchanged {
		c.W.Header().Set("X-Drover-Result", string(clusters.Unchanged))
	}
	key := doc.Metadata.Namespace + "/" + doc.Metadata.Name
	d, ok := a.State.Clusters.Get(key)
	if !ok {
		return route.Answer{}, norman.Missing(c.kind.schema.ID(), key)
	}
	_ = route.Again(c.Call) // the maker may do more with it than when they asked
	return route.Answer{Status: status, Body: c.present(c.kind, provisioningObject(d, a.State.MachineCount(d.Value.ID)))}, nil
}

// mayApply asks about the form of a cluster that /v1 has.
func (c *Request) mayApply(existing *records.Cluster) error {
	if existing == nil && auth.May(c.Who, auth.Create, auth.Object{Kind: auth.ProvisionedCluster}) ||
		existing != nil && auth.May(c.Who, auth.Update, auth.In(existing.ID, auth.ProvisionedCluster)) {
		return nil
	}
	return c.MayApply(existing)
}

// current is the cluster of the URL; version is the resourceVersion that the client
// has, "" when it does not say.
func (a *API) current(c *Request, version string) (store.Document[records.Cluster], error) {
	d, ok := a.State.Clusters.Get(c.id)
	if !ok || !k8sobjects.IsProvisioned(d.Value) {
		return d, norman.Missing(c.kind.schema.ID(), c.id)
	}
	if now := strconv.FormatInt(d.Revision, 10); version != "" && version != now {
		return d, norman.Errorf(http.StatusConflict, norman.Conflict,
			"cluster %s was changed since it was read (resourceVersion %.20s, now %s): read it again", c.id, version, now)
	}
	return d, nil
}

func (a *API) UpdateCluster(c *Request) (route.Answer, error) {
	data, err := c.body()
	if err != nil {
		return route.Answer{}, err
	}
	namespace, name, _ := strings.Cut(c.id, "/")
	doc, version, err := a.document(c, data, namespace, name)
	if err != nil {
		return route.Answer{}, err
	}
	if version == "" {
		return route.Answer{}, norman.Invalid(norman.MissingRequired, "metadata.resourceVersion", "an update says which version of the object it changes")
	}
	if _, err := a.current(c, version); err != nil {
		return route.Answer{}, err
	}
	return a.apply(c, doc, http.StatusOK)
}

// PatchCluster takes a merge patch or a JSON patch, by content type.
func (a *API) PatchCluster(c *Request) (route.Answer, error) {
	data, err := c.body()
	if err != nil {
		return route.Answer{}, err
	}
	d, err := a.current(c, "")
	if err != nil {
		return route.Answer{}, err
	}
	before, err := json.Marshal(provisioningObject(d, 0))
	if err != nil {
		return route.Answer{}, fmt.Errorf("patch cluster %s: %w", c.id, err)
	}
	kind := patch.Type(c.R.Header.Get("Content-Type"))
	if kind == "application/json" || kind == "" {
		kind = patch.Merge
	}
	var after []byte
	apply, err := patch.Read(kind, data, clusterspec.MaxSize)
	if errors.Is(err, patch.ErrType) {
		return route.Answer{}, norman.Errorf(http.StatusUnsupportedMediaType, norman.InvalidType, "%.80q is none of %s, %s", kind, patch.Merge, patch.JSON)
	}
	if err == nil {
		after, err = apply(before)
	}
	if err != nil {
		return route.Answer{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "the patch does not fit cluster %s: %v", c.id, err)
	}
	namespace, name, _ := strings.Cut(c.id, "/")
	c.R.Header.Set("Content-Type", "application/json") // of what the patch made
	doc, version, err := a.document(c, after, namespace, name)
	if err != nil {
		return route.Answer{}, err
	}
	if _, err := a.current(c, version); err != nil {
		return route.Answer{}, err
	}
	return a.apply(c, doc, http.StatusOK)
}

func (a *API) RemoveCluster(c *Request) (route.Answer, error) {
	if _, err := a.current(c, ""); err != nil {
		return route.Answer{}, err
	}
	if err := a.Clusters.Remove(c.Ctx(), records.ClusterKey(c.id), c.Leave()); err != nil {
		return route.Answer{}, err
	}
	return a.show(c, c.id, http.StatusOK, nil)
}
