// Package kube is the server's clusters, machines, settings and people as a Kubernetes API, for kubectl and all that
// speaks like it: a table of resources (kinds.go), with one way for all of them to list, watch and change.
// It has neither a store nor rules of its own: objects are those of package k8sobjects, documents are taken in as
// drover apply takes them, and who may do what is auth.May's to say.
//
// Wire source: k8s.io/apiserver pkg/endpoints as k8s.io/kubectl and client-go use it.
package kube

import (
	"cmp"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/listing"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
)

// Options are what the API stands on.
type Options struct {
	State    *state.State
	Settings *settings.Settings
	Clusters *clusters.Applier
	People   *people.People
	// Versions is the current version data.
	Versions func() *versions.Data
	// Secrets are those of people.
	Secrets PersonKind
	// Changes are what watches show.
	Changes *subscribe.Feed
	Now     func() time.Time
	// Heartbeat is how often an idle watch that takes bookmarks gets one; default 45 s.
	Heartbeat time.Duration
}

// API has a Resource for each row of the table.
type API struct {
	o Options
	// Clusters are those of provisioning.cattle.io, Management those of management.cattle.io.
	Clusters, Machines, Management, Settings, Namespaces *Resource
	// Secrets are those of people: lists and watches.
	Secrets *Resource
	// OfPeople are users, roles, bindings and projects.
	OfPeople []*Resource
	// Reviews are what people ask about themselves.
	Reviews Reviews
}

// New makes an API.
func New(o Options) *API {
	o.Heartbeat = cmp.Or(o.Heartbeat, 45*time.Second)
	a := &API{o: o}
	made := People{State: o.State, People: o.People}
	a.Clusters, a.Machines, a.Management, a.Settings, a.Namespaces = a.clusters(), a.machines(), a.management(), a.settings(), a.ofPeople(made.Namespaces())
	a.Secrets = a.ofPeople(o.Secrets)
	for _, k := range made.Kinds() {
		a.OfPeople = append(a.OfPeople, a.ofPeople(k))
	}
	a.Reviews = Reviews{Types: a.reviewed(), Groups: a.groups}
	return a
}

// Resource is a type of objects; its methods serve the rows of the table of routes.
type Resource struct {
	Definition
	api *API
	// collection is where changes of its objects are found in the feed; "" asks changed about those of all.
	collection string
	// list is all objects in the order of their keys; get is one of them.
	list func() []object
	get  func(key string) (object, bool)
	// changed is the key of the object that a change of the collection is about, and its last form when it is gone;
	// false for a change that is about none.
	changed func(subscribe.Change) (key string, last *object, ok bool)
	// permanent objects are never gone: they go back to what they were at first.
	permanent bool
	// within stands for any object of a namespace, for auth.May; nil where namespaces say nothing.
	within func(namespace string) auth.Object
	// create, update and remove are nil where that is not possible.
	create func(*Request, map[string]any) (object, error)
	update func(*Request, object, map[string]any) (object, error)
	remove func(*Request, object) error
}

// object is one Kubernetes object.
type object struct {
	// key is "<namespace>/<name>", or the name.
	key string
	// may is how auth.May knows it.
	may auth.Object
	// revision is the resourceVersion; 0 has a change give its own.
	revision int64
	content  map[string]any
	// cells are those of its row in a table, in the order of the columns.
	cells []any
	// cluster is the name of the cluster of a machine.
	cluster string
}

func (o object) metadata() map[string]any {
	m, _ := o.content["metadata"].(map[string]any)
	return m
}

// kept is the type of a Secret.
func (o object) kept() string {
	text, _ := o.content["type"].(string)
	return text
}

func (o object) text(field string) string {
	text, _ := o.metadata()[field].(string)
	return text
}

// matches says whether the object is one that is asked for.
func (o object) matches(q listing.Options) bool {
	if q.Namespace != "" && o.text("namespace") != q.Namespace {
		return false
	}
	if q.Fields != nil && !q.Fields.Matches(fields.Set{"metadata.name": o.text("name"), "metadata.namespace": o.text("namespace"), "spec.clusterName": o.cluster, "type": o.kept()}) {
		return false
	}
	if q.Labels == nil {
		return true
	}
	set := labels.Set{}
	switch all := o.metadata()["labels"].(type) {
	case map[string]string:
		set = all
	case map[string]any:
		for key, value := range all {
			set[key], _ = value.(string)
		}
	}
	return q.Labels.Matches(set)
}

