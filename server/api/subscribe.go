// Changes over websockets: /v3/subscribe and /v1/subscribe.

package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/steve"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Collections in the log of changes.
const (
	ofClusters           = "clusters"
	ofMachines           = "machines"
	ofRegistrationTokens = "registrationtokens"
	ofSettings           = "settings"
	ofTokens             = "tokens"
	ofUsers              = "users"
)

// observe fills the log. The store calls observers of all collections from one
// goroutine, so that the log is in the order of revisions.
func (a *API) observe() {
	s := a.State
	a.stop = append(a.stop,
		s.Clusters.Observe(noting[records.Cluster](a.log, ofClusters)),
		s.Machines.Observe(noting[records.Machine](a.log, ofMachines)),
		s.RegistrationTokens.Observe(noting[records.RegistrationToken](a.log, ofRegistrationTokens)),
		s.Settings.Observe(noting[records.Setting](a.log, ofSettings)),
		s.Tokens.Observe(noting[records.Token](a.log, ofTokens)),
		s.Users.Observe(noting[records.User](a.log, ofUsers)),
	)
	a.log.Begin(s.Store.Revision())
}

func noting[T any](l *subscribe.Log, collection string) func(store.Event[T]) {
	return func(e store.Event[T]) {
		c := subscribe.Change{Revision: e.Revision, Collection: collection, Key: e.Key, Created: e.Old == nil}
		if e.Type == store.Deleted {
			c.Removed = e.Value
		}
		l.Add(c)
	}
}

// shown is a resource that a change is about.
type shown struct {
	kind *kind
	id   string
	// removed is its last form when it is gone.
	removed *norman.Object
}

// affected are the resources of /v3 that a change is about.
func (a *API) affected(c *call, change subscribe.Change) []shown {
	gone := func(o norman.Object) *norman.Object {
		if change.Removed == nil {
			return nil
		}
		return &o
	}
	switch change.Collection {
	case ofClusters:
		cl, ok := change.Removed.(records.Cluster)
		if !ok {
			d, exists := a.State.Clusters.Get(change.Key)
			if !exists {
				return nil
			}
			cl = d.Value
		}
		list := []shown{{a.kindOf("cluster"), cl.ID, gone(clusterObject(cl, 0, c.urls))}}
		if change.Created || change.Removed != nil {
			for _, p := range projectObjects(cl, c.urls) {
				list = append(list, shown{a.kindOf("project"), p.ID, gone(p)})
			}
		}
		return list
	case ofMachines:
		m, ok := change.Removed.(records.Machine)
		if !ok {
			d, exists := a.State.Machines.Get(change.Key)
			if !exists {
				return nil
			}
			m = d.Value
		}
		return []shown{{a.kindOf("node"), nodeID(m), gone(nodeObject(m))}}
	case ofRegistrationTokens:
		t, _ := change.Removed.(records.RegistrationToken)
		return []shown{{a.kindOf("clusterRegistrationToken"), strings.Replace(change.Key, "/", ":", 1), gone(a.registrationTokenObject(t))}}
	case ofSettings:
		return []shown{{a.kindOf("setting"), change.Key, nil}} // gone from the store is back at the default
	case ofTokens:
		t, _ := change.Removed.(records.Token)
		return []shown{{a.kindOf("token"), change.Key, gone(a.tokenObject(c, t))}}
	case ofUsers:
		u, _ := change.Removed.(records.User)
		return []shown{{a.kindOf("user"), change.Key, gone(userObject(c, u))}}
	}
	return nil
}

// subscribeNorman is /v3/subscribe. The query selects types and, like a list, objects.
// In the context of one cluster or project there are that and what refers to it.
func (a *API) subscribeNorman(c *call, sub subAPI, id string) {
	values := c.query()
	values.Del("since") // says where to begin; it is a field of nodes, too
	var kinds []*kind
	for _, k := range a.kinds {
		asked := len(values["resourceTypes"]) == 0 || slices.ContainsFunc(values["resourceTypes"], func(name string) bool { return a.kindOf(name) == k })
		if _, refers := k.schema.Fields[sub.filter]; asked && (id == "" || refers || k == sub.kind) {
			kinds = append(kinds, k)
		}
	}
	if id != "" {
		values.Set(sub.filter, id)
	}
	if len(kinds) == 0 {
		c.fail(norman.Errorf(http.StatusNotFound, norman.NotFound, "none of the types asked for exists here"))
		return
	}
	a.stream(c, func(*subscribe.Session) func(subscribe.Change) []subscribe.Frame {
		return func(change subscribe.Change) []subscribe.Frame {
			var frames []subscribe.Frame
			for _, s := range a.affected(c, change) {
				if !slices.Contains(kinds, s.kind) || s.kind == sub.kind && s.id != id {
					continue
				}
				if f, ok := a.frameOf(c, s, values); ok {
					frames = append(frames, f)
				}
			}
			return frames
		}
	})
}

// frameOf shows a resource as it is now, or its removal; nothing when the caller cannot
// see it or did not ask for it.
func (a *API) frameOf(c *call, s shown, values url.Values) (subscribe.Frame, bool) {
	object, exists := s.kind.get(c, s.id)
	name := "resource.change"
	if !exists {
		if s.removed == nil || !c.sawRemoved(s) {
			return subscribe.Frame{}, false
		}
		object, name = *s.removed, "resource.remove"
	}
	if !s.kind.schema.Match(object, s.kind.schema.ParseQuery(values).Conditions) {
		return subscribe.Frame{}, false
	}
	return subscribe.Frame{Name: name, Data: c.present(s.kind, object)}, true
}

