// What changes objects: create, replace, patch and delete. Each makes the object as it shall be of what is
// there and what was sent; the resource takes that in.

package kube

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sjson "sigs.k8s.io/json"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/listing"
	"github.com/drover-project/drover/server/patch"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/store"
)

// Request is one that changes an object.
type Request struct {
	*route.Call
	res *Resource
	// dryRun stores nothing.
	dryRun bool
	// manager is who the fields belong to that are changed.
	manager string
	// validation is what becomes of unknown fields: Strict, Warn or Ignore.
	validation string
	// owners is metadata.managedFields of the object as it shall be, once that is decided; nil keeps what is there.
	owners  json.RawMessage
	decided bool
	// seen is the revision that is changed, zero for a new object.
	seen int64
}

// maxManager bounds the name of a field manager, as Kubernetes does.
const maxManager = 128

// Begin reads what requests that change something have in common. The error is of the form of Kubernetes.
func (r *Resource) Begin(c *route.Call) (*Request, error) {
	q := &Request{Call: c, res: r, validation: c.Query().Get("fieldValidation"), manager: c.Query().Get("fieldManager")}
	if err := q.readDryRun(c.Query()["dryRun"]); err != nil {
		return q, err
	}
	switch q.validation {
	case "":
		q.validation = "Warn"
	case "Strict", "Warn", "Ignore":
	default:
		return q, invalidOption("fieldValidation: Unsupported value: %.40q: supported values: Ignore, Warn, Strict", q.validation)
	}
	if q.manager == "" {
		q.manager, _, _ = strings.Cut(c.R.UserAgent(), "/")
		q.manager = q.manager[:min(len(q.manager), maxManager)]
	}
	q.manager = cmp.Or(q.manager, "unknown")
	if len(q.manager) > maxManager {
		return q, invalidOption("fieldManager: Too long: may not be more than %d bytes", maxManager)
	}
	return q, nil
}

func (q *Request) readDryRun(values []string) error {
	for _, value := range values {
		if value != metav1.DryRunAll {
			return invalidOption("dryRun: Unsupported value: %.40q: supported values: All", value)
		}
		q.dryRun = true
	}
	return nil
}

func invalidOption(format string, args ...any) error {
	return listing.Refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, format, args...)
}

func (q *Request) missing(key string) error {
	return apierrors.NewNotFound(q.res.groupResource(), nameOf(key))
}

// warn adds a warning in the form that kubectl shows.
func (q *Request) warn(text string) {
	q.W.Header().Add("Warning", "299 - "+strconv.QuoteToASCII(text))
}

// body reads an object, JSON or YAML.
func (q *Request) body(kind string) (map[string]any, error) {
	data, err := norman.ReadBody(q.W, q.R, q.Limit)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "application/yaml", patch.Apply:
		if data, err = strictyaml.AsJSON(data); err != nil {
			return nil, listing.BadRequest("the body is not YAML: %v", err)
		}
	case "application/json", "":
	default:
		return nil, listing.Refuse(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml")
	}
	return q.object(data)
}

// object reads JSON, and refuses, names or drops what the objects of the resource do not have.
func (q *Request) object(data []byte) (map[string]any, error) {
	var content map[string]any
	faults, err := sjson.UnmarshalStrict(data, &content)
	if err != nil || content == nil {
		return nil, listing.BadRequest("the body is not a JSON object: %v", err)
	}
	var complaints []string
	for _, fault := range faults {
		complaints = append(complaints, fault.Error())
	}
	for _, path := range q.res.Schema.Unknown(content, clusterspec.OfRancher) {
		complaints = append(complaints, fmt.Sprintf("unknown field %q", path))
	}
	switch {
	case q.validation == "Strict" && len(complaints) > 0:
		return nil, listing.BadRequest("strict decoding error: %s", strings.Join(complaints[:min(len(complaints), 20)], ", "))
	case q.validation == "Warn":
		for _, text := range complaints[:min(len(complaints), 20)] {
			q.warn(text)
		}
	}
	return content, q.head(content)
}

