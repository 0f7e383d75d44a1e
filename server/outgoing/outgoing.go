// Package outgoing is the way out of what the server fetches from places that others name: buckets, addresses of add-ons,
// directories, version data. It leads to the open network, and inside only where an administrator allows it.
//
// The check is made of the address that the operating system is about to connect to, after the name was resolved and for each
// connection: a name whose answers change leads nowhere else, and a redirect is a connection like the first.
//
// Of what people name, only ranges of the setting lead inside. What an administrator alone configures often stands in a private
// network: that the configuration names a host is the allowance for private addresses of this host, but not for others that it
// redirects to, and never for link-local ones.
//
// A proxy of the server's environment (HTTP_PROXY, HTTPS_PROXY, NO_PROXY) is the administrator's choice and may be anywhere. What it
// connects to cannot be seen from here: a target behind it is checked where it is an address, and where its name can be resolved
// here, by all addresses that it has; the rest is the proxy's own to refuse.
//
// What hosts and clusters are asked for goes through their tunnels and not through here.
package outgoing

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/drover-project/drover/plans/fetch"
)

// Bounds of every connection.
const (
	dialLimit   = 10 * time.Second
	headerLimit = 30 * time.Second
	maxHeader   = 64 << 10 // bytes
)

// Outgoing is the way out of a server. The zero value allows no ranges.
type Outgoing struct {
	// Allowed is the value of Setting as it is now; nil is "". A value that is none, which settings refuse, allows nothing.
	Allowed func() string
	// Listens is the address that the server listens on, which is checked beside those of the host's interfaces; nil is none.
	Listens net.Addr
	// Resolver resolves names; nil is the system's.
	Resolver *net.Resolver
	// Proxies are the proxies of the environment; nil is httpproxy.FromEnvironment.
	Proxies *httpproxy.Config
}

// People is the way to what people name.
func (o *Outgoing) People() *Way { return &Way{out: o, proxies: o.proxies()} }

// Configured is the way to what an administrator's configuration names, each as a URL, a host or host:port.
func (o *Outgoing) Configured(addresses ...string) *Way {
	w := o.People()
	for _, address := range addresses {
		host := address
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			host = u.Host
		}
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if host != "" {
			w.named = append(w.named, normal(strings.Trim(host, "[]")))
		}
	}
	return w
}

func (o *Outgoing) proxies() *httpproxy.Config {
	if o.Proxies != nil {
		return o.Proxies
	}
	return httpproxy.FromEnvironment()
}

func (o *Outgoing) resolver() *net.Resolver {
	if o.Resolver != nil {
		return o.Resolver
	}
	return net.DefaultResolver
}

// policy is what counts now.
func (o *Outgoing) policy(named []string) (policy, error) {
	p := policy{named: named}
	if o.Allowed != nil {
		ranges, err := ParseRanges(o.Allowed())
		if err != nil {
			return p, fmt.Errorf("setting %s %w", Setting, err)
		}
		p.allowed = ranges
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return p, fmt.Errorf("read the addresses of this host: %w", err)
	}
	if o.Listens != nil {
		if at, err := netip.ParseAddrPort(o.Listens.String()); err == nil {
			p.own = append(p.own, plain(at.Addr()))
		}
	}
	for _, one := range addresses {
		if network, ok := one.(*net.IPNet); ok {
			if a, ok := netip.AddrFromSlice(network.IP); ok {
				p.own = append(p.own, plain(a))
			}
		}
	}
	return p, nil
}

// Way is the way out for one purpose. It may be used by many goroutines.
type Way struct {
	out     *Outgoing
	named   []string
	proxies *httpproxy.Config
}

// DialContext opens a TCP connection, as net.Dialer.DialContext does. A *RefusedError says that all addresses of the host are
// where the server does not go.
func (w *Way) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") {
		return nil, fmt.Errorf("%s %.300q is not a host and a port of TCP", network, address)
	}
	p, err := w.out.policy(w.named)
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{Timeout: dialLimit, Resolver: w.out.Resolver, ControlContext: func(_ context.Context, _, to string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(to) // which is what connect(2) gets
		if err != nil {
			return fmt.Errorf("connect to %.100q: %w", to, err)
		}
		return p.check(host, at.Addr())
	}}).DialContext(ctx, network, address)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return nil, dialError(refused)
	}
	return conn, err
}

// dialError is what failed before an answer, in the form that the errors of package net have.
func dialError(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

// Lead has a transport go this way.
func (w *Way) Lead(t *http.Transport) {
	find := w.proxies.ProxyFunc()
	known := map[string]bool{}
	for _, scheme := range []string{"http", "https"} {
		if via, err := find(&url.URL{Scheme: scheme, Host: "drover.invalid"}); err == nil && via != nil {
			known[hostPort(via)] = true
		}
	}
	t.Proxy = func(r *http.Request) (*url.URL, error) {
		via, err := find(r.URL)
		if err != nil {
			return nil, dialError(errors.New("the proxy of the server's environment is not a URL"))
		}
		if via != nil || known[hostPort(r.URL)] { // a connection that is not checked once more below
			return via, w.look(r.Context(), r.URL.Hostname())
		}
		return nil, nil
	}
	t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
		if answer.StatusCode != http.StatusOK {
			return dialError(fmt.Errorf("the proxy of the server's environment answers %s", fetch.Status(answer.StatusCode)))
		}
		return nil
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if known[strings.ToLower(address)] {
			return (&net.Dialer{Timeout: dialLimit, Resolver: w.out.Resolver}).DialContext(ctx, network, address)
		}
		return w.DialContext(ctx, network, address)
	}
}

// hostPort is where a transport connects to for a URL.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return strings.ToLower(net.JoinHostPort(u.Hostname(), port))
}

// look checks a host that something else connects to.
func (w *Way) look(ctx context.Context, host string) error {
	p, err := w.out.policy(w.named)
	if err != nil {
		return dialError(err)
	}
	addresses := []netip.Addr{literal(host)}
	if !addresses[0].IsValid() {
		if addresses, err = w.out.resolver().LookupNetIP(ctx, "ip", host); err != nil {
			return nil // a name that the proxy alone can resolve
		}
	}
	for _, a := range addresses {
		if err := p.check(host, a); err != nil {
			return dialError(err)
		}
	}
	return nil
}

// Transport is one that goes this way and trusts what t says; nil trusts the system's authorities. It keeps no connection.
func (w *Way) Transport(t *tls.Config) *http.Transport {
	made := &http.Transport{
		TLSClientConfig: t, ForceAttemptHTTP2: true, DisableKeepAlives: true,
		TLSHandshakeTimeout: dialLimit, ResponseHeaderTimeout: headerLimit, MaxResponseHeaderBytes: maxHeader,
	}
	w.Lead(made)
	return made
}