// shows says whether the caller sees an object in lists and watches.
func (r *Resource) shows(who auth.Identity, o object) bool {
	if r.Of == auth.ProvisionedCluster || r.Of == auth.ClusterMachine {
		return auth.May(who, auth.ListAll, o.may) // there are roles by which one is read, and not all of them
	}
	return auth.May(who, auth.Get, o.may)
}

// visible is an object that the caller may see; other callers are answered as if it did not exist.
func (r *Resource) visible(c *route.Call, key string) (object, error) {
	o, ok := r.get(key)
	if !ok || !auth.May(c.Who, auth.Get, o.may) {
		return o, apierrors.NewNotFound(r.groupResource(), nameOf(key))
	}
	return o, nil
}

func (r *Resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Plural}
}

// forbidden is the answer to a caller who may see but not do this.
func (r *Resource) forbidden(c *route.Call, verb auth.Verb, name string) error {
	status := apierrors.NewForbidden(r.groupResource(), name, nil)
	status.ErrStatus.Message = r.Plural + "." + r.Group + " is forbidden: user " + c.Who.Username + " may not " + string(verb) + " it"
	if why := auth.Reserved(verb, auth.Object{Kind: r.Of, Key: name}); why != "" {
		status.ErrStatus.Message += ": " + why
	}
	return status
}

// key is that of the object which the path names.
func (r *Resource) key(c *route.Call) string {
	if r.Namespaced {
		return c.Param("namespace") + "/" + c.Param("name")
	}
	return c.Param("name")
}

func nameOf(key string) string {
	for i := len(key) - 1; i >= 0; i-- {
		if key[i] == '/' {
			return key[i+1:]
		}
	}
	return key
}

// Get is GET of an object.
func (r *Resource) Get(c *route.Call) (route.Answer, error) {
	shape, err := shapeOf(c.R)
	if err != nil {
		return route.Answer{}, err
	}
	o, err := r.visible(c, r.key(c))
	if err != nil {
		return route.Answer{}, err
	}
	c.SendPlain(http.StatusOK, r.present(shape, o, true))
	return route.Answer{}, nil
}

// Unknown is what is answered where the table has no row.
func Unknown(*route.Call) (route.Answer, error) {
	return route.Answer{}, listing.Refuse(http.StatusNotFound, metav1.StatusReasonNotFound,
		"the server could not find the requested resource: this is drover, which has clusters, machines, settings, users, roles, bindings and projects as Kubernetes objects and nothing else")
}

// Local is where the same API is found, too: as that of the cluster which the server runs in.
const Local = "/k8s/clusters/local"

// Elsewhere serves below Local what a handler serves at the root.
func Elsewhere(h route.Handler) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		c.R = c.R.Clone(c.Ctx())
		for _, path := range []*string{&c.R.URL.Path, &c.R.URL.RawPath} {
			*path = (*path)[min(len(*path), len(Local)):]
		}
		return h(c)
	}
}

// reviewed are the types that reviews are about: those of the table, and what package planapi has.
func (a *API) reviewed() []ReviewedType {
	all := []ReviewedType{
		{Plural: "secrets", Of: auth.PlanSecret, Verbs: []string{"get", "list", "patch", "update", "watch"}},
		{Plural: "secrets", Of: auth.SharedObject, Verbs: []string{"create", "delete", "get", "list", "patch", "update", "watch"}},
	}
	for _, r := range append([]*Resource{a.Clusters, a.Management, a.Settings, a.Machines, a.Namespaces}, a.OfPeople...) {
		all = append(all, ReviewedType{Group: r.Group, Plural: r.Plural, Of: r.Of, Verbs: r.Verbs, May: func(namespace, name string) auth.Object {
			key := name
			if r.Namespaced {
				key = namespace + "/" + name
			}
			if o, ok := r.get(key); ok && name != "" {
				return o.may
			}
			return r.in(namespace)
		}})
	}
	return all
}

// groups are those of directories that a user is in, as clusters know them.
func (a *API) groups(userID string) []string {
	d, _ := a.o.State.Users.Get(userID)
	return d.Value.Groups
}
