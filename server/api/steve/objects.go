// Objects of clusters: lists, single ones, and what changes them.

package steve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/downstream/kubeproxy"
	"github.com/drover-project/drover/tunnel/answers"
)

// path is that of the type in the cluster's API, or of one of its objects.
func (r *request) path(namespace, name string) string {
	at := "/api/" + r.schema.Version
	if r.schema.Group != "" {
		at = "/apis/" + r.schema.Group + "/" + r.schema.Version
	}
	if namespace != "" {
		at += "/namespaces/" + namespace
	}
	if at += "/" + r.schema.Resource; name != "" {
		at += "/" + name
	}
	return at
}

// decode reads JSON with numbers as they were written.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

func strange(err error) error {
	return norman.Errorf(http.StatusBadGateway, norman.ClusterUnavailable, "the cluster answers with what is no object: %v", err)
}

// page is one page of a list as a cluster sends it.
type page struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []map[string]any `json:"items"`
}

// list asks for all pages, and shows of them what the query selects.
func (r *request) list(ctx context.Context) (route.Answer, error) {
	size := bounds.Page
	if r.schema.Resource == "secrets" {
		size = bounds.Secrets
	}
	query := url.Values{"limit": {strconv.Itoa(size)}}
	if labels := r.Query().Get("labelSelector"); labels != "" {
		query.Set("labelSelector", labels)
	}
	ctx = answers.Together(ctx, "a whole list", bounds.Kept)
	var all []Object
	for revision := ""; ; {
		var p page
		err := r.ask(ctx, kubeproxy.Question{Method: http.MethodGet, Path: r.path(r.namespace, ""), Query: query}, func(text []byte) error {
			if err := decode(text, &p); err != nil {
				return strange(err)
			}
			for _, item := range p.Items {
				if item == nil {
					return strange(errors.New("null"))
				}
				all = append(all, r.shown(item))
			}
			return nil
		})
		switch {
		case err != nil:
			return route.Answer{}, err
		case p.Metadata.Continue != "" && p.Metadata.Continue == query.Get("continue"):
			return route.Answer{}, strange(fmt.Errorf("the page after %.40q is itself", p.Metadata.Continue))
		}
		revision = cmp.Or(revision, p.Metadata.ResourceVersion)
		if p.Metadata.Continue == "" {
			return r.collection(all, revision), nil
		}
		query.Set("continue", p.Metadata.Continue)
	}
}

func (r *request) collection(all []Object, revision string) route.Answer {
	query := r.Query()
	selected := Select(all, query)
	data := make([]Object, len(selected.Objects))
	for i, o := range selected.Objects {
		data[i] = Without(o, query)
	}
	self := r.base + "/" + r.schema.Plural()
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"type": "collection", "resourceType": r.schema.ID(), "links": map[string]string{"self": self}, "actions": map[string]string{}, "createTypes": map[string]string{r.schema.ID(): self},
		"count": selected.Count, "pages": selected.Pages, "revision": revision, "continue": selected.Continue, "data": data,
	}}
}

// shown is an object of a cluster in the form of /v1.
func (r *request) shown(o map[string]any) Object {
	r.schema.Escape(o)
	o["apiVersion"], o["kind"] = r.schema.APIVersion(), r.schema.Kind // lists leave them out
	metadata, ok := o["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		o["metadata"] = metadata
	}
	delete(metadata, "managedFields")
	state := k8sobjects.Active
	if _, going := metadata["deletionTimestamp"]; going {
		state = k8sobjects.Removing
	}
	metadata["state"] = map[string]any{"name": state, "error": false, "transitioning": state != k8sobjects.Active, "message": ""}
	id, _ := metadata["name"].(string)
	if namespace, _ := metadata["namespace"].(string); r.schema.Namespaced {
		id = namespace + "/" + id
	}
	return r.schema.Present(r.base, o, id, Links{Update: true, Remove: true})
}

// one asks for one object, or for what changes it, and shows what the cluster answers.
func (r *request) one(ctx context.Context, q kubeproxy.Question, status int) (route.Answer, error) {
	var o map[string]any
	err := r.ask(ctx, q, func(text []byte) error {
		if err := decode(text, &o); err != nil {
			return strange(err)
		}
		if o == nil {
			return strange(errors.New("null"))
		}
		return nil
	})
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: status, Body: r.shown(o)}, nil
}

// write creates or replaces an object.
func (r *request) write(ctx context.Context, method string) (route.Answer, error) {
	text, err := norman.ReadBody(r.W, r.R, r.Limit)
	if err != nil {
		return route.Answer{}, err
	}
	var o map[string]any
	if err := decode(text, &o); err != nil || o == nil {
		return route.Answer{}, norman.Invalid(norman.InvalidBodyContent, "", "the body is not one JSON object")
	}
	namespace, err := r.sent(o)
	if err != nil {
		return route.Answer{}, err
	}
	if text, err = json.Marshal(o); err != nil {
		return route.Answer{}, fmt.Errorf("write an object of type %s: %w", r.schema.ID(), err)
	}
	status := http.StatusOK
	if method == http.MethodPost {
		status = http.StatusCreated
	}
	return r.one(ctx, kubeproxy.Question{Method: method, Path: r.path(namespace, r.name), Body: text}, status)
}

// sent makes an object of the cluster's API of one in the form of /v1, and returns its namespace.
func (r *request) sent(o map[string]any) (namespace string, err error) {
	r.schema.Unescape(o)
	o["apiVersion"], o["kind"] = r.schema.APIVersion(), r.schema.Kind
	metadata, ok := o["metadata"].(map[string]any)
	if !ok {
		return "", norman.Invalid(norman.MissingRequired, "metadata", "an object has metadata with its name")
	}
	for _, field := range []string{"state", "relationships", "fields"} {
		delete(metadata, field)
	}
	given, _ := metadata["namespace"].(string)
	switch {
	case !r.schema.Namespaced:
		return "", nil
	case given == "" && r.namespace == "":
		return "", norman.Invalid(norman.MissingRequired, "metadata.namespace", "which namespace is the object in?")
	case given == "":
		given = r.namespace
	case r.namespace != "" && r.namespace != given:
		return "", norman.Invalid(norman.InvalidOption, "metadata.namespace", "%.80q is not the namespace of the URL, %.80q", given, r.namespace)
	}
	if there := (&request{schema: r.schema}); !there.place([]string{given}) {
		return "", norman.Invalid(norman.InvalidCharacters, "metadata.namespace", "%.80q is not the name of a namespace", given)
	}
	metadata["namespace"] = given
	return given, nil
}

// remove removes an object, and what belongs to it after it.
func (r *request) remove(ctx context.Context) (route.Answer, error) {
	body := []byte(`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`)
	err := r.ask(ctx, kubeproxy.Question{Method: http.MethodDelete, Path: r.path(r.namespace, r.name), Body: body}, func([]byte) error { return nil })
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: http.StatusNoContent}, nil
}