// sawRemoved says whether the caller could see what is gone.
func (c *call) sawRemoved(s shown) bool {
	if c.who.Admin {
		return true
	}
	switch s.kind.schema.ID {
	case "token":
		return s.removed.Fields["userId"] == c.who.UserID
	case "user":
		return s.id == c.who.UserID
	}
	return false
}

// stream makes the request a websocket and serves it to its end. The identity is
// looked at again before each change is shown.
func (a *API) stream(c *call, show func(*subscribe.Session) func(subscribe.Change) []subscribe.Frame) {
	if c.r.ProtoMajor != 1 || !subscribe.IsUpgrade(c.r) {
		if c.r.ProtoMajor == 1 { // HTTP/2 has no such header, and clients end the connection over it
			c.w.Header().Set("Upgrade", "websocket")
		}
		c.fail(norman.Errorf(http.StatusUpgradeRequired, "UpgradeRequired",
			"this is a websocket: ask over HTTP/1.1 with the headers Connection: Upgrade and Upgrade: websocket"))
		return
	}
	s := &subscribe.Session{Log: a.log, From: a.log.Now(), Ping: a.Ping}
	if since := c.query().Get("since"); since != "" {
		revision, err := strconv.ParseInt(since, 10, 64)
		if err != nil {
			c.fail(norman.Invalid(norman.InvalidFormat, "since", "%.40q is not a revision", since))
			return
		}
		from, ok := a.log.Since(revision)
		s.From, s.Lost = from, !ok
	}
	admin := c.who.Admin
	s.Alive = func() error {
		who, err := a.Auth.Authenticate(c.r)
		if err != nil {
			return &subscribe.EndError{Code: subscribe.CloseExpired, Reason: "the token is no longer valid"}
		}
		if admin && !who.Admin {
			return &subscribe.EndError{Code: subscribe.CloseDenied, Reason: "access was lost"}
		}
		c.who = who
		return nil
	}
	s.Show = show(s)
	conn, err := subscribe.Upgrade(c.w, c.r)
	if err != nil {
		a.Logger.Debug("websocket refused", "error", err)
		return
	}
	s.Conn = conn
	if err := s.Run(c.ctx()); err != nil {
		a.Logger.Debug("websocket ended", "error", err)
	}
}

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

// subscribeSteve is /v1/subscribe: the client says with frames what it wants to see.
func (a *API) subscribeSteve(c *steveCall) {
	var watched []selection
	a.stream(c.call, func(s *subscribe.Session) func(subscribe.Change) []subscribe.Frame {
		s.Receive = func(data []byte) []subscribe.Frame {
			var frames []subscribe.Frame
			watched, frames = a.selectSteve(c, watched, data)
			return frames
		}
		return func(change subscribe.Change) []subscribe.Frame {
			var frames []subscribe.Frame
			for _, w := range watched {
				frames = append(frames, a.steveFrames(c, w, change)...)
			}
			return frames
		}
	})
}

func (a *API) selectSteve(c *steveCall, watched []selection, data []byte) ([]selection, []subscribe.Frame) {
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
	case a.steveKindOf(c.who, asked.ResourceType) == nil:
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
	return watched, append(frames, a.steveReplay(c, asked)...)
}

// steveReplay shows what changed after the version that the client listed.
func (a *API) steveReplay(c *steveCall, asked selection) []subscribe.Frame {
	revision, err := strconv.ParseInt(asked.ResourceVersion, 10, 64)
	if err != nil || revision == 0 {
		return nil
	}
	cursor, ok := a.log.Since(revision)
	var frames []subscribe.Frame
	for ok {
		var changes []subscribe.Change
		changes, cursor, _, _, ok = a.log.Next(cursor)
		if ok && len(changes) == 0 {
			return frames
		}
		for _, change := range changes {
			for _, f := range a.steveFrames(c, asked, change) {
				f.Revision = strconv.FormatInt(change.Revision, 10)
				frames = append(frames, f)
			}
		}
	}
	return []subscribe.Frame{asked.frame("resource.error", map[string]string{"error": "the resourceVersion is too old: list again"})}
}

// steveFrames is a change as one selection sees it.
func (a *API) steveFrames(c *steveCall, w selection, change subscribe.Change) []subscribe.Frame {
	k := a.steveKindOf(c.who, w.ResourceType)
	if k == nil {
		return nil
	}
	id, object, exists := a.steveChanged(c, k, change)
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

// steveChanged is the object of a type that a change is about: as it is now, or its last
// form when it is gone.
func (a *API) steveChanged(c *steveCall, k *steveKind, change subscribe.Change) (id string, o steve.Object, exists bool) {
	var last steve.Object
	switch plural := k.schema.Plural(); {
	case change.Collection == ofMachines && plural == "cluster.x-k8s.io.machines":
		id = change.Key
		if m, ok := change.Removed.(records.Machine); ok {
			last = machineObject(store.Document[records.Machine]{Key: change.Key, Revision: change.Revision, Value: m})
		}
	case change.Collection == ofClusters && plural != "cluster.x-k8s.io.machines":
		d := store.Document[records.Cluster]{Key: change.Key, Revision: change.Revision}
		removed, gone := change.Removed.(records.Cluster)
		d.Value = removed
		if !gone {
			current, ok := a.State.Clusters.Get(change.Key)
			if !ok {
				return "", nil, false
			}
			d = current
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
	return id, last, false
}