// head fills in what the path says of an object, and refuses what says something else.
func (q *Request) head(content map[string]any) error {
	for _, f := range []struct{ field, want string }{{"apiVersion", q.res.APIVersion()}, {"kind", q.res.Kind}} {
		switch got, isText := content[f.field].(string); {
		case content[f.field] == nil || isText && got == "":
			content[f.field] = f.want
		case got != f.want:
			return listing.BadRequest("%s: %.80v is not that of the URL, %s", f.field, content[f.field], f.want)
		}
	}
	meta, ok := content["metadata"].(map[string]any)
	if content["metadata"] != nil && !ok {
		return listing.BadRequest("metadata is not an object")
	} else if !ok {
		meta = map[string]any{}
		content["metadata"] = meta
	}
	for _, name := range []string{"name", "namespace"} {
		want := q.Param(name)
		switch got, isText := meta[name].(string); {
		case meta[name] != nil && !isText:
			return listing.BadRequest("metadata.%s is not text", name)
		case want != "" && got == "":
			meta[name] = want
		case want != "" && got != want:
			return listing.BadRequest("the %s of the object (%.80s) does not match the %s on the URL (%s)", name, got, name, want)
		}
	}
	if generate, _ := meta["generateName"].(string); generate != "" {
		return invalidOption("metadata.generateName: objects need a metadata.name here; names are not generated")
	}
	if owning, _ := meta["ownerReferences"].([]any); len(owning) > 0 {
		return invalidOption("metadata.ownerReferences: are not kept here")
	}
	finalizers, _ := meta["finalizers"].([]any)
	if i := slices.IndexFunc(finalizers, func(one any) bool { return one != finalizer }); i >= 0 {
		return invalidOption("metadata.finalizers: %.80v is not kept here: the only one is %s, which is the server's", finalizers[i], finalizer)
	}
	delete(content, "status")
	return nil
}

// metadataText is a text of the metadata of an object that was sent.
func metadataText(content map[string]any, name string) string {
	meta, _ := content["metadata"].(map[string]any)
	text, _ := meta[name].(string)
	return text
}

// Create is POST of an object.
func (r *Resource) Create(c *route.Call, q *Request) (route.Answer, error) {
	if !auth.Somewhere(c.Who, auth.Create, r.Of) {
		return route.Answer{}, r.forbidden(c, auth.Create, "")
	}
	content, err := q.body(patch.Type(c.R.Header.Get("Content-Type")))
	if err != nil {
		return route.Answer{}, err
	}
	if !auth.May(c.Who, auth.Create, r.in(metadataText(content, "namespace"))) {
		return route.Answer{}, r.forbidden(c, auth.Create, metadataText(content, "name"))
	}
	if metadataText(content, "name") == "" {
		return route.Answer{}, invalidOption("metadata.name: Required value: name is required")
	}
	if metadataText(content, "resourceVersion") != "" {
		return route.Answer{}, listing.BadRequest("resourceVersion should not be set on objects to be created")
	}
	if q.owners, err = createdBy(r.GVK(), content, q.manager); err != nil {
		return route.Answer{}, err
	}
	o, err := r.create(q, content)
	if err != nil {
		return route.Answer{}, q.explain(err, metadataText(content, "name"))
	}
	c.Concern(o.key)
	return route.Answer{}, q.answer(http.StatusCreated, o)
}

// answer shows an object that was changed.
func (q *Request) answer(status int, o object) error {
	s, err := shapeOf(q.R)
	if err != nil {
		s = shape{} // it is done, and the client gets what it can read or not
	}
	q.SendPlain(status, q.res.present(s, o, true))
	return nil
}

// current is the object of the path, which the caller may see and change.
func (q *Request) current(verb auth.Verb) (object, error) {
	o, err := q.res.visible(q.Call, q.res.key(q.Call))
	if err != nil {
		return o, err
	}
	if !auth.May(q.Who, verb, o.may) {
		return o, q.res.forbidden(q.Call, verb, nameOf(o.key))
	}
	return o, nil
}

// same refuses a change that was made of another object than the stored one, by uid and resourceVersion.
func (q *Request) same(o object, content map[string]any) error {
	name := nameOf(o.key)
	if uid := metadataText(content, "uid"); uid != "" && uid != o.text("uid") {
		return apierrors.NewConflict(q.res.groupResource(), name, fmt.Errorf("precondition failed: UID in precondition: %.80s, UID in object meta: %s", uid, o.text("uid")))
	}
	if version := metadataText(content, "resourceVersion"); version != "" && version != o.text("resourceVersion") {
		return apierrors.NewConflict(q.res.groupResource(), name, errModified)
	}
	return nil
}

