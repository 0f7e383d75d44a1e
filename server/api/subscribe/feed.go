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
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
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

// Rights is what a session's caller might see when they were last shown all of it.
type Rights struct{ shown auth.Identity }

// RightsOf are those of the caller now.
func RightsOf(who auth.Identity) Rights { return Rights{shown: who} }

// Changed says whether the caller sees more or less since a change, and who they were before it. Changes that were taken together
// are answered once.
func (r *Rights) Changed(now auth.Identity, change Change) (before auth.Identity, ok bool) {
	before = r.shown
	if !slices.Contains(OfRights(), change.Collection) {
		return before, false
	}
	r.shown = now
	return before, !now.Grants.Contain(before.Grants) || !before.Grants.Contain(now.Grants)
}

// Feed is the log of changes and what sessions need beside it.
type Feed struct {
	*Log
	auth *auth.Auth
	ping time.Duration
	log  *slog.Logger
	stop []func()
}

// NewFeed follows the state from now on; Close ends that. A subscriber hears something
// every ping at least.
func NewFeed(s *state.State, a *auth.Auth, ping time.Duration, now func() time.Time, log *slog.Logger) *Feed {
	f := &Feed{Log: NewLog(now), auth: a, ping: ping, log: log}
	// The store calls observers of all collections from one goroutine, so that the log is in
	// the order of revisions.
	f.stop = []func(){
		s.Clusters.Observe(adding[records.Cluster](f.Log, Clusters)),
		s.Machines.Observe(adding[records.Machine](f.Log, Machines)),
		s.Operations.Observe(addingKeys[operations.Operation](f.Log, Operations)),
		s.RegistrationTokens.Observe(adding[records.RegistrationToken](f.Log, RegistrationTokens)),
		s.Settings.Observe(adding[records.Setting](f.Log, Settings)),
		s.Tokens.Observe(adding[records.Token](f.Log, Tokens)),
		s.Users.Observe(adding[records.User](f.Log, Users)),
		s.GlobalRoles.Observe(adding[roles.Role](f.Log, GlobalRoles)),
		s.RoleTemplates.Observe(adding[roles.Role](f.Log, RoleTemplates)),
		s.Projects.Observe(adding[records.Project](f.Log, Projects)),
		s.Bindings.Observe(adding[roles.Binding](f.Log, Bindings)),
		s.Preferences.Observe(adding[records.Preference](f.Log, Preferences)),
		s.Fleets.Observe(addingKeys[records.Fleet](f.Log, Fleets)),
		s.Snapshots.Observe(func(e store.Event[records.Snapshot]) {
			e.Value.Spec = clusterspec.Spec{} // large, and not shown of a snapshot that was removed
			adding[records.Snapshot](f.Log, Snapshots)(e)
		}),
		s.RKEStates.Observe(addingKeys[records.RKEState](f.Log, RKEStates)),
		s.Objects.Observe(func(e store.Event[objects.Object]) {
			e.Value.Data = nil // values are not kept for a while after they are gone
			adding[objects.Object](f.Log, Objects)(e)
		}),
	}
	f.Log.Begin(s.Store.Revision())
	return f
}

// Close stops following the state.
func (f *Feed) Close() {
	for _, stop := range f.stop {
		stop()
	}
}

func adding[T any](l *Log, collection string) func(store.Event[T]) {
	return func(e store.Event[T]) {
		c := Change{Revision: e.Revision, Collection: collection, Key: e.Key, Created: e.Old == nil}
		if e.Type == store.Deleted {
			c.Removed = e.Value
		}
		l.Add(c)
	}
}

// addingKeys is adding for things whose last values are never asked for and that are too large to
// be kept for a while after they are gone.
func addingKeys[T any](l *Log, collection string) func(store.Event[T]) {
	return func(e store.Event[T]) {
		l.Add(Change{Revision: e.Revision, Collection: collection, Key: e.Key, Created: e.Old == nil})
	}
}

// Viewer is the caller whom a session shows changes to.
type Viewer struct {
	// Who is the caller now, which is looked at again before each change is shown.
	Who *auth.Identity
	// Before is the caller as they were before the changes that are being shown.
	Before *auth.Identity
}

// Serve makes the request a websocket and serves it to its end. The error is that of norman for a request that is no websocket, or that is to begin
// at what is no revision.
func (f *Feed) Serve(w http.ResponseWriter, r *http.Request, v Viewer, show func(*Session) func(Change) []Frame) error {
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
		s.From, s.Lost = from, !ok
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
	remember(s, v)
	over := make(chan struct{})
	defer f.auth.Until(*v.Who, nil, func() { close(over) })()
	s.Over = over
	s.Show = show(s)
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

// remember keeps what the caller might do before the changes that are being shown: a right that goes
// in the same transaction as its object, or just before it is shown, still says that the client has
// seen the object. What one transaction changed may come in two batches.
func remember(s *Session, v Viewer) {
	shown, last := *v.Who, int64(0)
	*v.Before = *v.Who
	s.Batch = func(revision int64, done bool) {
		switch {
		case done:
			shown, last = *v.Who, revision
		case revision > last:
			*v.Before = shown
		}
	}
}
