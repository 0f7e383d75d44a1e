// Any server dials any host: through a tunnel of its own, or by asking the server that the
// host's tunnel ends at. Agents know nothing of it.

package hosts

import (
	"bufio"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel"
)

// relayPath is where a server takes the requests of the others.
const relayPath = "/v1-drover/relay"

const (
	protocol = "drover-relay"
	// askLimit bounds one server's answer to another, TLS included.
	askLimit = 10 * time.Second
	// maxRefusal bounds the text of a refusal, in bytes.
	maxRefusal = 4 << 10
)

// tunnels are those of this server.
type tunnels interface {
	Dial(ctx context.Context, subject string, to tunnel.Target) (net.Conn, error)
	Connected(subject string) (since time.Time, ok bool)
}

// holders knows which server holds which tunnel.
type holders interface {
	Holders(subject string) []records.Replica
	Connected(subject string) (since time.Time, ok bool)
}

// relayOptions are what a Relay is made of. All are required.
type relayOptions struct {
	Local    tunnels
	Presence holders
	// Secret is known to the servers of one store alone.
	Secret string
	// TLS is the trust in the other servers.
	TLS    *tls.Config
	Logger *slog.Logger
}

// Relay dials hosts.
type Relay struct{ relayOptions }

// newRelay makes a Relay.
func newRelay(o relayOptions) *Relay { return &Relay{o} }

// Connected says whether the subject has an open tunnel to any server, and since when; see
// board.Connected.
func (r *Relay) Connected(subject string) (since time.Time, ok bool) {
	return r.Presence.Connected(subject)
}

// Dial is tunnel.Server.Dial over all servers: a tunnel that ends here is taken first.
// The errors are those of the tunnel, whichever server it ends at.
func (r *Relay) Dial(ctx context.Context, subject string, to tunnel.Target) (net.Conn, error) {
	if _, here := r.Local.Connected(subject); here {
		c, err := r.Local.Dial(ctx, subject, to)
		if _, none := errors.AsType[*tunnel.NoSessionError](err); !none {
			return c, err
		}
	}
	var failed error
	for _, holder := range r.Presence.Holders(subject) {
		c, err := r.ask(ctx, holder, subject, to)
		if err == nil {
			return c, nil
		}
		if _, refused := errors.AsType[*tunnel.RefusedError](err); refused || ctx.Err() != nil {
			return nil, err
		}
		r.Logger.Debug("another server could not dial a host", "server", holder.URL, "subject", subject, "error", err)
		failed = err
	}
	if failed == nil {
		gone, _ := r.Presence.Connected(subject)
		failed = &tunnel.NoSessionError{Subject: subject, Last: gone}
	}
	return nil, failed
}

// addressOf is the URL of another server. It has to be https, as requests carry the secret of the servers.
func addressOf(other records.Replica) (*url.URL, error) {
	u, err := url.Parse(other.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("server %s: its address %q is not of the form https://host[:port]", other.ID, other.URL)
	}
	return u, nil
}

// ask has another server dial.
func (r *Relay) ask(ctx context.Context, holder records.Replica, subject string, to tunnel.Target) (net.Conn, error) {
	u, err := addressOf(holder)
	if err != nil {
		return nil, fmt.Errorf("dial through it: %w", err)
	}
	u.Path, u.RawQuery = relayPath, asked(subject, to).Encode()
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	c, err := (&tls.Dialer{Config: r.TLS}).DialContext(ctx, "tcp", hostPort(u))
	if err != nil {
		return nil, fmt.Errorf("dial through server %s: %w", holder.URL, err)
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("dial through server %s: %w", holder.URL, err)
	}
	request.Header.Set("Authorization", "Bearer "+r.Secret)
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", protocol)
	taken, err := upgrade(c, request)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("dial through server %s: %w", holder.URL, err)
	}
	return taken, nil
}

// asked is the query of a dial.
func asked(subject string, to tunnel.Target) url.Values {
	q := url.Values{"subject": {subject}, "network": {to.Network}, "address": {to.Address}}
	if to.Patient {
		q.Set("patient", "true")
	}
	return q
}

func hostPort(u *url.URL) string {
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return u.Host
}

// upgrade sends the request and turns the connection into that to the host.
func upgrade(c net.Conn, request *http.Request) (net.Conn, error) {
	if err := request.Write(c); err != nil {
		return nil, err
	}
	in := bufio.NewReader(c)
	answer, err := http.ReadResponse(in, request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		defer answer.Body.Close()
		return nil, readRefusal(answer)
	}
	return tunnel.Begun(c, in)
}

// refusal is why a server did not dial, in a form that becomes the same error again.
type refusal struct {
	NoSession *tunnel.NoSessionError `json:"noSession,omitempty"`
	Refused   *tunnel.RefusedError   `json:"refused,omitempty"`
	Text      string                 `json:"text"`
}

func readRefusal(answer *http.Response) error {
	var said refusal
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxRefusal)).Decode(&said); err != nil {
		return fmt.Errorf("the server answered %s", answer.Status)
	}
	switch {
	case said.NoSession != nil:
		return said.NoSession
	case said.Refused != nil:
		return said.Refused
	}
	return fmt.Errorf("the server answered %s: %s", answer.Status, said.Text)
}

// ServeHTTP dials for another server, through this server's tunnels only.
func (r *Relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if !r.trusted(w, request) {
		return
	}
	if !strings.EqualFold(request.Header.Get("Upgrade"), protocol) {
		refuse(w, http.StatusUpgradeRequired, refusal{Text: "Upgrade: " + protocol + " is missing"})
		return
	}
	q := request.URL.Query()
	to := tunnel.Target{Network: q.Get("network"), Address: q.Get("address"), Patient: q.Get("patient") == "true"}
	host, err := r.Local.Dial(request.Context(), q.Get("subject"), to)
	if err != nil {
		said := refusal{Text: err.Error()}
		said.NoSession, _ = errors.AsType[*tunnel.NoSessionError](err)
		said.Refused, _ = errors.AsType[*tunnel.RefusedError](err)
		refuse(w, http.StatusBadGateway, said)
		return
	}
	defer host.Close()
	asker, err := tunnel.Hijack(w)
	if err != nil {
		refuse(w, http.StatusInternalServerError, refusal{Text: err.Error()})
		return
	}
	defer asker.Close()
	defer context.AfterFunc(request.Context(), func() { asker.Close(); host.Close() })()
	if _, err := fmt.Fprintf(asker, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol); err != nil {
		return
	}
	_, _, _ = tunnel.Join(host, asker) // however it ends, the other server sees it end
}

// trusted says whether a request comes from a server of the same store; it has answered when not.
func (r *Relay) trusted(w http.ResponseWriter, request *http.Request) bool {
	bearer, _ := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(bearer), []byte(r.Secret)) == 1 {
		return true
	}
	r.Logger.Warn("relay refused: the secret is not that of this store", "from", request.RemoteAddr)
	refuse(w, http.StatusUnauthorized, refusal{Text: "the secret is not that of this store: do both servers use the same etcd?"})
	return false
}

func refuse(w http.ResponseWriter, status int, said refusal) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(said) // no client is left to answer when this fails
}
