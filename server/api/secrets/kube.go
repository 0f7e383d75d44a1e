// Secrets as objects of Kubernetes.

package secrets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/listing"
	"github.com/drover-project/drover/server/patch"
	"github.com/drover-project/drover/server/quotas"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Kube serves the Secrets of people at /api/v1, lists and watches by list, and hands on to plans all that is about plan Secrets: what names
// one, requests of those who are no people, and lists and watches of those who may see plans, but for watches of one Secret
// by its name; in these lists package planapi has the Secrets of people, too.
func (a *API) Kube(plans route.Handler, list func(*route.Call, string) error) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		namespace, name, ok := place(c.R.URL.Path)
		query := c.Query()
		// An agent names its Secret, and costs nothing here.
		selector := query.Get("fieldSelector")
		if !ok || records.IsPlanSecret(name) || strings.Contains(selector, records.PlanSecretEnd) {
			return plans(c)
		}
		named := query.Has("watch") && strings.Contains(selector, "metadata.name=") // a watch of one Secret, which is no plan
		if c.R.Method != http.MethodGet && c.R.Method != http.MethodHead && a.CatchUp != nil {
			if err := a.CatchUp(c.Ctx()); err != nil {
				return refuse(c, auth.ErrCutOff)
			}
		}
		who, err := a.Authenticate(c.R)
		switch {
		case err != nil || auth.ActsAs(c.R) || who.ClusterID != "":
			return plans(c) // which says why not
		case name != "" && a.isPlan(namespace, name), name == "" && reads(c) && !named && auth.May(who, auth.List, auth.Object{Kind: auth.PlanSecret}):
			return plans(c)
		case name == "" && reads(c):
			c.Who, c.Row = who, &route.Row{Access: route.Kubernetes(auth.List, auth.SharedObject)}
			if err := list(c, namespace); err != nil {
				return refuse(c, err)
			}
			return route.Answer{}, nil
		}
		c.R = c.R.WithContext(quotas.By(c.Ctx(), who.UserID))
		k := kubeRequest{API: a, Call: c, who: who, namespace: namespace, name: name}
		if err := k.serve(); err != nil {
			return refuse(c, err)
		}
		return route.Answer{}, nil
	}
}

func reads(c *route.Call) bool { return c.R.Method == http.MethodGet || c.R.Method == http.MethodHead }

func (a *API) isPlan(namespace, name string) bool {
	_, ok := a.State.PlanSecrets.Get(namespace + "/" + name)
	return ok
}

// place is which Secrets a path is about.
func place(path string) (namespace, name string, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) == 3 && parts[2] == "secrets":
		return "", "", true
	case len(parts) < 5 || len(parts) > 6 || parts[2] != "namespaces" || parts[4] != "secrets":
		return "", "", false
	case len(parts) == 6:
		name = parts[5]
	}
	return parts[3], name, true
}

func refuse(c *route.Call, err error) (route.Answer, error) {
	route.SendStatus(c.W, route.StatusOf(err, route.Envelope(err)))
	return route.Answer{}, nil
}

// kubeRequest is one request.
type kubeRequest struct {
	*API
	*route.Call
	who             auth.Identity
	namespace, name string
}

func (k kubeRequest) serve() error {
	switch method := k.R.Method; {
	case k.name == "" && method == http.MethodPost && k.namespace != "":
		return k.create()
	case k.name == "":
		return listing.Refuse(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "%s is not possible for Secrets together: one after the other", method)
	}
	d, ok := clusters.Secret(k.State, k.who, k.namespace, k.name)
	switch applied := k.R.Method == http.MethodPatch && patch.Type(k.R.Header.Get("Content-Type")) == patch.Apply; {
	case applied && !ok:
		return k.applyNew()
	case !ok:
		return k.missing()
	}
	switch k.R.Method {
	case http.MethodGet, http.MethodHead:
		k.SendPlain(http.StatusOK, d.Value.Form(d.Revision))
		return nil
	case http.MethodPut:
		return k.replace()
	case http.MethodPatch:
		return k.patch()
	case http.MethodDelete:
		return k.remove(d)
	}
	return listing.Refuse(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "%s is not possible for a Secret", k.R.Method)
}

// missing is the error for a Secret that there is not, or that the caller may not read.
func (k kubeRequest) missing() error {
	return listing.Refuse(http.StatusNotFound, metav1.StatusReasonNotFound, "secrets %q not found", k.name)
}