var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// Replace is PUT of an object.
func (r *Resource) Replace(c *route.Call, q *Request) (route.Answer, error) {
	o, err := q.current(auth.Update)
	if err != nil {
		return route.Answer{}, err
	}
	content, err := q.body(patch.Type(c.R.Header.Get("Content-Type")))
	if err != nil {
		return route.Answer{}, err
	}
	if metadataText(content, "resourceVersion") == "" {
		return route.Answer{}, q.invalid(nameOf(o.key), "metadata.resourceVersion", "must be specified for an update")
	}
	next, err := q.change(o, content)
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{}, q.answer(http.StatusOK, next)
}

// change takes an object in place of another one, and says whose the fields are.
func (q *Request) change(o object, content map[string]any) (object, error) {
	if err := q.same(o, content); err != nil {
		return o, err
	}
	if !q.decided && q.res.create != nil { // those of other objects are not kept
		var err error
		if q.owners, err = updatedBy(q.res.GVK(), o.content, content, q.manager); err != nil {
			return o, err
		}
	}
	q.seen = o.revision
	next, err := q.res.update(q, o, content)
	return next, q.explain(err, nameOf(o.key))
}

// explain is an error of the store or of a document in Kubernetes' words.
func (q *Request) explain(err error, name string) error {
	if err == nil {
		return nil
	}
	if _, moved := errors.AsType[*store.ConflictError](err); moved {
		if q.seen == 0 {
			return apierrors.NewAlreadyExists(q.res.groupResource(), name)
		}
		return apierrors.NewConflict(q.res.groupResource(), name, errModified)
	}
	if _, exists := errors.AsType[*store.ExistsError](err); exists {
		return apierrors.NewAlreadyExists(q.res.groupResource(), name)
	}
	if bad, ok := errors.AsType[*roles.InvalidError](err); ok {
		return q.invalid(name, bad.Field, bad.Reason)
	}
	if refused, ok := errors.AsType[*people.RefusedError](err); ok {
		return q.refusal(refused, name)
	}
	return q.documentError(err, name)
}

// invalid is the answer about one field.
func (q *Request) invalid(name, at, reason string) error {
	return q.invalidFields(name, []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: at, Message: reason}})
}

func (q *Request) invalidFields(name string, causes []metav1.StatusCause) error {
	texts := make([]string, len(causes))
	for i, cause := range causes {
		texts[i] = strings.TrimPrefix(cause.Field+": "+cause.Message, ": ")
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Details: &metav1.StatusDetails{Group: q.res.Group, Kind: q.res.Kind, Name: name, Causes: causes},
		Message: fmt.Sprintf("%s.%s %q is invalid: %s", q.res.Kind, q.res.Group, name, strings.Join(texts, "; ")),
	}}
}

// Remove is DELETE of an object.
func (r *Resource) Remove(c *route.Call, q *Request) (route.Answer, error) {
	o, err := q.current(auth.Remove)
	if err != nil {
		return route.Answer{}, err
	}
	text, err := norman.ReadBody(c.W, c.R, c.Limit)
	if err != nil {
		return route.Answer{}, err
	}
	var asked metav1.DeleteOptions
	if len(text) > 0 {
		if err := utiljson.Unmarshal(text, &asked); err != nil {
			return route.Answer{}, listing.BadRequest("the body is not DeleteOptions: %v", err)
		}
	}
	if err := q.readDryRun(asked.DryRun); err != nil {
		return route.Answer{}, err
	}
	if p := asked.Preconditions; p != nil {
		meta := map[string]any{}
		if p.UID != nil {
			meta["uid"] = string(*p.UID)
		}
		if p.ResourceVersion != nil {
			meta["resourceVersion"] = *p.ResourceVersion
		}
		if err := q.same(o, map[string]any{"metadata": meta}); err != nil {
			return route.Answer{}, err
		}
	}
	if !q.dryRun {
		if err := r.remove(q, o); err != nil {
			return route.Answer{}, err
		}
	}
	if now, exists := r.get(o.key); exists {
		return route.Answer{}, q.answer(http.StatusOK, now)
	}
	c.SendPlain(http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Group: r.Group, Kind: r.Plural, Name: nameOf(o.key)},
	})
	return route.Answer{}, nil
}
