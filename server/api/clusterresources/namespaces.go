// The type namespace of a cluster's part of /v3. A namespace is in the project that the server recorded, and its annotation says so
// to clients that ask the cluster itself.

package clusterresources

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/controllers/rights"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const (
	creatorAnnotation = "field.cattle.io/creatorId"
	moving            = "move"
)

func namespaceSchema() norman.Schema {
	return norman.Schema{
		ID: "namespace", Plural: "namespaces", Version: norman.Version{Group: "cluster.cattle.io", Version: "v3", Path: "/v3/cluster"},
		CollectionMethods: []string{"GET", "POST"}, ResourceMethods: []string{"GET", "PUT", "DELETE"},
		Fields: norman.Fields(map[string]norman.Field{
			"name":          {Type: "dnsLabel", Create: true, Required: true},
			"description":   {Type: "string", Create: true, Update: true},
			"projectId":     {Type: "reference[project]", Create: true, Update: true, Nullable: true},
			"clusterId":     {Type: "reference[cluster]"},
			"resourceQuota": {Type: "json", Nullable: true}, "containerDefaultResourceLimit": {Type: "json", Nullable: true},
		}),
		ResourceActions: map[string]norman.Action{moving: {Input: "namespaceMove"}},
	}
}

// Request is one about the namespaces of a cluster.
type Request struct {
	*route.Call
	api     *API
	cluster string
	urls    norman.URLs
	// namespace is the one that it is about, where it is about one.
	namespace *corev1.Namespace
	// known is what was recorded when the request began, or was last changed by it.
	known state.Memberships
}

// Namespaces begins a request about the namespaces of the cluster of the path. The error is that of management.API.Context.
func (a *API) Namespaces(c *route.Call) (*Request, error) {
	id, urls, err := a.V3.Context(c, "cluster")
	if err != nil {
		return nil, err
	}
	return &Request{Call: c, api: a, cluster: id, urls: urls, known: a.Membership.In(id)}, nil
}

// projectOf is the project of a namespace, "" for none.
func (r *Request) projectOf(n *corev1.Namespace) string { return r.known.Of(string(n.UID), n.Name) }

// record has the server record that a namespace goes into a project, from the one in which the caller was found to have rights.
func (r *Request) record(n *corev1.Namespace, to string) error {
	ctx, cancel := bounded(r.Ctx())
	defer cancel()
	err := r.api.Membership.Move(ctx, r.cluster, string(n.UID), n.Name, r.projectOf(n), to)
	if _, gone := errors.AsType[*store.NotFoundError](err); gone {
		return norman.Invalid(norman.InvalidReference, "projectId", "cluster %s has no project %.80q", r.cluster, to)
	}
	if errors.Is(err, state.ErrMoved) {
		return norman.Errorf(http.StatusConflict, norman.Conflict, "namespace %s: %v", n.Name, err)
	}
	r.known = r.api.Membership.In(r.cluster)
	return err
}

func (r *Request) about(name, project string) auth.Object {
	return auth.Object{Kind: auth.Namespace, Key: name, Cluster: r.cluster, Project: project}
}

func (r *Request) may(verb auth.Verb, n *corev1.Namespace) bool {
	return auth.May(r.Who, verb, r.about(n.Name, r.projectOf(n)))
}

func (r *Request) object(n *corev1.Namespace) norman.Object {
	summary := k8sobjects.Well()
	if !n.DeletionTimestamp.IsZero() || n.Status.Phase == corev1.NamespaceTerminating {
		summary = k8sobjects.NewSummary(k8sobjects.Removing, "yes", "waiting for what is in the namespace to be removed")
	}
	o := norman.Object{ID: n.Name, Actions: []string{moving}, Fields: map[string]any{
		"name": n.Name, "description": n.Annotations[k8sobjects.DescriptionAnnotation], "projectId": norman.Reference(r.projectOf(n)), "clusterId": r.cluster,
		"created": n.CreationTimestamp.UTC(), "creatorId": norman.Reference(n.Annotations[creatorAnnotation]), "uuid": string(n.UID),
		"labels": norman.Map(n.Labels), "annotations": norman.Map(n.Annotations),
	}}
	summary.Into(o.Fields)
	return o
}

func (r *Request) show(n *corev1.Namespace) map[string]any {
	return namespaceSchema().Present(r.object(n), r.urls, norman.Allowed{
		Update: r.may(auth.Update, n), Remove: r.may(auth.Remove, n), Action: func(string) bool { return r.may(auth.Update, n) },
	})
}

