// Package nodeagents is the server's side of node agents, which give it the Docker
// sockets of hosts: the endpoints where they open their tunnels and ask for their node
// config, the machines that they become, and what may be dialled on them.
//
// Wire source: rancher/rancher v2.8.5 pkg/tunnelserver/mcmauthorizer, pkg/rkenodeconfigserver
// and pkg/agent/node.
package nodeagents

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/drover-project/drover/server/planner"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

// Kind is that of node agents' tunnels.
const Kind = "node-agent"

// answerWithin bounds what an agent waits for before its tunnel opens.
const answerWithin = 30 * time.Second

// Tokens are the registration tokens of clusters.
type Tokens interface {
	// ClusterByToken is the cluster that hosts with this token may join now.
	ClusterByToken(token string) (records.Cluster, error)
	// WrongToken notes a wrong token and is how long its sender has to wait; 0 for not.
	WrongToken(remote string) time.Duration
}

// Options are what Agents stand on. All are required.
type Options struct {
	State  *state.State
	Tokens Tokens
	// Tunnel is what is known of a host's tunnel, over all servers.
	Tunnel func(subject string) planner.Tunnel
	// Accept takes the websocket of an agent that was let in; Admitted tells it who that is.
	Accept http.Handler
	Now    func() time.Time
	Logger *slog.Logger
}

// Agents serves node agents.
type Agents struct {
	Options
	stop func()

	mu   sync.Mutex
	open map[string]map[*visit]struct{} // tunnels by the key of their machine
}

// visit is one open tunnel.
type visit struct{ end context.CancelFunc }

// New makes Agents. The tunnels of machines that are removed are ended from now on, until Close.
func New(o Options) *Agents {
	a := &Agents{Options: o, open: map[string]map[*visit]struct{}{}}
	a.stop = o.State.Machines.Observe(func(e store.Event[records.Machine]) {
		if e.Type == store.Deleted {
			a.dismiss(e.Key)
		}
	})
	return a
}

// Close ends the observing of machines.
func (a *Agents) Close() { a.stop() }

// Routes adds the endpoints, which the agents' headers alone give access to.
func (a *Agents) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+connect.Path, func(w http.ResponseWriter, r *http.Request) { a.connect(w, r, false) })
	mux.HandleFunc("GET "+connect.RegisterPath, func(w http.ResponseWriter, r *http.Request) { a.connect(w, r, true) })
	mux.HandleFunc("GET "+connect.ConfigPath, a.config)
}

type admittedKey struct{}

// Admitted is the agent that a request handed to Options.Accept comes from.
func Admitted(r *http.Request) (tunnel.Peer, bool) {
	peer, ok := r.Context().Value(admittedKey{}).(tunnel.Peer)
	return peer, ok
}

// connect opens a tunnel and serves it until it ends.
func (a *Agents) connect(w http.ResponseWriter, r *http.Request, register bool) {
	limit, done := context.WithTimeout(r.Context(), answerWithin)
	m, err := a.admit(limit, r, register)
	done()
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	ctx, end := context.WithCancel(r.Context())
	defer end()
	v := &visit{end}
	a.enter(m.Key(), v)
	defer a.leave(m.Key(), v)
	if d, ok := a.State.Machines.Get(m.Key()); !ok || !d.Value.Deleting.IsZero() {
		a.refuse(w, r, gone(m.NodeName)) // it was removed since it was let in
		return
	}
	peer := tunnel.Peer{Subject: m.Subject(), Kind: Kind}
	a.Accept.ServeHTTP(w, r.WithContext(context.WithValue(ctx, admittedKey{}, peer)))
}

func (a *Agents) enter(key string, v *visit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[key] == nil {
		a.open[key] = map[*visit]struct{}{}
	}
	a.open[key][v] = struct{}{}
}

func (a *Agents) leave(key string, v *visit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open[key], v)
	if len(a.open[key]) == 0 {
		delete(a.open, key)
	}
}

// dismiss ends the tunnels of a machine.
func (a *Agents) dismiss(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for v := range a.open[key] {
		v.end()
	}
}

// refuse answers as agents know it: a status and plain text.
func (a *Agents) refuse(w http.ResponseWriter, r *http.Request, err error) {
	answer := explain(err)
	_, said := errors.AsType[*refusal](err)
	log := a.Logger.With("host", r.RemoteAddr, "path", r.URL.Path)
	switch {
	case !said:
		log.Error("node agent not served", "error", err)
	case answer.status >= http.StatusInternalServerError:
		log.Debug("node agent has to wait", "status", answer.status, "reason", answer.text) // it asks again and again
	default:
		log.Info("node agent refused", "status", answer.status, "reason", answer.text)
	}
	if answer.wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(answer.wait.Seconds())))
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, answer.text, answer.status)
}
