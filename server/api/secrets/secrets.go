// Package secrets serves the Secrets that people keep at this server, for clusters to refer to and for helm's releases, on surfaces whose
// clients know no documents of clusters: as objects of Kubernetes at /api/v1, for kubectl and helm, as objects of /v1, for Terraform's
// rancher2_secret_v2, and as credentials of buckets over /v3, for its rancher2_cloud_credential.
//
// Who may read, change and remove one is decided by package references, as for drover's own API. Values are shown to those
// alone who may read the Secret. Plan Secrets are those of package planapi.
//
// Wire source: kubernetes/kubernetes staging/src/k8s.io/api/core/v1 (Secret); rancher/rancher pkg/client/generated/management/v3
// (CloudCredential) and pkg/api/norman/customization/cred.
package secrets

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/server/api/kube"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/state"
)

// maxBody is room for a Secret of the largest size in base64, in bytes.
const maxBody = 4 << 20

// API serves Secrets.
type API struct {
	State *state.State
	// Authenticate says who sends a request that plan Secrets are at, too.
	Authenticate func(*http.Request) (auth.Identity, error)
	// CatchUp waits until this server knows all that was changed through others; nil where there are none.
	CatchUp func(context.Context) error
}

// read reads a Secret from JSON, for a namespace and a name that the URL has; "" for none.
func read(text []byte, namespace, name string) (objects.Object, error) {
	doc, err := strictyaml.ReadOne(strictyaml.Source{Private: true, Limits: strictyaml.Limits{Bytes: 2 * maxBody}}, text)
	if err != nil {
		return objects.Object{}, norman.Invalid(norman.InvalidBodyContent, "", "the Secret cannot be read: %v", err)
	}
	namespace = cmp.Or(namespace, clusterspec.DefaultNamespace)
	o, bad := objects.Read(doc, namespace, clusterspec.FilledByServer)
	switch {
	case len(bad) > 0:
		return o, bad
	case o.Kind != objects.Secret:
		return o, norman.Invalid(norman.InvalidOption, "kind", "is %.80q where a Secret belongs", o.Kind)
	case o.Namespace != namespace && (name != "" || namespace != clusterspec.DefaultNamespace):
		return o, norman.Invalid(norman.InvalidOption, "metadata.namespace", "%.80q is not the namespace of the URL, %.80q", o.Namespace, namespace)
	case name != "" && o.Name != name:
		return o, norman.Invalid(norman.InvalidOption, "metadata.name", "%.80q is not the name of the URL, %.80q", o.Name, name)
	}
	return o, nil
}

// filled is the JSON of an object with what clients may leave out of a Secret, since the URL says it.
func filled(fields map[string]any, namespace, name string) ([]byte, error) {
	metadata, ok := fields["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		fields["metadata"] = metadata
	}
	for field, value := range map[string]string{"namespace": namespace, "name": name} {
		if given, _ := metadata[field].(string); given == "" && value != "" {
			metadata[field] = value
		}
	}
	for field, value := range map[string]string{"apiVersion": "v1", "kind": objects.Secret} {
		if fields[field] == nil || fields[field] == "" {
			fields[field] = value
		}
	}
	for _, field := range []string{"data", "stringData"} { // as clients write none
		if fields[field] == nil {
			delete(fields, field)
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("write the Secret as JSON: %w", err)
	}
	return text, nil
}

// body is the JSON object in the body of a request.
func body(c *route.Call) (map[string]any, error) {
	text, err := norman.ReadBody(c.W, c.R, maxBody)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if json.Unmarshal(text, &fields) != nil || fields == nil { // the error could repeat a value
		return nil, norman.Invalid(norman.InvalidBodyContent, "", "the body is not one JSON object")
	}
	return fields, nil
}

// version is the resourceVersion in an object; 0 is none.
func version(fields map[string]any) (int64, error) {
	metadata, _ := fields["metadata"].(map[string]any)
	text, _ := metadata["resourceVersion"].(string)
	if text == "" {
		return 0, nil
	}
	var n int64
	if err := json.Unmarshal([]byte(text), &n); err != nil || n <= 0 {
		return 0, norman.Invalid(norman.InvalidFormat, "metadata.resourceVersion", "%.40q is not a version of this server", text)
	}
	return n, nil
}

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
