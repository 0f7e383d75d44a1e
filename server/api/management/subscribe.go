// Changes over a websocket: /v3/subscribe.

package management

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
)

// affected is a resource that a change is about.
type affected struct {
	kind *Kind
	id   string
	// removed is its last form when it is gone.
	removed *norman.Object
}

// affectedBy are the resources of /v3 that a change is about.
func (a *API) affectedBy(c *route.Call, change subscribe.Change) []affected {
	gone := func(o norman.Object) *norman.Object {
		if change.Removed == nil {
			return nil
		}
		return &o
	}
	switch change.Collection {
	case subscribe.Clusters:
		d, _, ok := subscribe.Of(change, a.State.Clusters)
		if !ok {
			return nil
		}
		cl := d.Value
		list := []affected{{a.kindOf("cluster"), cl.ID, gone(a.Clusters.object(cl, 0, c.URLs))}}
		if change.Created || change.Removed != nil {
			for _, builtin := range records.BuiltinProjects(cl) {
				p := ProjectObject(builtin, cl, c.URLs)
				list = append(list, affected{a.kindOf("project"), p.ID, gone(p)})
			}
		}
		return list
	case subscribe.Machines:
		d, _, ok := subscribe.Of(change, a.State.Machines)
		if !ok || d.Value.InFleet() {
			return nil
		}
		return []affected{{a.kindOf("node"), k8sobjects.NodeID(d.Value), gone(a.Nodes.object(d.Value))}}
	case subscribe.RegistrationTokens:
		t, _ := change.Removed.(records.RegistrationToken)
		if ofFleet(t) {
			return nil
		}
		return []affected{{a.kindOf("clusterRegistrationToken"), strings.Replace(change.Key, "/", ":", 1), gone(a.RegistrationTokens.object(t))}}
	case subscribe.Projects:
		if p, ok := change.Removed.(records.Project); ok {
			cl, _ := a.State.ClustersByID.First(p.ClusterID)
			return []affected{{a.kindOf("project"), p.ID, gone(ProjectObject(p, cl.Value, c.URLs))}}
		}
		return []affected{{a.kindOf("project"), strings.Replace(change.Key, "/", ":", 1), nil}}
	case subscribe.Settings:
		return []affected{{a.kindOf("setting"), change.Key, nil}} // gone from the store is back at the default
	case subscribe.Tokens:
		t, _ := change.Removed.(records.Token)
		return []affected{{a.kindOf("token"), change.Key, gone(a.Tokens.object(c, t))}}
	}
	var list []affected
	for _, k := range a.kinds {
		if k.Changed == nil {
			continue
		}
		if id, removed := k.Changed(c, change); id != "" {
			list = append(list, affected{k, id, removed})
		}
	}
	return list
}

// Subscribe is /v3/subscribe. The query selects types and, like a list, objects.
func (a *API) Subscribe(c *route.Call) (route.Answer, error) {
	c.SchemasAt("/v3")
	return a.subscribe(c, subAPI{}, "")
}

// SubscribeIn is Subscribe in the context of one cluster or project: there are that and what
// refers to it.
func (a *API) SubscribeIn(word string) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		sub, id, _, err := a.context(c, word)
		if err != nil {
			return route.Answer{}, err
		}
		return a.subscribe(c, sub, id)
	}
}

func (a *API) subscribe(c *route.Call, sub subAPI, id string) (route.Answer, error) {
	values := c.Query()
	values.Del("since") // says where to begin; it is a field of nodes, too
	var kinds []*Kind
	for _, k := range a.kinds {
		asked := len(values["resourceTypes"]) == 0 || slices.ContainsFunc(values["resourceTypes"], func(name string) bool { return a.kindOf(name) == k })
		if _, refers := k.Schema.Fields[sub.filter]; asked && (id == "" || refers || k == sub.kind) {
			kinds = append(kinds, k)
		}
	}
	if id != "" {
		values.Set(sub.filter, id)
	}
	if len(kinds) == 0 {
		return route.Answer{}, norman.Errorf(http.StatusNotFound, norman.NotFound, "none of the types asked for exists here")
	}
	err := a.Changes.Serve(c.W, c.R, subscribe.Viewer{Who: &c.Who, Before: &c.Before}, func(_ *subscribe.Session, rights *subscribe.Rights) func(subscribe.Change) []subscribe.Frame {
		return func(change subscribe.Change) []subscribe.Frame {
			var frames []subscribe.Frame
			for _, s := range a.affectedBy(c, change) {
				if !slices.Contains(kinds, s.kind) || s.kind == sub.kind && s.id != id {
					continue
				}
				if f, ok := a.frameOf(c, s, values); ok {
					frames = append(frames, f)
				}
			}
			if before, ok := rights.Changed(c.Who, change); ok {
				frames = append(frames, a.ofRights(c, before, kinds, values)...)
			}
			return frames
		}
	})
	return route.Answer{}, err
}

// ofRights are the resources that the caller sees by what changed of their rights, as they are, and those that they saw until
// then: of these they learn that they are not theirs to see any more, and nothing else.
func (a *API) ofRights(c *route.Call, before auth.Identity, kinds []*Kind, values url.Values) []subscribe.Frame {
	var frames []subscribe.Frame
	for _, k := range kinds {
		if k.Owner != nil {
			continue
		}
		for _, o := range k.List(c) {
			about := k.about(o)
			switch had, has := auth.May(before, auth.Get, about), auth.May(c.Who, auth.Get, about); {
			case had && !has:
				frames = append(frames, subscribe.Frame{Name: "resource.remove", Data: map[string]any{"id": o.ID, "type": k.Schema.ID}})
			case has && !had:
				if f, ok := a.frameOf(c, affected{kind: k, id: o.ID}, values); ok {
					frames = append(frames, f)
				}
			}
		}
	}
	return frames
}

// frameOf shows a resource as it is now, or its removal; nothing when the caller cannot
// see it or did not ask for it.
func (a *API) frameOf(c *route.Call, s affected, values url.Values) (subscribe.Frame, bool) {
	object, exists := s.kind.Get(c, s.id)
	name := "resource.change"
	if !exists {
		if s.removed == nil {
			return subscribe.Frame{}, false
		}
		object, name = *s.removed, "resource.remove"
	}
	about := s.kind.about(object)
	seen := auth.May(c.Who, auth.Get, about) || !exists && auth.May(c.Before, auth.Get, about)
	if !seen || !s.kind.Schema.Match(object, s.kind.Schema.ParseQuery(values).Conditions) {
		return subscribe.Frame{}, false
	}
	return subscribe.Frame{Name: name, Data: a.present(c, s.kind, object)}, true
}