// ListNamespaces is GET of the type: those that the caller may see.
func (a *API) ListNamespaces(c *route.Call, r *Request) (route.Answer, error) {
	seen := map[string]*corev1.Namespace{}
	var objects []norman.Object
	if auth.Somewhere(c.Who, auth.Get, auth.Namespace) {
		client, err := a.client(r.cluster)
		if err != nil {
			return route.Answer{}, err
		}
		ctx, cancel := bounded(c.Ctx())
		defer cancel()
		list, err := bounds.All[*corev1.Namespace](ctx, metav1.ListOptions{}, client.CoreV1().Namespaces().List)
		if err != nil {
			return route.Answer{}, refused("namespace", "", err)
		}
		for _, n := range list {
			if r.may(auth.Get, n) {
				seen[n.Name], objects = n, append(objects, r.object(n))
			}
		}
	}
	slices.SortFunc(objects, func(a, b norman.Object) int { return cmp.Compare(a.ID, b.ID) })
	return route.Answer{Status: http.StatusOK, Body: namespaceSchema().Collection(objects, norman.List{
		URLs: r.urls, Values: c.Query(), Creates: auth.Somewhere(c.Who, auth.Create, auth.Namespace),
		Show: func(o norman.Object) map[string]any { return r.show(seen[o.ID]) },
	})}, nil
}

// Namespace begins a request about the namespace of the path, which the caller may see and do something to. The error is a *norman.Error: 404, 403, or that
// of the cluster's API.
func (a *API) Namespace(c *route.Call) (*Request, error) {
	r, err := a.Namespaces(c)
	if err != nil {
		return nil, err
	}
	id := c.Param("id")
	if !auth.Somewhere(c.Who, auth.Get, auth.Namespace) || len(validation.ValidateNamespaceName(id, false)) > 0 {
		return nil, norman.Missing("namespace", id)
	}
	client, err := a.client(r.cluster)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(c.Ctx())
	defer cancel()
	n, err := client.CoreV1().Namespaces().Get(ctx, id, metav1.GetOptions{})
	if err != nil {
		return nil, refused("namespace", id, err)
	}
	if !r.may(auth.Get, n) {
		return nil, norman.Missing("namespace", id)
	}
	verb := c.Row.Access.Verb
	if _, action := verb.ActionName(); action {
		verb = auth.Update
	}
	if !r.may(verb, n) {
		return nil, c.Denied()
	}
	r.namespace = n
	return r, nil
}

// GetNamespace is GET of one.
func (a *API) GetNamespace(_ *route.Call, r *Request) (route.Answer, error) {
	return route.Answer{Status: http.StatusOK, Body: r.show(r.namespace)}, nil
}

// target is the project that a body names, where the caller may make namespaces; "" for none, for which they have to be
// allowed that in the cluster.
func (r *Request) target(in norman.Input) (string, error) {
	id, err := in.String("projectId")
	if err != nil {
		return "", err
	}
	if id != "" {
		p, _, ok := r.api.State.Project(id)
		if !ok || p.ClusterID != r.cluster || !auth.May(r.Who, auth.Get, auth.Object{Kind: auth.Project, Key: id}) {
			return "", norman.Invalid(norman.InvalidReference, "projectId", "cluster %s has no project %.80q", r.cluster, id)
		}
	}
	if !auth.May(r.Who, auth.Create, r.about("", id)) {
		where := "in no project"
		if id != "" {
			where = "in project " + id
		}
		return "", norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "user %s may not create namespaces %s of cluster %s", r.Who.Username, where, r.cluster)
	}
	return id, nil
}

// marked adds the annotation and the label of a project to an edit.
func marked(e edit, project string) edit {
	_, short, in := strings.Cut(project, ":")
	e.annotations[rights.ProjectAnnotation], e.labels[rights.ProjectAnnotation] = project, short
	if !in {
		e.labels[rights.ProjectAnnotation] = nil
	}
	return e
}

// CreateNamespace is POST of the type.
func (a *API) CreateNamespace(c *route.Call, r *Request) (route.Answer, error) {
	in, err := c.Input(namespaceSchema())
	if err != nil {
		return route.Answer{}, err
	}
	name, err := in.Required("name")
	if err != nil {
		return route.Answer{}, err
	}
	if bad := validation.ValidateNamespaceName(name, false); len(bad) > 0 {
		return route.Answer{}, norman.Invalid(norman.InvalidCharacters, "name", "%.80q is not a valid name of a namespace: %s", name, strings.Join(bad, "; "))
	}
	project, err := r.target(in)
	if err != nil {
		return route.Answer{}, err
	}
	// One of a name that belongs to Default or System is in that project until it is recorded in another, which it would leave: the
	// accounts of people in clusters are in such a namespace.
	if belongs := r.known.BuiltIn(name); belongs != project && belongs != "" && !auth.May(c.Who, auth.Update, r.about(name, belongs)) {
		return route.Answer{}, norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "namespace %s belongs to project %s of cluster %s, in which user %s may not change namespaces", name, belongs, r.cluster, c.Who.Username)
	}
	patch, err := changed(in)
	if err != nil {
		return route.Answer{}, err
	}
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: texts(patch.annotations), Labels: texts(patch.labels)}}
	n.Annotations[creatorAnnotation] = c.Who.UserID
	client, err := a.client(r.cluster)
	if err != nil {
		return route.Answer{}, err
	}
	ctx, cancel := bounded(c.Ctx())
	defer cancel()
	made, err := client.CoreV1().Namespaces().Create(ctx, n, metav1.CreateOptions{})
	if err != nil {
		return route.Answer{}, refused("namespace", name, err)
	}
	// It is marked once it is recorded: a mark without a record counts for nothing.
	if err := r.record(made, project); err != nil {
		return route.Answer{}, fmt.Errorf("namespace %s was made in cluster %s and is in no project: %w", name, r.cluster, err)
	}
	answer, err := r.patch(made, marked(edit{annotations: map[string]any{}, labels: map[string]any{}}, project))
	answer.Status = http.StatusCreated
	return answer, err
}

