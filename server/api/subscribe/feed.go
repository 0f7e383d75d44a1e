// What the clients of all surfaces subscribe to: the changes of the store, in order, and
// how a request becomes a session that shows them.

package subscribe

import (
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Collections in the log of changes.
const (
	Clusters           = "clusters"
	Machines           = "machines"
	Operations         = "operations"
	RegistrationTokens = "registrationtokens"
	Settings           = "settings"
	Tokens             = "tokens"
	Users              = "users"
	GlobalRoles        = "globalroles"
	RoleTemplates      = "roletemplates"
	Bindings           = "bindings"
	Projects           = "projects"
	Preferences        = "preferences"
	Fleets             = "fleets"
	Snapshots          = "snapshots"
	RKEStates          = "rkestates"
	Objects            = "objects"
)

// OfRights are the collections of whose changes a user may see more or less.
func OfRights() []string { return []string{Users, GlobalRoles, RoleTemplates, Bindings} }

// Rights are what a session's caller may see and might see until then. Who the caller is, is asked of the state, which may be ahead of the
// changes that are being shown.
type Rights struct {
	newest func() int64
	// known is who the caller was, the latest last, with the revision that the state had at most when that was asked.
	known []identityAt
}

type identityAt struct {
	auth.Identity
	newest int64
}

// RightsOf are those of the caller now.
func (f *Feed) RightsOf(who auth.Identity) *Rights {
	return &Rights{f.state.Store.Newest, []identityAt{{Identity: who}}}
}

// Before is who the caller may have been before changes that are shown next: by their rights a client has what these changes take away. A right
// that goes in the same transaction as an object, or until the object's removal is shown, still says that the client has seen it.
func (r *Rights) Before(changes []Change) auth.Identity {
	for len(r.known) > 1 && changes[0].Revision > r.known[1].newest {
		r.known = r.known[1:]
	}
	before := r.known[0].Identity
	for _, k := range r.known[1:] {
		before.Grants, before.Admin = before.Grants.And(k.Grants), before.Admin || k.Admin
	}
	return before
}

// Changed says whether the caller sees more or less since a change, and who they were until then. Changes that were taken together
// are answered once.
func (r *Rights) Changed(now auth.Identity, change Change) (before auth.Identity, ok bool) {
	before = r.known[len(r.known)-1].Identity
	if !slices.Contains(OfRights(), change.Collection) || now.Grants.Contain(before.Grants) && before.Grants.Contain(now.Grants) {
		return before, false
	}
	r.known = append(r.known, identityAt{now, r.newest()})
	return before, true
}

// Feed is the log of changes and what sessions need beside it.
type Feed struct {
	*Log
	state *state.State
	auth  *auth.Auth
	ping  time.Duration
	log   *slog.Logger
	stop  []func()
	// kept is what is kept of the last values of what is removed, by collection.
	kept  map[string]func(any) any
	began int64
}

// NewFeed follows the state from now on; Close ends that. A subscriber hears something
// every ping at least.
func NewFeed(s *state.State, a *auth.Auth, ping time.Duration, now func() time.Time, log *slog.Logger) *Feed {
	f := &Feed{Log: NewLog(now), state: s, auth: a, ping: ping, log: log, kept: map[string]func(any) any{}}
	// The store calls observers of all collections from one goroutine, so that the log is in
	// the order of revisions. Of what is too large to be kept for a while after it is gone the last value is never asked for.
	follow(f, Clusters, s.Clusters, whole)
	follow(f, Machines, s.Machines, whole)
	follow(f, Operations, s.Operations, nil)
	follow(f, RegistrationTokens, s.RegistrationTokens, whole)
	follow(f, Settings, s.Settings, whole)
	follow(f, Tokens, s.Tokens, whole)
	follow(f, Users, s.Users, whole)
	follow(f, GlobalRoles, s.GlobalRoles, whole)
	follow(f, RoleTemplates, s.RoleTemplates, whole)
	follow(f, Projects, s.Projects, whole)
	follow(f, Bindings, s.Bindings, whole)
	follow(f, Preferences, s.Preferences, whole)
	follow(f, Fleets, s.Fleets, nil)
	follow(f, Snapshots, s.Snapshots, func(one records.Snapshot) any {
		one.Spec = clusterspec.Spec{} // large, and not shown of a snapshot that was removed
		return one
	})
	follow(f, RKEStates, s.RKEStates, nil)
	follow(f, Objects, s.Objects, func(o objects.Object) any {
		o.Data = nil // values are not kept for a while after they are gone
		return o
	})
	f.began = s.Store.Revision()
	f.Log.Begin(f.began)
	return f
}

// whole keeps the last value of what is removed.
func whole[T any](last T) any { return last }

// follow adds the changes of a collection to the log. kept is what is kept of the last value of what is removed; nil is nothing.
func follow[T any](f *Feed, collection string, in *store.Collection[T], kept func(T) any) {
	last := func(value any) any {
		if v, ok := value.(T); ok && kept != nil {
			return kept(v)
		}
		return nil
	}
	f.kept[collection] = last
	f.stop = append(f.stop, in.Observe(func(e store.Event[T]) {
		c := Change{Revision: e.Revision, Collection: collection, Key: e.Key, Created: e.Old == nil}
		if e.Type == store.Deleted {
			c.Removed = last(e.Value)
		}
		f.Log.Add(c)
	}))
}

// Recall takes what changed before the feed began and after a revision, so that clients which followed an earlier server go on where they were.
func (f *Feed) Recall(past []store.PastChange, after int64) {
	var changes []Change
	for _, p := range past {
		if kept := f.kept[p.Collection]; kept != nil && p.Revision <= f.began {
			changes = append(changes, Change{Revision: p.Revision, Collection: p.Collection, Key: p.Key, Created: p.Created, Removed: kept(p.Removed)})
		}
	}
	f.Log.Recall(changes, after)
}

// SameRights says that nothing since a place in the log concerns what the caller may see. What came or went by rights while a client was away is not among the
// changes, so that the client has to list anew.
func (f *Feed) SameRights(from Cursor, who auth.Identity) bool {
	for {
		changes, after, _, _, ok := f.Next(from)
		if slices.ContainsFunc(changes, func(c Change) bool { return f.concerns(c, who) }) {
			return false
		}
		if from = after; len(changes) == 0 {
			return ok
		}
	}
}

// concerns says that a change may change what the caller sees.
func (f *Feed) concerns(c Change, who auth.Identity) bool {
	switch c.Collection {
	case Users:
		return c.Key == who.UserID
	case Bindings:
		user, _ := f.state.Users.Get(who.UserID)
		d, _, ok := Of(c, f.state.Bindings)
		return ok && slices.Contains(user.Value.Principals(), d.Value.Principal()) && !(who.Admin && d.Value.ClusterID != "")
	}
	return c.Collection == GlobalRoles || c.Collection == RoleTemplates
}

// Close stops following the state.
func (f *Feed) Close() {
	for _, stop := range f.stop {
		stop()
	}
}

// Viewer is the caller whom a session shows changes to.
type Viewer struct {
	// Who is the caller now, which is looked at again before each change is shown.
	Who *auth.Identity
	// Before is the caller as they were before the changes that are being shown.
	Before *auth.Identity
}

// Serve makes the request a websocket and serves it until it ends. The error is a *norman.Error: the request is not a websocket, or its parameter since is not a
// revision.
func (f *Feed) Serve(w http.ResponseWriter, r *http.Request, v Viewer, show func(*Session, *Rights) func(Change) []Frame) error {
	if r.ProtoMajor != 1 || !IsUpgrade(r) {
		if r.ProtoMajor == 1 { // HTTP/2 has no such header, and clients end the connection over it
			w.Header().Set("Upgrade", "websocket")
		}
		return norman.Errorf(http.StatusUpgradeRequired, "UpgradeRequired",
			"this is a websocket: ask over HTTP/1.1 with the headers Connection: Upgrade and Upgrade: websocket")
	}
	s := &Session{Log: f.Log, From: f.Log.Now(), Ping: f.ping}
	if since := r.URL.Query().Get("since"); since != "" {
		revision, err := strconv.ParseInt(since, 10, 64)
		if err != nil {
			return norman.Invalid(norman.InvalidFormat, "since", "%.40q is not a revision", since)
		}
		from, ok := f.Log.Since(revision)
		s.From, s.Lost = from, !ok || !f.SameRights(from, *v.Who)
	}
	first := *v.Who
	s.Alive = func() error {
		who, err := f.auth.Authenticate(r)
		if err != nil {
			return &EndError{Code: CloseExpired, Reason: "the token is no longer valid"}
		}
		if auth.Lost(first, who) {
			return &EndError{Code: CloseDenied, Reason: "access was lost"}
		}
		*v.Who = who
		return nil
	}
	rights := f.RightsOf(first)
	*v.Before = first
	s.Batch = func(changes []Change) { *v.Before = rights.Before(changes) }
	over := make(chan struct{})
	defer f.auth.Until(*v.Who, nil, func() { close(over) })()
	s.Over = over
	s.Show = show(s, rights)
	conn, err := Upgrade(w, r)
	if err != nil {
		f.log.Debug("websocket refused", "error", err)
		return nil
	}
	s.Conn = conn
	if err := s.Run(r.Context()); err != nil {
		f.log.Debug("websocket ended", "error", err)
	}
	return nil
}
