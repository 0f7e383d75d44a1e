// Changes over a websocket: /v1/subscribe.

package steve

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// selection is what a client of /v1/subscribe asks for.
type selection struct {
	ResourceType    string `json:"resourceType"`
	Namespace       string `json:"namespace"`
	ID              string `json:"id"`
	Selector        string `json:"selector"`
	ResourceVersion string `json:"resourceVersion"`
	Stop            bool   `json:"stop"`
}

func (s selection) sameAs(o selection) bool {
	return s.ResourceType == o.ResourceType && s.Namespace == o.Namespace && s.ID == o.ID && s.Selector == o.Selector
}

func (s selection) frame(name string, data any) subscribe.Frame {
	return subscribe.Frame{Name: name, ResourceType: s.ResourceType, Namespace: s.Namespace, ID: s.ID, Data: data}
}

// maxSelections bounds what one client can watch at once.
const maxSelections = 100

// Subscribe is /v1/subscribe: the client says with frames what it wants to see.
func (a *API) Subscribe(call *route.Call) (route.Answer, error) {
	c := a.start(call)
	var watched []selection
	err := a.Changes.Serve(call.W, call.R, subscribe.Viewer{Who: &call.Who, Before: &call.Before}, func(s *subscribe.Session, rights *subscribe.Rights) func(subscribe.Change) []subscribe.Frame {
		s.Receive = func(data []byte) []subscribe.Frame {
			var frames []subscribe.Frame
			watched, frames = a.choose(c, watched, data)
			return frames
		}
		return func(change subscribe.Change) []subscribe.Frame {
			before, changed := rights.Changed(call.Who, change)
			var frames []subscribe.Frame
			for _, w := range watched {
				if frames = append(frames, a.frames(c, w, change)...); changed {
					frames = append(frames, a.ofRights(c, before, w)...)
				}
			}
			return frames
		}
	})
	return route.Answer{}, err
}

func (a *API) choose(c *Request, watched []selection, data []byte) ([]selection, []subscribe.Frame) {
	var asked selection
	if err := json.Unmarshal(data, &asked); err != nil {
		return watched, []subscribe.Frame{asked.frame("resource.error", map[string]string{"error": "this frame is not a JSON object"})}
	}
	at := slices.IndexFunc(watched, asked.sameAs)
	switch {
	case asked.Stop:
		if at >= 0 {
			watched = slices.Delete(watched, at, at+1)
		}
		return watched, []subscribe.Frame{asked.frame("resource.stop", nil)}
	case a.usable(c, asked.ResourceType) == nil:
		return watched, []subscribe.Frame{asked.frame("resource.error", map[string]string{"error": "there is no type " + strconv.Quote(asked.ResourceType)})}
	case asked.Selector != "":
		return watched, []subscribe.Frame{asked.frame("resource.error", map[string]string{"error": "selectors are not supported"})}
	case at >= 0:
		return watched, nil
	case len(watched) >= maxSelections:
		return watched, []subscribe.Frame{asked.frame("resource.error", map[string]string{"error": "too many types are watched"})}
	}
	watched = append(watched, asked)
	frames := []subscribe.Frame{asked.frame("resource.start", nil)}
	return watched, append(frames, a.replay(c, asked)...)
}

// replay shows what changed after the version that the client listed.
func (a *API) replay(c *Request, asked selection) []subscribe.Frame {
	revision, err := strconv.ParseInt(asked.ResourceVersion, 10, 64)
	if err != nil || revision == 0 {
		return nil
	}
	cursor, ok := a.Changes.Since(revision)
	if listed, _ := a.Changes.After(revision); !a.Changes.SameRights(listed, c.Who) {
		ok = false
	}
	var frames []subscribe.Frame
	for ok {
		var changes []subscribe.Change
		changes, cursor, _, _, ok = a.Changes.Next(cursor)
		if ok && len(changes) == 0 {
			return frames
		}
		for _, change := range changes {
			for _, f := range a.frames(c, asked, change) {
				f.Revision = strconv.FormatInt(change.Revision, 10)
				frames = append(frames, f)
			}
		}
	}
	return []subscribe.Frame{asked.frame("resource.error", map[string]string{"error": "the resourceVersion is too old, or what you may see has changed since: list again"})}
}

// frames is a change as one selection sees it.
func (a *API) frames(c *Request, w selection, change subscribe.Change) []subscribe.Frame {
	k := a.usable(c, w.ResourceType)
	if k == nil {
		return nil
	}
	id, object, exists := a.changed(c, k, change)
	if id == "" || w.ID != "" && w.ID != id || w.Namespace != "" && !strings.HasPrefix(id, w.Namespace+"/") {
		return nil
	}
	switch {
	case !exists && object == nil:
		return nil
	case !exists:
		return []subscribe.Frame{w.frame("resource.remove", c.present(k, object))}
	case change.Created:
		return []subscribe.Frame{w.frame("resource.create", c.present(k, object))}
	}
	return []subscribe.Frame{w.frame("resource.change", c.present(k, object))}
}

// changed is the object of a type that a change is about: as it is now, or its last
// form when it is gone.
func (a *API) changed(c *Request, k *kind, change subscribe.Change) (id string, o Object, exists bool) {
	if k.other != nil {
		return k.other.changed(c, k, change)
	}
	var last Object
	switch plural := k.schema.Plural(); {
	case change.Collection == subscribe.Machines && plural == "cluster.x-k8s.io.machines":
		id = change.Key
		if m, ok := change.Removed.(records.Machine); ok && !m.InFleet() {
			last = machineObject(store.Document[records.Machine]{Key: change.Key, Revision: change.Revision, Value: m})
		}
	case change.Collection == subscribe.Clusters && plural != "cluster.x-k8s.io.machines":
		d, gone, ok := subscribe.Of(change, a.State.Clusters)
		if !ok {
			return "", nil, false
		}
		id = change.Key
		if k.schema.Group == "management.cattle.io" {
			id = d.Value.ID
		}
		if gone && k.schema.Group == "management.cattle.io" {
			last = c.managementObject(d, 0)
		} else if gone {
			last = provisioningObject(d, 0)
		}
	default:
		return "", nil, false
	}
	if o, ok := k.get(c, id); ok {
		return id, o, true
	}
	if last != nil && !k.mayIn(c.Who, auth.Get, removedFrom(change)) && !k.mayIn(c.Before, auth.Get, removedFrom(change)) {
		return "", nil, false
	}
	return id, last, false
}

// removedFrom is the id of the cluster that something was in which is gone.
func removedFrom(change subscribe.Change) string {
	switch was := change.Removed.(type) {
	case records.Cluster:
		return was.ID
	case records.Machine:
		return was.ClusterID
	}
	return ""
}

// usable is a type that the caller may do something with, by its name.
func (a *API) usable(c *Request, name string) *kind {
	k := a.kindOf(name)
	if k == nil {
		return nil
	}
	if _, ok := k.methods(c.Who); !ok {
		return nil
	}
	return k
}