// edit is what a body changes of annotations and labels; a nil value removes.
type edit struct{ annotations, labels map[string]any }

func texts(m map[string]any) map[string]string {
	all := map[string]string{}
	for k, v := range m {
		if text, ok := v.(string); ok {
			all[k] = text
		}
	}
	return all
}

// changed reads description, labels and annotations. Annotations that say where a namespace belongs are not changed so.
func changed(in norman.Input) (edit, error) {
	e := edit{annotations: map[string]any{}, labels: map[string]any{}}
	for name, to := range map[string]map[string]any{"annotations": e.annotations, "labels": e.labels} {
		set, removed, err := in.Map(name)
		if err != nil {
			return e, err
		}
		for k, v := range set {
			to[k] = v
		}
		for _, k := range removed {
			to[k] = nil
		}
		delete(to, rights.ProjectAnnotation)
		delete(to, creatorAnnotation)
	}
	description, err := in.String("description")
	if err == nil && in.Has("description") {
		err = norman.CheckDescription(description)
		e.annotations[k8sobjects.DescriptionAnnotation] = description
	}
	return e, err
}

// patch changes a namespace, and shows it.
func (r *Request) patch(n *corev1.Namespace, e edit) (route.Answer, error) {
	client, err := r.api.client(r.cluster)
	if err != nil {
		return route.Answer{}, err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": e.annotations, "labels": e.labels}})
	if err != nil {
		return route.Answer{}, err
	}
	ctx, cancel := bounded(r.Ctx())
	defer cancel()
	is, err := client.CoreV1().Namespaces().Patch(ctx, n.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return route.Answer{}, refused("namespace", n.Name, err)
	}
	shown := r.show(is)
	management.Ignored(r.Call, shown)
	return route.Answer{Status: http.StatusOK, Body: shown}, nil
}

// UpdateNamespace is PUT; with another projectId it moves the namespace, as clients without the action do.
func (a *API) UpdateNamespace(c *route.Call, r *Request) (route.Answer, error) {
	in, err := c.Input(namespaceSchema())
	if err != nil {
		return route.Answer{}, err
	}
	e, err := changed(in)
	if err != nil {
		return route.Answer{}, err
	}
	if id, err := in.String("projectId"); err != nil {
		return route.Answer{}, err
	} else if id != "" && id != r.projectOf(r.namespace) {
		return r.move(in, e)
	}
	return r.patch(r.namespace, e)
}

func (r *Request) move(in norman.Input, e edit) (route.Answer, error) {
	project, err := r.target(in)
	if err != nil {
		return route.Answer{}, err
	}
	if err := r.record(r.namespace, project); err != nil {
		return route.Answer{}, err
	}
	return r.patch(r.namespace, marked(e, project))
}

// MoveNamespace is the action move with {"projectId": "c-7hq2k:p-4xk2v"}; null is out of any project.
func (a *API) MoveNamespace(c *route.Call, r *Request) (route.Answer, error) {
	in, err := c.Input(norman.Schema{Fields: norman.Fields(map[string]norman.Field{"projectId": {Type: "reference[project]", Nullable: true}})})
	if err != nil {
		return route.Answer{}, err
	}
	return r.move(in, edit{annotations: map[string]any{}, labels: map[string]any{}})
}

// RemoveNamespace is DELETE.
func (a *API) RemoveNamespace(c *route.Call, r *Request) (route.Answer, error) {
	client, err := a.client(r.cluster)
	if err != nil {
		return route.Answer{}, err
	}
	ctx, cancel := bounded(c.Ctx())
	defer cancel()
	if err := client.CoreV1().Namespaces().Delete(ctx, r.namespace.Name, metav1.DeleteOptions{}); err != nil {
		return route.Answer{}, refused("namespace", r.namespace.Name, err)
	}
	if is, err := client.CoreV1().Namespaces().Get(ctx, r.namespace.Name, metav1.GetOptions{}); err == nil {
		return route.Answer{Status: http.StatusOK, Body: r.show(is)}, nil
	}
	return route.Answer{Status: http.StatusNoContent}, nil
}
