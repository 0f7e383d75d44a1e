// Where the server is: its name is looked up for every attempt and while a tunnel is
// open, and the last good answer serves when there is none.

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// lookupLimit bounds one look-up.
	lookupLimit = 10 * time.Second
	// maxAddresses is how many addresses of an answer are tried.
	maxAddresses = 16
	// minConnect is the least time to connect to one address of several.
	minConnect = 3 * time.Second
)

// names resolves the server's name and remembers the answer.
type names struct {
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)

	mu   sync.Mutex
	last []netip.Addr
}

// lookup asks. An answer without an address is an error.
func (n *names) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if literal, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{literal.Unmap()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	resolve := n.resolve
	if resolve == nil {
		resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	found, err := resolve(ctx, host)
	if err == nil && len(found) == 0 {
		err = errors.New("no address")
	}
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", host, err)
	}
	addresses := make([]netip.Addr, 0, len(found))
	for _, a := range found[:min(len(found), maxAddresses)] {
		addresses = append(addresses, a.Unmap())
	}
	n.mu.Lock()
	n.last = addresses
	n.mu.Unlock()
	return addresses, nil
}

// addresses are those to try now: what the name leads to, or led to when it leads nowhere.
func (n *names) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := n.lookup(ctx, host)
	if err == nil {
		return found, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.last) > 0 && ctx.Err() == nil {
		return n.last, nil
	}
	return nil, err
}

// missed counts in how many answers in a row an address was missing. No answer counts as
// nothing: a tunnel that works is better than a name that does not.
func (n *names) missed(ctx context.Context, host string, address netip.Addr, misses int) int {
	found, err := n.lookup(ctx, host)
	switch {
	case err != nil:
		return misses
	case slices.Contains(found, address):
		return 0
	}
	return misses + 1
}

// connect dials the server, or the proxy on the way to it.
func (c *Client) connect(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("connect to %q: %w", address, err)
	}
	if host != c.url.Hostname() {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, fmt.Errorf("connect to the proxy: %w", err)
		}
		return c.socket(conn), nil
	}
	found, err := c.names.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	var failed error
	for i := range found {
		// The one that failed last time, if only after it was connected to, is not first again.
		a := found[(i+c.backoff.Failures())%len(found)]
		conn, err := connectWithin(ctx, share(ctx, len(found)-i), network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return c.socket(conn), nil
		}
		failed = err
	}
	return nil, failed
}

// share is the part of the time left that one of several tries may take.
func share(ctx context.Context, tries int) time.Duration {
	left := handshakeLimit
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	return max(left/time.Duration(tries), minConnect)
}

func connectWithin(ctx context.Context, limit time.Duration, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

func (c *Client) socket(conn net.Conn) *socket {
	s := newSocket(conn, c.now)
	s.silence = c.times.silence
	return s
}

// direct is the address of the server that a connection leads to; none when the server's
// name is an address itself, or a proxy looks it up.
func (c *Client) direct(remote net.Addr) netip.Addr {
	if _, err := netip.ParseAddr(c.url.Hostname()); err == nil {
		return netip.Addr{}
	}
	if proxy, err := c.dialer.Proxy(c.request()); err != nil || proxy != nil {
		return netip.Addr{}
	}
	used, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return netip.Addr{}
	}
	return used.Addr().Unmap()
}
