// Package hosts is how the server reaches hosts: by the tunnels that they hold open to this
// server or to another one of the same store. Which host is connected, what may be dialled
// on it, and questions to the agent on it are here; what is asked for is its users' matter.
package hosts

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/answers"
)

// Kinds of tunnels.
const (
	// SystemAgent is the kind of the tunnels of drover's system agents.
	SystemAgent = "system-agent"
	// NodeAgent is the kind of the tunnels of agents of Docker hosts.
	NodeAgent = "node-agent"
	// ClusterAgent is the kind of the tunnels of agents that run in a cluster.
	ClusterAgent = "cluster-agent"
	// Steve is the kind of the second tunnels of original cluster agents, through which nothing is dialled.
	Steve = "cluster-agent-second"
)

// Watches are the watches of agents that this server serves.
type Watches interface {
	// Watching says whether the agent of a plan Secret is there, and since when it is or is not.
	Watching(secretKey string) (since time.Time, connected bool)
	// OnPresence calls f whenever an agent comes or goes.
	OnPresence(f func(secretKey string, connected bool))
}

// Options are what Hosts are made of. All but Alone and Messages are required.
type Options struct {
	State *state.State
	// Machine finds the machine of a token, which its agent opens a tunnel with.
	Machine func(token string) (records.MachineKey, bool)
	// Until calls end once the token of a request is no longer valid, until stop is called.
	Until   func(r *http.Request, end func()) (stop func())
	Watches Watches
	// Self is this server as the others see it.
	Self records.Replica
	// Alone says that no other server can use this store.
	Alone bool
	// Secret is known to the servers of one store alone.
	Secret string
	// TLS is the trust in the other servers.
	TLS *tls.Config
	// Messages has each message through a tunnel logged, without what is in it.
	Messages bool
	Logger   *slog.Logger
	Now      func() time.Time
}

// Hosts are all hosts that are connected to any server of the store.
type Hosts struct {
	state    *state.State
	machine  func(string) (records.MachineKey, bool)
	until    func(*http.Request, func()) func()
	tunnels  *tunnel.Server
	presence *Presence
	relay    *Relay
}

// New makes Hosts; nothing is published before Run.
func New(o Options) *Hosts {
	h := &Hosts{state: o.State, machine: o.Machine, until: o.Until}
	h.tunnels = tunnel.NewServer(tunnel.ServerOptions{
		Authorize: h.authorize, Allow: h.allowed, Logger: o.Logger, Now: o.Now, Messages: o.Messages,
	})
	h.presence = NewPresence(PresenceOptions{State: o.State, Self: o.Self, Alone: o.Alone, Agent: h.tunnels.Agent, Logger: o.Logger, Now: o.Now})
	h.relay = newRelay(relayOptions{Local: h.tunnels, Presence: h.presence.Tunnels, Secret: o.Secret, TLS: o.TLS, Logger: o.Logger})
	h.tunnels.OnChange(func(subject string, connected bool) { h.presence.Tunnels.Set(subject, connected, o.Now()) })
	o.Watches.OnPresence(func(secretKey string, connected bool) {
		since, _ := o.Watches.Watching(secretKey)
		h.presence.Watches.Set(secretKey, connected, since)
	})
	return h
}

// Run publishes to the other servers who is connected to this one, until ctx ends. It returns no error.
func (h *Hosts) Run(ctx context.Context) error {
	defer h.state.Machines.Observe(func(e store.Event[records.Machine]) {
		if e.Type == store.Deleted {
			h.presence.Tunnels.Forget(string(e.Value.Subject()))
		}
	})()
	defer h.state.Clusters.Observe(func(e store.Event[records.Cluster]) {
		if e.Type == store.Deleted {
			h.presence.Tunnels.Forget(string(records.ClusterSubject(e.Value.ID)))
		}
	})()
	defer h.state.PlanSecrets.Observe(func(e store.Event[records.PlanSecret]) {
		if e.Type == store.Deleted {
			h.presence.Watches.Forget(e.Key)
		}
	})()
	return h.presence.Run(ctx)
}

// Close ends the tunnels to this server and accepts no more.
func (h *Hosts) Close() { h.tunnels.Close() }

// Routes adds where system agents open their tunnels, and where other servers ask for those
// of this one.
func (h *Hosts) Routes(mux *http.ServeMux) {
	mux.HandleFunc("/v3/connect/machine", h.connect)
	mux.Handle(relayPath, h.relay)
	mux.HandleFunc("GET "+sessionsPath, h.relay.Serve(func() any { return h.tunnels.Sessions() }))
}

// OnTunnel calls f when a host's first tunnel to any server opened or its last one ended. f
// must not block. Call OnTunnel before the first request is served.
func (h *Hosts) OnTunnel(f func(subject records.Subject, connected bool)) {
	h.presence.Tunnels.OnChange(func(subject string, connected bool) { f(records.Subject(subject), connected) })
}

// OnWatch is OnTunnel for the watches of agents on their plan Secrets.
func (h *Hosts) OnWatch(f func(secretKey string, connected bool)) { h.presence.Watches.OnChange(f) }

// Dial opens a connection on a host, through whichever server has its tunnel; see tunnel.Server.Dial. The errors are those of tunnel.Server.Dial.
func (h *Hosts) Dial(ctx context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error) {
	return h.relay.Dial(ctx, string(subject), to)
}

// Connected says whether a host has a tunnel to any server, and since when it has or has not.
func (h *Hosts) Connected(subject records.Subject) (since time.Time, ok bool) {
	return h.presence.Tunnels.Connected(string(subject))
}