func (k kubeRequest) dry() bool { return k.Query().Get("dryRun") != "" }

// protobuf is the content type of the typed clients of client-go, helm's among them, which do not fall back to JSON.
const protobuf = "application/vnd.kubernetes.protobuf"

// sent is the object in the body, JSON or protobuf.
func (k kubeRequest) sent() (map[string]any, error) {
	switch given := patch.Type(k.R.Header.Get("Content-Type")); given {
	case "", "application/json":
		return body(k.Call)
	case protobuf:
		data, err := norman.ReadBody(k.W, k.R, maxBody)
		if err != nil {
			return nil, err
		}
		return ofProtobuf(data)
	default:
		return nil, listing.Refuse(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "the body is %.80q, but must be application/json or %s", given, protobuf)
	}
}

// ofProtobuf reads a Secret in the envelope of Kubernetes. Errors of the library are not shown: they could repeat a value.
//
// Wire source: k8s.io/apimachinery pkg/runtime/serializer/protobuf.
func ofProtobuf(data []byte) (fields map[string]any, err error) {
	var envelope runtime.Unknown
	var secret corev1.Secret
	raw, ok := bytes.CutPrefix(data, []byte("k8s\x00"))
	if !ok || envelope.Unmarshal(raw) != nil || envelope.APIVersion != "v1" || envelope.Kind != objects.Secret || secret.Unmarshal(envelope.Raw) != nil {
		return nil, norman.Invalid(norman.InvalidBodyContent, "", "the body is not one Secret in protobuf")
	}
	secret.APIVersion, secret.Kind = envelope.APIVersion, envelope.Kind
	text, err := json.Marshal(secret)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	return fields, err
}

func (k kubeRequest) create() error {
	fields, err := k.sent()
	if err != nil {
		return err
	}
	return k.made(fields, "")
}

func (k kubeRequest) made(fields map[string]any, name string) error {
	d, err := k.put(fields, name, clusters.SecretAt{New: true, DryRun: k.dry()})
	if errors.Is(err, errExists) {
		return listing.Refuse(http.StatusConflict, metav1.StatusReasonAlreadyExists, "secrets %q already exists", d.Value.Name)
	}
	if err != nil {
		return err
	}
	k.SendPlain(http.StatusCreated, d.Value.Form(d.Revision))
	return nil
}

func (k kubeRequest) replace() error {
	fields, err := k.sent()
	if err != nil {
		return err
	}
	at := clusters.SecretAt{DryRun: k.dry()}
	if at.Revision, err = version(fields); err != nil {
		return err
	}
	d, err := k.put(fields, k.name, at)
	if err != nil {
		return err
	}
	k.SendPlain(http.StatusOK, d.Value.Form(d.Revision))
	return nil
}

// errExists says that a Secret that is to be created is there, and that the caller may know it.
var errExists = errors.New("the Secret exists already")

func (k kubeRequest) put(fields map[string]any, name string, at clusters.SecretAt) (clusters.StoredObject, error) {
	text, err := filled(fields, k.namespace, name)
	if err != nil {
		return clusters.StoredObject{}, err
	}
	o, err := read(text, k.namespace, name)
	if err != nil {
		return clusters.StoredObject{}, err
	}
	if o.Namespace != k.namespace {
		return clusters.StoredObject{}, norman.Invalid(norman.InvalidOption, "metadata.namespace", "%.80q is not the namespace of the URL, %.80q", o.Namespace, k.namespace)
	}
	d, err := clusters.PutSecret(k.Ctx(), k.State, k.who, o, at)
	if _, exists := errors.AsType[*store.ExistsError](err); exists {
		return clusters.StoredObject{Value: o}, errExists
	}
	if text := clusters.Unbound(d.Value); err == nil && text != "" {
		k.Warn(text)
	}
	return d, err
}

// tries bounds how often a patch is made again of a Secret that another changed in the meantime.
const tries = 5

func (k kubeRequest) patch() error {
	apply, err := k.readPatch()
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		is, ok := clusters.Secret(k.State, k.who, k.namespace, k.name)
		if !ok {
			return k.missing()
		}
		d, err := k.patched(is, apply)
		if moved, ok := errors.AsType[*store.ConflictError](err); ok && try < tries && moved.Wanted == is.Revision {
			continue
		}
		if err != nil {
			return err
		}
		k.SendPlain(http.StatusOK, d.Value.Form(d.Revision))
		return nil
	}
}

