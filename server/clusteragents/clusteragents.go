// Package clusteragents is the server's side of cluster agents: the manifest that people apply in a Kubernetes that they
// import, the endpoint where the agent in it opens its tunnel, and what is put into clusters and taken out of them again.
// What the server may do in a cluster by this way is server/downstream's.
//
// Wire source: rancher/rancher v2.8.5 pkg/tunnelserver/mcmauthorizer, pkg/systemtemplate and pkg/agent/cluster.
package clusteragents

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
)

// Tokens are the registration tokens of clusters.
type Tokens interface {
	// ClusterByToken is the cluster that a registration token is for.
	ClusterByToken(token string) (records.Cluster, error)
	// WrongToken notes a wrong token and is how long its sender has to wait; 0 for not.
	WrongToken(remote string) time.Duration
}

// Options are what Agents stand on. All are required.
type Options struct {
	State    *state.State
	Tokens   Tokens
	Settings *settings.Settings
	// Accept takes the websocket of an agent that was let in, and serves it until it or ctx ends.
	Accept func(ctx context.Context, w http.ResponseWriter, r *http.Request, peer tunnel.Peer)
	Now    func() time.Time
	Logger *slog.Logger
}

// Agents serves cluster agents.
type Agents struct {
	Options
	stop []func()
	open auth.Streams // tunnels, by the key of their cluster
}

var errRemoved = errors.New("the cluster of this agent was removed, or is to get another agent")

// New makes Agents. The tunnels of clusters that are removed are ended from now on, until Close.
func New(o Options) *Agents {
	a := &Agents{Options: o}
	a.stop = append(a.stop, o.State.ClusterAgents.Observe(func(e store.Event[records.ClusterAgent]) {
		if e.Type == store.Deleted {
			a.open.End(e.Key)
		}
	}))
	return a
}

// Close ends the observing of clusters.
func (a *Agents) Close() {
	for _, stop := range a.stop {
		stop()
	}
}

// serve takes the tunnel of an agent that may prove itself, or has nothing to prove, and serves it until it ends.
func (a *Agents) serve(w http.ResponseWriter, r *http.Request, cluster records.Cluster, peer tunnel.Peer) {
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	defer a.open.Add(cluster.Key(), 0, nil, func() { end(errRemoved) })()
	a.Accept(ctx, w, r, peer)
}

// Manifest is what a cluster's agent is made of, by a registration token. Namespace is the cluster's ID where the server
// itself applies it.
func (a *Agents) Manifest(cluster records.Cluster, server, token, namespace string) Cluster {
	s := a.Settings
	return Cluster{
		Server: server, Token: token, Namespace: namespace, Checksum: s.CAChecksum(), Strict: s.StrictTLS(),
		Image: s.Get("agent-image").Value, Registry: s.Get("system-default-registry").Value,
		Version: s.Get("server-version").Value, Install: s.Get("install-uuid").Value, Env: cluster.Spec.AgentEnvVars,
	}
}

// refusal is a no with a status.
type refusal struct {
	status int
	text   string
	wait   time.Duration // until it makes sense to ask again; 0 says nothing
}

func (e *refusal) Error() string { return e.text }

// refuse answers as agents know it: a status and plain text.
func (a *Agents) refuse(w http.ResponseWriter, r *http.Request, err error) {
	said, ok := errors.AsType[*refusal](err)
	if !ok {
		a.Logger.Error("cluster agent not served", "host", r.RemoteAddr, "error", err)
		said = &refusal{status: http.StatusInternalServerError, text: "the server could not store this cluster's agent; its log says why", wait: 5 * time.Second}
	} else {
		a.Logger.Info("cluster agent refused", "host", r.RemoteAddr, "status", said.status, "reason", said.text)
	}
	if said.wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(said.wait.Seconds())))
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, said.text, said.status)
}

// peer is a cluster's agent as tunnels have it.
func peer(cluster records.Cluster) tunnel.Peer {
	return tunnel.Peer{Subject: string(records.ClusterSubject(cluster.ID)), Kind: hosts.ClusterAgent}
}
