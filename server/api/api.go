// Package api is the management API: what people, the original CLI, terraform and
// dashboards ask of the server. /v3 is in table.go, every request with the access it
// needs; /v1 and the paths without login are in tables of their own (steve.go,
// public.go). What a resource looks like is in the file of its name.
//
// Wire source: rancher/rancher pkg/client/generated/management/v3, pkg/api/norman and
// pkg/apis; rancher/norman; rancher/steve.
package api

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/relay"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/versions"
)

// Options are what the API stands on.
type Options struct {
	State        *state.State
	Auth         *auth.Auth
	Settings     *settings.Settings
	Registration *registration.Registration
	// Clusters takes cluster documents in and removes clusters and machines.
	Clusters *clusters.Applier
	// Versions are those that cluster documents may name.
	Versions *versions.Data
	// KubeProxy serves /k8s/clusters/<cluster id>/…, with its own authentication; nil answers 404.
	KubeProxy http.Handler
	// AskAgent sends GET path to the agent on a machine's host, by the subject of its tunnel; nil answers 503.
	AskAgent func(ctx context.Context, subject, path string) (*http.Response, error)
	// Dial opens a connection on a machine's host, by the subject of its tunnel; nil answers 503.
	Dial func(ctx context.Context, subject, network, address string) (net.Conn, error)
	// Tunnels are the open tunnels of all servers; nil is none.
	Tunnels func(context.Context) []relay.Held
	// Origin finds the URL under which clients see the server. Its ServerURL is filled in.
	Origin norman.Origin
	// Ping is how often a subscriber hears something; default 5 s.
	Ping time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Logger gets every request that changes something; default is to drop it.
	Logger *slog.Logger
}

// API serves the management API.
type API struct {
	Options
	reply  norman.Replier
	kinds  []*kind // of /v3, in the order in which links and schemas show them
	routes map[string]map[string]route
	subs   []subAPI
	steve  []*steveKind
	byID   *clusterIndex
	log    *subscribe.Log
	stop   []func()
}

// New makes an API. It observes the state from now on; Close ends that.
func New(o Options) *API {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Ping == 0 {
		o.Ping = 5 * time.Second
	}
	if o.Origin.ServerURL == nil {
		o.Origin.ServerURL = o.Settings.ServerURL
	}
	a := &API{Options: o, log: subscribe.NewLog(o.Now)}
	byID, stop := newClusterIndex(o.State.Clusters)
	a.byID, a.stop = byID, append(a.stop, stop)
	a.kinds, a.routes = a.build()
	a.subs = a.subAPIs()
	a.steve = a.steveKinds()
	a.observe()
	return a
}

// Close stops observing the state.
func (a *API) Close() {
	for _, stop := range a.stop {
		stop()
	}
}

// Handler serves /, /v3, /v3-public, /v1, /v1-public, /v1-drover and /k8s/clusters. It
// must not stand behind a http.ServeMux pattern of its own, whose cleaning of paths
// destroys ids that hold an escaped slash.
func (a *API) Handler() http.Handler { return http.HandlerFunc(a.serve) }

func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
	c := &call{api: a, w: recorder, r: r, urls: a.Origin.URLs(r), limit: norman.MaxBody}
	c.method = c.effectiveMethod()
	path, err := norman.SplitPath(r.URL.EscapedPath())
	if err != nil {
		c.fail(norman.Errorf(http.StatusNotFound, norman.NotFound, "there is nothing at %s", r.URL.EscapedPath()))
		return
	}
	if isBrowser(r) {
		auth.EnsureForgeryCookie(w, r)
	}
	a.surface(c, path.Segments)
	if c.method != http.MethodGet && c.method != http.MethodHead {
		a.Logger.Info("request", "method", c.method, "path", r.URL.EscapedPath(), "status", recorder.status,
			"user", c.who.UserID, "token", c.who.TokenName, "source", a.Origin.Source(r))
	}
}

// surface sends the request to the API that its path begins with.
func (a *API) surface(c *call, seg []string) {
	first, rest := "", seg
	if len(seg) > 0 {
		first, rest = strings.ToLower(seg[0]), seg[1:]
	}
	switch first {
	case "":
		a.serveRoots(c)
	case "v3":
		a.serveV3(c, rest)
	case "v3-public":
		a.servePublic(c, publicNorman, rest)
	case "v1-public":
		a.servePublic(c, publicPlain, rest)
	case "v1":
		a.serveSteve(c, "/v1", rest)
	case "v1-drover":
		a.serveDrover(c, rest)
	case "k8s":
		a.serveKubernetes(c, rest)
	default:
		c.fail(norman.Errorf(http.StatusNotFound, norman.NotFound, "there is nothing at %s", c.r.URL.Path))
	}
}

// serveKubernetes hands a cluster's own API on. The cluster "local" is the server
// itself, of which only the Steve API exists.
func (a *API) serveKubernetes(c *call, seg []string) {
	if len(seg) >= 3 && seg[0] == "clusters" && seg[1] == "local" && seg[2] == "v1" {
		a.serveSteve(c, "/k8s/clusters/local/v1", seg[3:])
		return
	}
	if len(seg) < 2 || seg[0] != "clusters" || a.KubeProxy == nil {
		c.fail(norman.Errorf(http.StatusNotFound, norman.NotFound, "there is nothing at %s", c.r.URL.Path))
		return
	}
	a.KubeProxy.ServeHTTP(c.w, c.r)
}

// isBrowser is how the peers tell pages from programs.
func isBrowser(r *http.Request) bool {
	return strings.Contains(strings.ToLower(r.UserAgent()), "mozilla") && strings.Contains(r.Header.Get("Accept"), "*/*")
}

// statusRecorder remembers the status for the log of changes.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (w *statusRecorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach what is below: websockets, watches.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
