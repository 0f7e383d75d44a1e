// Clusters over /v1: the document as its owner wrote it, with its state, and the twin
// by which the management API knows it.

package steve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/drover-project/drover/server/api/conditions"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/clusterspec/etcdspec"
	"github.com/drover-project/drover/server/daytwo"
	"github.com/drover-project/drover/server/planner/ops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/turns"
)

func (a *API) provisioningKind() *kind {
	return &kind{
		of:     auth.Cluster,
		schema: Schema{Group: "provisioning.cattle.io", Version: "v1", Kind: "Cluster", Resource: "clusters", Namespaced: true},
		list: func(*Request) []Object {
			machines := a.MachineCounts()
			objects := []Object{}
			for _, d := range a.State.Clusters.List() {
				if !d.Value.Spec.Docker() { // those are clusters of the management API alone
					objects = append(objects, provisioningObject(d, machines[d.Value.ID]))
				}
			}
			return objects
		},
		get: func(_ *Request, id string) (Object, bool) {
			d, ok := a.State.Clusters.Get(id)
			if !ok || d.Value.Spec.Docker() {
				return nil, false
			}
			return provisioningObject(d, a.MachineCount(d.Value.ID)), true
		},
	}
}

// metadata is that of a Kubernetes object, with the state that /v1 puts there.
func metadata(o records.Object, revision int64, s conditions.Summary) map[string]any {
	m := map[string]any{
		"name": o.Name, "uid": o.UID, "resourceVersion": strconv.FormatInt(revision, 10), "generation": max(1, o.Generation),
		"creationTimestamp": o.Created.UTC().Format(time.RFC3339), "labels": norman.Map(o.Labels), "annotations": norman.Map(o.Annotations),
		"state": map[string]any{
			"name": s.State, "error": s.Transitioning == "error", "transitioning": s.Transitioning == "yes", "message": s.Message,
		},
	}
	if o.Namespace != "" {
		m["namespace"] = o.Namespace
	}
	if !o.Deleting.IsZero() {
		m["deletionTimestamp"] = o.Deleting.UTC().Format(time.RFC3339)
	}
	return m
}

