// Package tunnel carries connections from the server to a host that offers no
// inbound port: the host opens one websocket, and through it the server dials
// targets on the host. Node agents, cluster agents and the system agent use the
// same client; the protocol is that of github.com/rancher/remotedialer, so either
// side may be the original. When both are ours they agree in the headers of the upgrade
// on that of tunnel/mux, which is some times faster and lets interactive connections pass
// those in bulk; everything below holds for both.
//
// What the library leaves open is closed here:
//
//   - On one websocket only the server dials; the two sides would number their
//     connections in the same space.
//   - A refused target fails its own connection and nothing else: the client accepts
//     every request on the wire and refuses in its local dialer, and the server asks
//     its own policy before it sends anything.
//   - Connections keep the contract of net.Conn for deadlines, timeouts and addresses. They
//     have a method CloseWrite() error, too; the original's protocol has nothing for it, and
//     there its error wraps errors.ErrUnsupported.
//   - A dead websocket is closed at once, and no lock is shared between websockets.
//   - A subject may have several websockets; the newest that answers is used first.
//
// Dial sends a request and does not wait for an answer, because the original's protocol has
// none. Only a handshake with the target (TLS, or an HTTP request) shows whether the
// dial has succeeded, so callers do one under a time limit of their own.
package tunnel

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/drover-project/drover/plans/backoff"
)

// DialFunc opens a connection to a target, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// State is where a client stands.
type State string

// The states of a client.
const (
	Connecting State = "connecting"
	Connected  State = "connected"
	Waiting    State = "waiting" // for the next attempt
	Stopped    State = "stopped"
)

// Status is what a client is doing, since when, and why.
type Status struct {
	State State
	Since time.Time
	// Cause is why the client is not connected; nil while it is, and before the first attempt ended.
	Cause error
	// Next is when the next attempt starts, while Waiting.
	Next time.Time
}

// String is the status in words.
func (s Status) String() string {
	since := s.Since.UTC().Format(time.RFC3339)
	if s.Cause == nil {
		return fmt.Sprintf("tunnel %s since %s", s.State, since)
	}
	return fmt.Sprintf("tunnel %s since %s: %v", s.State, since, s.Cause)
}

// ClientOptions say where a client connects and what it lets the server reach.
type ClientOptions struct {
	// URL of the server's endpoint, wss:// (or ws:// in tests).
	URL string
	// Header is asked at each attempt for the headers of the request, credentials included. Nil sends none.
	Header func() http.Header
	// TLS is the trust of the connection; nil is the system's.
	TLS *tls.Config
	// Renewal lets a new CA of the server be adopted once it is proven; nil never does.
	Renewal *Renewal
	// Proxy chooses the proxy on the way to the server; nil is http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
	// Resolve looks the server's name up; nil asks as the operating system is set up.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Spared is the Retry-After of the server, which the client keeps to and adds to. All clients of one server
	// share it; nil is not shared.
	Spared *backoff.Spared
	// Dial opens the targets that the server asks for and is the policy of this host:
	// its error refuses one target. Nil refuses all.
	Dial DialFunc
	// Logger; nil discards.
	Logger *slog.Logger
	// Changed is called with each new status, one call at a time. It must not block. Nil is allowed.
	Changed func(Status)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// original is a client that offers the original's protocol only, for tests.
	original bool
}

// Peer is who opened a tunnel.
type Peer struct {
	// Subject is what Dial takes: one host, or one cluster. It may have several tunnels.
	Subject string
	// Kind is what the agent is, in the caller's words; tables of targets go by it.
	Kind string
	// Agent is the release of the agent, in the caller's words; empty when it is not known.
	Agent string
	// Prove, unless nil, is called once the websocket is open: the subject has this tunnel when it returns nil, and not before.
	// Dial opens connections through the tunnel itself, to any target. An error closes the tunnel with its text.
	Prove func(ctx context.Context, dial func(context.Context, Target) (net.Conn, error)) error
}

// ServerOptions say who may connect and what may be dialled.
type ServerOptions struct {
	// Authorize says who a request comes from. An error refuses it with its text, which must
	// not hold a secret, and 401, or with the status and text of a *HandshakeError.
	Authorize func(*http.Request) (Peer, error)
	// Allow is asked before each dial; its error refuses the target. Nil refuses all.
	Allow func(peer Peer, network, address string) error
	// Messages records each message that comes from a host at debug level: kind, connection
	// and size, never what is in it. It is what CATTLE_TUNNEL_DATA_DEBUG=true asks for.
	Messages bool
	// Logger; nil discards.
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}
