// The way to a host for an engine that expects connections as those of net.Dial: over a tunnel, a connection that the host could
// not open looks like any other until something is read from it.

package rke1

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/dial"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/tunnel"
)

// refusalWithin is how long a host may take to say that it could not open a TCP connection. A host that has said nothing has
// opened it: what is asked there speaks TLS or HTTP, and waits for the client to speak first. Most of those who connect need not
// know, as they read what the host said anyway; the wait is for those who do.
const refusalWithin = 500 * time.Millisecond

// dialer is the way to the host of a node.
func (c *Clusters) dialer(machines []records.Machine) func(config.Node) dial.Dialer {
	subjects := map[string]records.Subject{}
	for _, m := range machines {
		subjects[desired.Address(m)] = m.Subject()
	}
	return func(n config.Node) dial.Dialer {
		subject, known := subjects[n.Address]
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			if !known {
				return nil, fmt.Errorf("host %s is not registered any more", n.Address)
			}
			// A tunnel's targets are addresses.
			if port, local := strings.CutPrefix(address, "localhost:"); local && network == "tcp" {
				address = net.JoinHostPort("127.0.0.1", port)
			}
			conn, err := c.Dial(ctx, subject, tunnel.Target{Network: network, Address: address})
			if err != nil || network != "tcp" {
				return conn, err
			}
			return &tentative{Conn: conn, within: refusalWithin}, nil
		}
	}
}

// tentative is a connection of which something may be read before its owner reads.
type tentative struct {
	net.Conn
	within time.Duration
	ahead  chan read // nil, or has what is read ahead, once
	rest   read      // what is left of that
}

type read struct {
	b   []byte
	err error
}

// Confirm implements dial.Tentative. It reads ahead for that; what it read comes first when the owner reads.
func (c *tentative) Confirm(ctx context.Context) error {
	ahead := make(chan read, 1)
	go func() { // ends with the connection, at the latest
		b := make([]byte, 4096)
		n, err := c.Conn.Read(b)
		ahead <- read{b[:n], err}
	}()
	timer := time.NewTimer(c.within)
	defer timer.Stop()
	select {
	case first := <-ahead:
		if first.err != nil && len(first.b) == 0 {
			return first.err
		}
		ahead <- first
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.ahead = ahead
	return nil
}

// Read implements net.Conn.
func (c *tentative) Read(p []byte) (int, error) {
	if c.ahead != nil {
		c.rest, c.ahead = <-c.ahead, nil
	}
	if len(c.rest.b) == 0 && c.rest.err == nil {
		return c.Conn.Read(p)
	}
	n := copy(p, c.rest.b)
	c.rest.b = c.rest.b[n:]
	if len(c.rest.b) > 0 {
		return n, nil
	}
	err := c.rest.err
	if n > 0 {
		return n, nil // the error comes with the next read
	}
	return n, err
}
