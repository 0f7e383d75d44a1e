// The way to a host for an engine that expects connections as those of net.Dial: over a tunnel, a connection that the host could
// not open looks like any other until something is read from it.

package rke

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/dial"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/want"
	"github.com/drover-project/drover/tunnel"
)

// refusalWithin is how long a host may take to say that it could not open a TCP connection. One that has said nothing has
// opened it: what is asked there speaks TLS or HTTP, and waits for the client to speak first.
const refusalWithin = 500 * time.Millisecond

// dialer is the way to the host of a node.
func (r *Runner) dialer(machines []records.Machine) func(config.Node) dial.Dialer {
	subjects := map[string]records.Subject{}
	for _, m := range machines {
		subjects[want.Address(m)] = m.Subject()
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
			conn, err := r.Dial(ctx, subject, tunnel.Target{Network: network, Address: address})
			if err != nil || network != "tcp" {
				return conn, err
			}
			return confirm(ctx, conn, refusalWithin)
		}
	}
}

// confirm waits for the refusal of a connection. It reads ahead for that; what it read comes first in the connection that it
// returns. A connection that was refused is closed.
func confirm(ctx context.Context, conn net.Conn, within time.Duration) (net.Conn, error) {
	c := &confirmed{Conn: conn, ahead: make(chan read, 1)}
	go func() { // ends with the connection, at the latest
		b := make([]byte, 4096)
		n, err := conn.Read(b)
		c.ahead <- read{b[:n], err}
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case first := <-c.ahead:
		if first.err != nil && len(first.b) == 0 {
			conn.Close()
			return nil, first.err
		}
		c.ahead <- first
	case <-timer.C:
	case <-ctx.Done():
		conn.Close()
		return nil, context.Cause(ctx)
	}
	return c, nil
}

// confirmed is a connection of which something may have been read already.
type confirmed struct {
	net.Conn
	ahead chan read // has what was read ahead, once
	rest  read      // what is left of that
	begun bool
}

type read struct {
	b   []byte
	err error
}

// Read implements net.Conn.
func (c *confirmed) Read(p []byte) (int, error) {
	if !c.begun {
		c.rest, c.begun = <-c.ahead, true
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