// generic is a value as its JSON: maps, lists and plain values.
func generic(value any) Object {
	data, err := json.Marshal(value)
	if err != nil {
		return Object{} // nothing here holds what JSON cannot
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var o Object
	if err := dec.Decode(&o); err != nil {
		return Object{}
	}
	return o
}

func provisioningObject(d store.Document[records.Cluster], machines int) Object {
	cl := d.Value
	shown := conditions.OfCluster(cl, machines)
	status := requested(cl)
	maps.Copy(status, map[string]any{
		"clusterName": cl.ID, "ready": cl.Status.Ready, "agentDeployed": cl.Status.Connected, "fleetWorkspaceName": cl.Namespace,
		"observedGeneration": cl.Status.ObservedGeneration,
	})
	created := conditions.Condition{Type: "Created", Status: "True", LastUpdateTime: cl.Created.UTC().Format(time.RFC3339)}
	status["conditions"] = append([]conditions.Condition{created}, shown...)
	return generic(map[string]any{
		"apiVersion": clusterspec.APIVersion, "kind": clusterspec.Kind,
		"metadata": metadata(cl.Object, d.Revision, conditions.Cluster(cl)),
		"spec":     cl.Spec,
		"status":   status,
	})
}

// requested is what became of what the document asked for once, in the words of Rancher's RKEControlPlane, which drover has none of: the
// value that was taken and its phase, and for certificates the generation once they are renewed.
//
// Source: rancher/rancher pkg/apis/rke.cattle.io/v1, RKEControlPlaneStatus.
func requested(cl records.Cluster) map[string]any {
	status := map[string]any{}
	for kind, field := range map[string]string{ops.KindSnapshot: "etcdSnapshotCreate", ops.KindRestore: "etcdSnapshotRestore", ops.KindKeys: "rotateEncryptionKeys"} {
		is, ok := cl.Requests[kind]
		if !ok {
			continue
		}
		status[field], status[field+"Phase"] = json.RawMessage(is.Value), is.Phase
		if kind == ops.KindKeys && is.Phase == daytwo.PhaseFinished {
			status[field+"Phase"] = "Done"
		}
		if is.Message != "" {
			status[field+"Message"] = is.Message
		}
	}
	if is, ok := cl.Requests[ops.KindCertificates]; ok {
		var value etcdspec.RotateCertificates
		switch err := json.Unmarshal([]byte(is.Value), &value); {
		case err != nil: // nobody wrote it
		case is.Phase == daytwo.PhaseFinished:
			status["certificateRotationGeneration"] = value.Generation
		case is.Message != "":
			status["certificateRotationMessage"] = is.Message
		}
	}
	return status
}

func (a *API) managementKind() *kind {
	return &kind{
		of:     auth.Cluster,
		schema: Schema{Group: "management.cattle.io", Version: "v3", Kind: "Cluster", Resource: "clusters"},
		list: func(c *Request) []Object {
			machines := a.MachineCounts()
			objects := []Object{}
			for _, d := range a.State.Clusters.List() {
				objects = append(objects, c.managementObject(d, machines[d.Value.ID]))
			}
			return objects
		},
		get: func(c *Request, id string) (Object, bool) {
			d, ok := a.ClusterByID(id)
			if !ok {
				return nil, false
			}
			return c.managementObject(d, a.MachineCount(id)), true
		},
	}
}

func (c *Request) managementObject(d store.Document[records.Cluster], machines int) Object {
	cl := d.Value
	driver, provider := conditions.Driver(cl, machines)
	about := cl.Object
	about.Namespace, about.Name = "", cl.ID
	o := generic(map[string]any{
		"apiVersion": "management.cattle.io/v3", "kind": "Cluster",
		"metadata": metadata(about, d.Revision, conditions.Cluster(cl)),
		"spec": map[string]any{
			"displayName": cl.Name, "description": cl.Annotations[conditions.DescriptionAnnotation], "fleetWorkspaceName": cl.Namespace, "internal": false,
		},
		"status": map[string]any{
			"driver": driver, "provider": provider, "nodeCount": machines, "apiEndpoint": cl.Status.APIEndpoint,
			"version": map[string]string{"gitVersion": cl.Status.Version}, "conditions": conditions.OfCluster(cl, machines),
		},
	})
	o["actions"] = map[string]string{}
	for _, action := range conditions.Actions(cl) {
		o["actions"] = map[string]string{action: c.kubeconfigURL(cl.ID)}
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
	filled, err := json.MarshalIndent(fields, "", " ")
	if err != nil {
		return clusterspec.Document{}, "", fmt.Errorf("read the Body: %w", err)
	}
	doc, err := clusterspec.ParseSpec(filled, a.Versions())
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
	results, err := a.ApplyDocuments(c.Ctx(), []clusterspec.Document{doc}, clusters.Request{By: c.Who.UserID, Turn: turns.Replace})
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
	return a.show(c, doc.Metadata.Namespace+"/"+doc.Metadata.Name, status, nil)
}

// current is the cluster of the URL; version is the resourceVersion that the client
// has, "" when it does not say.
func (a *API) current(c *Request, version string) (store.Document[records.Cluster], error) {
	d, ok := a.State.Clusters.Get(c.id)
	if !ok || d.Value.Spec.Docker() {
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
	kind, _, err := mime.ParseMediaType(c.R.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	var after []byte
	switch kind {
	case "application/json-patch+json":
		after, err = applyJSONPatch(before, data)
	case "application/merge-patch+json", "application/json", "":
		after, err = jsonpatch.MergePatch(before, data)
	default:
		return route.Answer{}, norman.Errorf(http.StatusUnsupportedMediaType, norman.InvalidType,
			"%.80q is none of application/merge-patch+json, application/json-patch+json", kind)
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

func applyJSONPatch(before, data []byte) ([]byte, error) {
	p, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, err
	}
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = clusterspec.MaxSize // copies of copies grow without end
	return p.ApplyWithOptions(before, options)
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
