// Package registration is how a host comes to a server: the install script and the
// files it downloads, the CA it pins, the endpoint where it shows its registration
// token and becomes a machine, and the token that its agent uses from then on.
//
// Wire source: rancher/system-agent install.sh, rancher/rancher pkg/capr/configserver
// and pkg/systemtemplate.
package registration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
)

// Options are what a Registration stands on.
type Options struct {
	State    *state.State
	Settings *settings.Settings
	// Assets are the files below /assets/, such as rancher-system-agent-amd64; nil serves the scripts only.
	Assets fs.FS
	// Tokens are those of the machines; nil makes them.
	Tokens *Tokens
	// Watching says whether the agent of a plan Secret, "<namespace>/<name>", is connected to any
	// server now, and since when it is or is not; nil is no.
	Watching func(secretKey string) (since time.Time, connected bool)
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Logger gets who registered and who was refused; default is to drop it.
	Logger *slog.Logger
}

// Registration serves hosts that join.
type Registration struct {
	*Tokens
	state    *state.State
	settings *settings.Settings
	assets   *assets
	watching func(secretKey string) (time.Time, bool)
	now      func() time.Time
	log      *slog.Logger
	reply    norman.Replier
	// kubeConfigs are those of the answers.
	kubeConfigs kubeconfigs
	wrong       limiter[netip.Prefix]   // tokens, by who sends them
	arrivals    limiter[records.Origin] // of machines
}

// New makes a Registration.
func New(o Options) *Registration {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Watching == nil {
		o.Watching = func(string) (time.Time, bool) { return time.Time{}, false }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Tokens == nil {
		o.Tokens = NewTokens(o.State)
	}
	g := &Registration{
		Tokens:   o.Tokens,
		state:    o.State,
		settings: o.Settings,
		assets:   newAssets(o.Assets),
		watching: o.Watching,
		now:      o.Now,
		log:      o.Logger,
	}
	return g
}

// Routes adds the paths that are open without login.
func (g *Registration) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", g.healthz)
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "pong") })
	mux.HandleFunc("GET /cacerts", g.cacerts)
	mux.HandleFunc("GET /rancherversion", g.version)
	mux.HandleFunc("GET /system-agent-install.sh", g.installScript)
	mux.HandleFunc("GET /assets/{name}", g.asset)
	mux.HandleFunc("/assets/", noAsset)
	mux.HandleFunc("/v3/connect/agent", g.connect) // the original takes any method
}

func (g *Registration) healthz(w http.ResponseWriter, r *http.Request) {
	if err := g.state.Store.Err(); err != nil {
		g.log.Error("not healthy", "error", err)
		text(w, http.StatusServiceUnavailable, "the store does not work; see the server's log")
		return
	}
	if since, stale := g.state.Store.Stale(); stale {
		text(w, http.StatusServiceUnavailable, "not ready: the store does not answer since "+since.UTC().Format(time.RFC3339))
		return
	}
	if _, verbose := r.URL.Query()["verbose"]; !verbose {
		text(w, http.StatusOK, "ok")
		return
	}
	// What the server believes of itself and of this request, for whom a proxy in between misleads.
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	text(w, http.StatusOK, fmt.Sprintf("[+]store ok\nserver-url %s\nthis request came by %s to host %s\nok\n",
		cmp.Or(g.settings.ServerURL(), "is not set"), scheme, strconv.Quote(r.Host)))
}

func (g *Registration) version(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	// No client is left to notify when this fails; the same holds for all writes to a client below.
	_ = json.NewEncoder(w).Encode(struct{ Version, GitCommit, RancherPrime string }{
		Version: g.settings.Get("server-version").Value, GitCommit: commit(), RancherPrime: "false",
	})
}

// commit is the revision that this program was built from.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				return setting.Value
			}
		}
	}
	return "unknown"
}

// text answers with exactly this text.
func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // #nosec G705 -- a script for hosts, sent as text with nosniff
}
