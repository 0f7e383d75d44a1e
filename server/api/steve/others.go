// Types that other packages have: users, roles, bindings, projects, settings, nodes, tokens, preferences and features. /v1 shows
// them; they are changed over /v3, and some as objects of Kubernetes.

package steve

import (
	"net/http"
	"strings"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
)

// Type is a type of another package.
type Type struct {
	Schema Schema
	// Of is what auth.May knows the objects by, Collection where their changes are found in the feed; "" asks Changed about those of
	// all.
	Of         auth.Kind
	Collection string
	// Own says that everybody may list objects of the type, and sees their own alone.
	Own bool
	// Reveals says that the objects have what opens a host or a cluster: the audit log has each use.
	Reveals bool
	// List is in the order of the ids, which are "<namespace>/<name>" or "<name>".
	List func() []Seen
	Get  func(id string) (Seen, bool)
	// Update does what the body of a PUT asks for; nil where objects are not changed over /v1.
	Update func(c *route.Call, id string, body []byte) error
	// Changed is the object that a change of the collection is about, with its last form when it is gone; false is none.
	Changed func(subscribe.Change) (id string, last *Seen, ok bool)
}

// Seen is an object, and how auth.May knows it.
type Seen struct {
	About   auth.Object
	Content map[string]any
	// State is k8sobjects.Well where it is not given.
	State k8sobjects.Summary
}

// kindOfOthers is the kind of such a type.
func kindOfOthers(t Type) *kind {
	shown := func(s Seen) Object {
		if s.State == (k8sobjects.Summary{}) {
			s.State = k8sobjects.Well()
		}
		return withState(s.Content, s.State)
	}
	return &kind{
		schema: t.Schema, of: t.Of, cluster: func(Object) string { return "" }, other: &t,
		list: func(c *Request) []Object {
			objects := []Object{}
			for _, s := range t.List() {
				if auth.May(c.Who, auth.Get, s.About) {
					objects = append(objects, shown(s))
				}
			}
			return objects
		},
		get: func(c *Request, id string) (Object, bool) {
			s, ok := t.Get(id)
			if !ok || !auth.May(c.Who, auth.Get, s.About) {
				return nil, false
			}
			return shown(s), true
		},
	}
}

// UpdateOther is PUT of an object of such a type.
func UpdateOther(c *Request) (route.Answer, error) {
	data, err := c.body()
	if err != nil {
		return route.Answer{}, err
	}
	if _, ok := c.kind.get(c, c.id); !ok {
		return route.Answer{}, norman.Missing(c.kind.schema.ID(), c.id)
	}
	if err := c.kind.other.Update(c.Call, c.id, data); err != nil {
		return route.Answer{}, err
	}
	o, ok := c.kind.get(c, c.id)
	if !ok {
		return route.Answer{}, norman.Missing(c.kind.schema.ID(), c.id)
	}
	return route.Answer{Status: http.StatusOK, Body: c.present(c.kind, o)}, nil
}

// SelfUser is POST of /v1/ext.cattle.io.selfusers: who asks. Dashboards ask it first after a login.
// Wire source: rancher/rancher pkg/apis/ext.cattle.io/v1 (SelfUser).
func SelfUser(call *route.Call) (route.Answer, error) {
	call.SchemasAt("/v1")
	return route.Answer{Status: http.StatusCreated, Body: map[string]any{
		"id": call.Who.UserID, "type": "ext.cattle.io.selfuser", "apiVersion": "ext.cattle.io/v1", "kind": "SelfUser",
		"metadata": map[string]any{}, "status": map[string]string{"userID": call.Who.UserID}, "links": map[string]string{}, "actions": map[string]string{},
	}}, nil
}

// changed is the object that a change is about, as API.changed has it.
func (t *Type) changed(c *Request, k *kind, change subscribe.Change) (id string, o Object, exists bool) {
	if t.Collection != "" && change.Collection != t.Collection {
		return "", nil, false
	}
	id, last, ok := t.Changed(change)
	if !ok {
		return "", nil, false
	}
	if o, ok := k.get(c, id); ok {
		return id, o, true
	}
	if last == nil || !auth.May(c.Who, auth.Get, last.About) && !auth.May(c.Before, auth.Get, last.About) {
		return "", nil, false
	}
	return id, withState(last.Content, k8sobjects.NewSummary("removed", "no", "")), false
}

// ofRights are the objects that the caller sees by what changed of their rights, as they are, and those that they saw until
// then: of these they learn that they are not theirs to see any more, and nothing else.
func (a *API) ofRights(c *Request, who auth.Identity, w selection) []subscribe.Frame {
	k := a.kindOf(w.ResourceType)
	if k == nil {
		return nil
	}
	earlier := *c.Call
	earlier.Who = who
	before := &Request{Call: &earlier, base: c.base, kind: k}
	chosen := func(o Object) bool {
		id := k.id(o)
		return (w.ID == "" || w.ID == id) && (w.Namespace == "" || strings.HasPrefix(id, w.Namespace+"/"))
	}
	var frames []subscribe.Frame
	for _, o := range k.list(before) {
		if _, still := k.get(c, k.id(o)); !still && chosen(o) {
			frames = append(frames, w.frame("resource.remove", map[string]any{"id": k.id(o), "type": k.schema.ID()}))
		}
	}
	for _, o := range k.list(c) {
		if _, had := k.get(before, k.id(o)); !had && chosen(o) {
			frames = append(frames, w.frame("resource.create", c.present(k, o)))
		}
	}
	return frames
}