// Watching says whether the agent of a plan Secret has its watch open at any server, and
// since when it has or has not; zero when it was never seen.
func (h *Hosts) Watching(secretKey string) (since time.Time, ok bool) {
	return h.presence.Watches.Connected(secretKey)
}

// Presence is which servers there are, and who is connected to which.
func (h *Hosts) Presence() *Presence { return h.presence }

// Tunnel is what is known of a host's tunnel; only the server where it ended knows why.
func (h *Hosts) Tunnel(subject records.Subject) observed.Tunnel {
	since, connected := h.Connected(subject)
	t := observed.Tunnel{Connected: connected, Since: since}
	if ended := h.tunnels.Ended(string(subject)); !connected && len(ended) > 0 {
		t.Reason = ended[len(ended)-1].Reason
	}
	return t
}

// OpenTunnels are those of all servers.
func (h *Hosts) OpenTunnels(ctx context.Context) []HeldTunnels {
	return askServers(ctx, h.relay, sessionsPath, HeldTunnels{Server: h.presence.Self.URL, Value: h.tunnels.Sessions()}, h.presence.Others())
}

// Workers are those of all servers; own are those of this one.
func (h *Hosts) Workers(ctx context.Context, own []reconcile.Status) []Said[[]reconcile.Status] {
	return askServers(ctx, h.relay, workersPath, Said[[]reconcile.Status]{Server: h.presence.Self.URL, Value: own}, h.presence.Others())
}

// ServeWorkers adds where other servers ask for the workers of this one.
func (h *Hosts) ServeWorkers(mux *http.ServeMux, own func() []reconcile.Status) {
	mux.HandleFunc("GET "+workersPath, h.relay.Serve(func() any { return own() }))
}

// Sessions are the open tunnels of this server.
func (h *Hosts) Sessions() []tunnel.SessionInfo { return h.tunnels.Sessions() }

// Stats are the totals of this server's tunnels.
func (h *Hosts) Stats() tunnel.Stats { return h.tunnels.Stats() }

// connect is the tunnel of a system agent, which ends with the token that it was opened by.
func (h *Hosts) connect(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer h.until(r, func() { cancel(errTokenOver) })()
	h.tunnels.ServeHTTP(w, r.WithContext(ctx))
}

var errTokenOver = errors.New("the token of this machine is no longer valid")

type admittedKey struct{}

// Accept takes the websocket of an agent that was let in already, and serves it until it
// or ctx ends.
func (h *Hosts) Accept(ctx context.Context, w http.ResponseWriter, r *http.Request, peer tunnel.Peer) {
	h.tunnels.ServeHTTP(w, r.WithContext(context.WithValue(ctx, admittedKey{}, peer)))
}

// authorize finds whose tunnel a request opens: that of an agent that was let in, or of the
// machine whose token it has.
func (h *Hosts) authorize(r *http.Request) (tunnel.Peer, error) {
	release := releaseOf(r.UserAgent())
	if peer, ok := r.Context().Value(admittedKey{}).(tunnel.Peer); ok {
		peer.Agent = release
		return peer, nil
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return tunnel.Peer{}, errors.New("a tunnel needs the machine's token")
	}
	key, ok := h.machine(token)
	if !ok {
		return tunnel.Peer{}, errors.New("this machine's token is not valid; run the cluster's join command on the host again")
	}
	return tunnel.Peer{Subject: string(key), Kind: SystemAgent, Agent: release}, nil
}

// longestRelease is how long the name of a release may be.
const longestRelease = 64

// releaseOf is the release of drover that an agent is of by its own word, which is "NAME/RELEASE (SYSTEM) drover"; empty for
// agents that say something else, as the original ones do.
func releaseOf(userAgent string) string {
	words := strings.Fields(userAgent)
	if len(words) < 2 || words[len(words)-1] != "drover" {
		return ""
	}
	_, release, _ := strings.Cut(words[0], "/")
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.+", r)
	}
	if len(release) > longestRelease || strings.ContainsFunc(release, func(r rune) bool { return !plain(r) }) {
		return ""
	}
	return release
}

// answerLimit bounds the time until the agent begins its answer.
const answerLimit = 10 * time.Second

// Ask sends GET path to the agent on a host. The caller closes the answer, which may be a
// stream that ends with the context or with the tunnel, and reads no more of it than it has
// room for. An error is that the agent cannot be reached, or answers with a redirect.
func (h *Hosts) Ask(ctx context.Context, subject records.Subject, path string) (*http.Response, error) {
	return h.AskFor(ctx, subject, path, nil)
}

// AskFor is Ask with fields of the request's header, such as Range. The errors are those of Dial, and an *answers.RedirectError.
func (h *Hosts) AskFor(ctx context.Context, subject records.Subject, path string, header http.Header) (*http.Response, error) {
	client := &http.Client{Transport: &http.Transport{
		// The tunnel's dial does not wait for the host; the header shows that it is there.
		DisableKeepAlives: true, ResponseHeaderTimeout: answerLimit, DisableCompression: true, MaxResponseHeaderBytes: answers.HeaderBytes,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return h.Dial(ctx, subject, tunnel.Target{Network: "tcp", Address: AgentService})
		},
	}, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		return &answers.RedirectError{From: fmt.Sprintf("the agent on %s", subject), Status: r.Response.StatusCode}
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://drover-agent"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the agent on %s: %w", subject, err)
	}
	maps.Copy(request.Header, header)
	answer, err := client.Do(request)
	if made, ok := errors.AsType[*url.Error](err); ok {
		err = made.Err // the URL is made up and means nothing to a reader
	}
	if err != nil {
		return nil, fmt.Errorf("ask the agent on %s: %w", subject, err)
	}
	return answer, nil
}
