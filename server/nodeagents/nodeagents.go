// Package nodeagents is the server's side of node agents, which give it the Docker
// sockets of hosts: the endpoints where they open their tunnels and ask for their node
// config, and the machines that they become.
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
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

// answerWithin bounds what an agent waits for before its tunnel opens.
const answerWithin = 30 * time.Second

// Tokens are the registration tokens of clusters.
type Tokens interface {
	// ClusterByToken is the cluster that hosts with this token may join now.
	ClusterByToken(token string) (records.Cluster, error)
	// WrongToken notes a wrong token and is how long its sender has to wait; 0 for not.
	WrongToken(remote string) time.Duration
	// Room says whether one more host may come by a token from an address, and whom it registers by
	// then. The error is a *norman.Error.
	Room(token, remote string) (records.Origin, error)
}

// Options are what Agents stand on. All are required.
type Options struct {
	State  *state.State
	Tokens Tokens
	// Tunnel is what is known of a host's tunnel, over all servers.
	Tunnel func(records.Subject) observed.Tunnel
	// Accept takes the websocket of an agent that was let in, and serves it until it or ctx ends.
	Accept func(ctx context.Context, w http.ResponseWriter, r *http.Request, peer tunnel.Peer)
	// Cluster serves the request of a cluster agent, which asks at the same address, and returns false for that of another one.
	Cluster func(w http.ResponseWriter, r *http.Request) bool
	Now     func() time.Time
	Logger  *slog.Logger
}

// Agents serves node agents.
type Agents struct {
	Options
	stop func()
	open auth.Streams // tunnels, by the key of their machine
}

var errRemoved = errors.New("the machine of this host was removed")

// New makes Agents. The tunnels of machines that are removed are ended from now on, until Close.
func New(o Options) *Agents {
	a := &Agents{Options: o}
	a.stop = o.State.Machines.Observe(func(e store.Event[records.Machine]) {
		if e.Type == store.Deleted {
			a.open.End(e.Key)
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

// connect opens a tunnel and serves it until it ends.
func (a *Agents) connect(w http.ResponseWriter, r *http.Request, register bool) {
	if a.Cluster(w, r) {
		return
	}
	limit, done := context.WithTimeout(r.Context(), answerWithin)
	m, err := a.admit(limit, r, register)
	done()
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	defer a.open.Add(m.Key(), 0, nil, func() { end(errRemoved) })()
	if d, ok := a.State.Machines.Get(m.Key()); !ok || !d.Value.Deleting.IsZero() && !a.cleaned(d.Value) {
		a.refuse(w, r, gone(m.NodeName)) // it was removed since it was let in
		return
	}
	a.Accept(ctx, w, r, tunnel.Peer{Subject: string(m.Subject()), Kind: hosts.NodeAgent})
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