func (k kubeRequest) patched(is clusters.StoredObject, apply patch.Func) (clusters.StoredObject, error) {
	original, err := json.Marshal(is.Value.Form(is.Revision))
	if err != nil {
		return is, fmt.Errorf("write secret %s/%s as JSON: %w", k.namespace, k.name, err)
	}
	text, err := apply(original)
	if err != nil {
		return is, unpatched(err)
	}
	var fields map[string]any
	if json.Unmarshal(text, &fields) != nil || fields == nil {
		return is, norman.Invalid(norman.InvalidBodyContent, "", "what the patch makes is not one JSON object")
	}
	at := clusters.SecretAt{DryRun: k.dry()}
	if at.Revision, err = version(fields); err != nil {
		return is, err
	}
	return k.put(fields, k.name, at)
}

// readPatch reads a patch by its content type.
func (k kubeRequest) readPatch() (patch.Func, error) {
	kind := patch.Type(k.R.Header.Get("Content-Type"))
	if kind == patch.Apply {
		fields, err := k.applied()
		if err != nil {
			return nil, err
		}
		text, err := filled(fields, k.namespace, k.name)
		if err != nil {
			return nil, err
		}
		return patch.Read(patch.Merge, text, maxBody)
	}
	text, err := norman.ReadBody(k.W, k.R, maxBody)
	if err != nil {
		return nil, err
	}
	switch kind {
	case patch.Strategic:
		return func(original []byte) ([]byte, error) {
			return strategicpatch.StrategicMergePatch(original, text, corev1.Secret{})
		}, nil
	case patch.Merge, patch.JSON:
		apply, err := patch.Read(kind, text, maxBody)
		if err != nil {
			return nil, unpatched(err)
		}
		return apply, nil
	}
	return nil, listing.Refuse(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"a Secret takes patches of the types %s, %s, %s and %s", patch.Strategic, patch.Merge, patch.JSON, patch.Apply)
}

// applied is the body of a server-side apply, which helm 4 sends for all objects of a chart. Who set which field of a Secret is not kept: fields
// are taken over without a conflict, and what is left out later stays.
func (k kubeRequest) applied() (map[string]any, error) {
	if k.Query().Get("fieldManager") == "" {
		return nil, listing.Refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "fieldManager: Required value: is required for apply patch")
	}
	text, err := norman.ReadBody(k.W, k.R, maxBody)
	if err != nil {
		return nil, err
	}
	doc, err := strictyaml.ReadOne(strictyaml.Source{Private: true, Limits: strictyaml.Limits{Bytes: 2 * maxBody}}, text)
	if err != nil {
		return nil, norman.Invalid(norman.InvalidBodyContent, "", "the Secret cannot be read: %v", err)
	}
	fields := map[string]any{}
	if faults := doc.Decode(&fields, strictyaml.Options{}); len(faults) > 0 {
		return nil, norman.Invalid(norman.InvalidBodyContent, "", "the Secret cannot be read: %v", faults)
	}
	if len(fields) == 0 {
		return nil, norman.Invalid(norman.InvalidBodyContent, "", "the Secret cannot be read: the body is empty")
	}
	return fields, nil
}

// applyNew is a server-side apply of a Secret that there is not, or that the caller may not read.
func (k kubeRequest) applyNew() error {
	fields, err := k.applied()
	if err != nil {
		return err
	}
	return k.made(fields, k.name)
}

// unpatched is an error of a patch, without what the library says of it: that could repeat a value.
func unpatched(err error) error {
	if errors.Is(err, patch.ErrTest) {
		return norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "a test operation of the patch failed")
	}
	return listing.BadRequest("the patch cannot be applied to this Secret")
}

func (k kubeRequest) remove(d clusters.StoredObject) error {
	if !auth.May(k.who, auth.Remove, auth.OfShared(d.Value)) {
		return listing.Refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "%s is not yours to remove", objects.Named(d.Key))
	}
	if !k.dry() {
		if err := clusters.RemoveObject(k.Ctx(), k.State, d.Key); err != nil {
			return err
		}
	}
	k.SendPlain(http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: d.Value.Name, Kind: strings.ToLower(objects.Secret) + "s"},
	})
	return nil
}
