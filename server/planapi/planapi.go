// Package planapi serves the part of the Kubernetes API that system agents use: the
// plan Secrets, read, watched and updated by their own machines, and by an
// administrator with kubectl. It is not a Kubernetes API server: everything else is
// answered with a sentence.
//
// Wire source: k8s.io/apiserver and client-go as rancher/system-agent uses them.
package planapi

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/discovery"
	"github.com/drover-project/drover/server/planapi/fanout"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
)

// Options are what an API stands on.
type Options struct {
	State *state.State
	// Machine finds the machine, "<namespace>/<name>", of a bearer token.
	Machine func(bearer string) (records.MachineKey, bool)
	// User is the user whose token a request carries; some may read and change plan Secrets.
	User func(r *http.Request) (auth.Identity, error)
	// Until calls end once the credential of a request is no longer valid, until stop is
	// called; nil is for tests whose credentials stay.
	Until func(r *http.Request, end func()) (stop func())
	// Now is the clock of what is stored; default time.Now.
	Now func() time.Time
	// Logger gets refusals and faults; default is to drop them.
	Logger *slog.Logger
	// Discovery is what the server has, the plan Secrets of Core and more; nil has those alone.
	Discovery *discovery.Documents
	// Heartbeat is the mean distance of bookmarks on an idle watch, spread by a third
	// both ways; default 45 s.
	Heartbeat time.Duration
}

// API serves plan Secrets.
type API struct {
	state     *state.State
	machine   func(string) (records.MachineKey, bool)
	user      func(*http.Request) (auth.Identity, error)
	until     func(*http.Request, func()) func()
	now       func() time.Time
	log       *slog.Logger
	hub       *fanout.Hub
	discovery *discovery.Documents
	answers   sync.Pool // of *[]byte
	bodies    sync.Pool // of *bytes.Buffer
	closeOnce sync.Once
}

// New makes an API that follows the store from now on; Close ends that.
func New(o Options) *API {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Until == nil {
		o.Until = func(*http.Request, func()) func() { return func() {} }
	}
	if o.Discovery == nil {
		o.Discovery = discovery.New(Core())
	}
	return &API{
		state:   o.State,
		machine: o.Machine,
		user:    o.User,
		until:   o.Until,
		now:     o.Now,

		discovery: o.Discovery,
		log:       o.Logger,
		hub: fanout.New(fanout.Options{
			Store: o.State.Store, Secrets: o.State.PlanSecrets, Encode: appendSecret, Now: o.Now, Heartbeat: o.Heartbeat, Logger: o.Logger,
		}),
	}
}

// Close ends all watches in order and waits until nothing of them runs any more. The
// HTTP server does not know of them: call Close before its Shutdown returns.
func (a *API) Close() { a.closeOnce.Do(a.hub.Close) }

// Hub has the watches that are open.
func (a *API) Hub() *fanout.Hub { return a.hub }

// Routes adds the paths. Each handler answers every method, so that all refusals have
// the form that Kubernetes clients read.
func (a *API) Routes(mux *http.ServeMux) {
	for path, f := range map[string]func(http.ResponseWriter, *http.Request) error{
		"/api/v1/namespaces":                            a.namespaces,
		"/api/v1/namespaces/{namespace}":                a.namespaces,
		"/api/v1/secrets":                               a.secrets,
		"/api/v1/namespaces/{namespace}/secrets":        a.secrets,
		"/api/v1/namespaces/{namespace}/secrets/{name}": a.secret,
		"/api/v1/":     a.unknown,
		"/version":     a.discover,
		"/api":         a.discover,
		"/api/v1":      a.discover,
		"/apis":        a.discover,
		"/apis/":       a.discover,
		"/openapi/v3":  a.discover,
		"/openapi/v3/": a.discover,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r); err != nil {
				a.refuse(w, r, err)
			}
		})
	}
}

// caller finds out who asks: a machine by its own token, or a user who may see all plan
// Secrets. Its error is a 401, and a 403 for a user who may not.
func (a *API) caller(r *http.Request) (auth.Identity, error) {
	if bearer, ok := bearerToken(r); ok {
		if key, ok := a.machine(bearer); ok {
			return auth.Identity{PlanSecret: key.PlanSecret()}, nil
		}
	}
	who, err := a.user(r)
	switch {
	case err != nil:
		return auth.Identity{}, unauthorized()
	case auth.ActsAs(r):
		return auth.Identity{}, refused("%s", auth.ActsAsRefusal)
	case !may(who, auth.List, ""):
		return auth.Identity{}, refused("user %s may not see the Secrets of this server, which are the plans of hosts", who.Username)
	}
	return who, nil
}

// may asks about a plan Secret; with the key "" about all of them.
func may(who auth.Identity, verb auth.Verb, key string) bool {
	return auth.May(who, verb, auth.Object{Kind: auth.PlanSecret, Key: key})
}

// bearerToken is the token of the Authorization header; the scheme is read in any case.
func bearerToken(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "bearer") && token != ""
}
