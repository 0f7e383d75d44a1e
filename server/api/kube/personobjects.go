// Users, roles, who has them, and projects as objects of Kubernetes: how each looks, and what a
// document of one asks package people for, whose rules are the only ones.
//
// Wire source: rancher/rancher pkg/apis/management.cattle.io/v3 (User, GlobalRole, RoleTemplate, their bindings, Project).

package kube

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
)

// PersonObject is one object.
type PersonObject struct {
	// Key is "<namespace>/<name>", or the name.
	Key      string
	May      auth.Object
	Revision int64
	Content  map[string]any
	// Cells are those of its row in a table, in the order of the columns; a time.Time is an age.
	Cells []any
}

// personRequest is one that changes something.
type personRequest struct {
	Ctx context.Context //nolint:containedctx // of the request
	Who auth.Identity
	people.Terms
}

// PersonKind is one kind of objects.
type PersonKind struct {
	Definition
	// Collection is where their changes are found in the feed.
	Collection string
	// List is in the order of the keys.
	List func() []PersonObject
	Get  func(key string) (PersonObject, bool)
	// Changed is the object that a change of the collection is about, with its last form when it is gone.
	Changed func(subscribe.Change) (key string, last *PersonObject, ok bool)
	// Within stands for any object of a namespace: a caller who may not make one there is refused.
	Within func(namespace string) auth.Object
	Create func(personRequest, map[string]any) (PersonObject, error)
	Update func(personRequest, PersonObject, map[string]any) (PersonObject, error)
	Remove func(personRequest, PersonObject) error
}

// People makes the kinds.
type People struct {
	State  *state.State
	People *people.People
}

// Kinds are all of them, by the resource in paths.
func (a People) Kinds() []PersonKind {
	return []PersonKind{
		a.users(), a.roleKind(roles.GlobalRole), a.bindings(roles.Global), a.roleKind(roles.RoleTemplate),
		a.bindings(roles.Cluster), a.bindings(roles.Project), a.projects(),
	}
}

func define(plural string) Definition { return definitionOf("management.cattle.io", plural) }

// about is the metadata of an object.
type about struct {
	name, namespace     string
	created             time.Time
	labels, annotations map[string]string
	revision            int64
}

// personObject is the outline of an object.
func personObject(d Definition, m about, fields map[string]any) map[string]any {
	sum := sha256.Sum256([]byte(d.Kind + "\x00" + m.namespace + "\x00" + m.name + "\x00" + m.created.UTC().Format(time.RFC3339Nano)))
	meta := map[string]any{
		"name": m.name, "resourceVersion": strconv.FormatInt(max(1, m.revision), 10),
		// Records have no UID of their own: one that is made again under the same name was made at another time.
		"uid": fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]),
	}
	if m.namespace != "" {
		meta["namespace"] = m.namespace
	}
	if !m.created.IsZero() {
		meta["creationTimestamp"] = m.created.UTC().Format(time.RFC3339)
	}
	for name, all := range map[string]map[string]string{"labels": m.labels, "annotations": m.annotations} {
		if len(all) > 0 {
			meta[name] = all
		}
	}
	fields["apiVersion"], fields["kind"], fields["metadata"] = d.APIVersion(), d.Kind, meta
	return k8sobjects.Generic(fields)
}

// metadata is what an object that was sent says of itself.
type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// read takes an object that was sent into a struct whose first field is Metadata, and refuses labels and annotations
// that Kubernetes would.
func read(content map[string]any, into any, meta *metadata) error {
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	err = json.Unmarshal(data, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &roles.InvalidError{Field: wrong.Field, Reason: "is of the type " + wrong.Value + ", which it is not here"}
	}
	if err != nil {
		return &roles.InvalidError{Field: "", Reason: fmt.Sprintf("is not as it has to be: %.200s", strings.TrimPrefix(err.Error(), "json: "))}
	}
	faults := metav1validation.ValidateLabels(meta.Labels, field.NewPath("metadata", "labels"))
	faults = append(faults, apivalidation.ValidateAnnotations(meta.Annotations, field.NewPath("metadata", "annotations"))...)
	if len(faults) > 0 {
		return &roles.InvalidError{Field: faults[0].Field, Reason: faults[0].ErrorBody()}
	}
	return nil
}

// fixed refuses another value of what never changes. An empty one, as it is left out, stays.
func fixed(name, is, wanted string) error {
	if wanted == "" || wanted == is {
		return nil
	}
	return &roles.InvalidError{Field: name, Reason: fmt.Sprintf("is %q and cannot be changed (to %.80q): remove the object and make another one", is, wanted)}
}

func sorted(all []PersonObject) []PersonObject {
	slices.SortFunc(all, func(x, y PersonObject) int { return strings.Compare(x.Key, y.Key) })
	return all
}
