// Package pipe connects an HTTP server inside the agent with the tunnel that dials it:
// a net.Listener without an address that anybody else could reach.
package pipe

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Listener accepts what Dial connected.
type Listener struct {
	name     string
	incoming chan net.Conn
	stopped  chan struct{}
	once     sync.Once // closes stopped
}

// Listen makes a listener; the name is its address.
func Listen(name string) *Listener {
	return &Listener{name: name, incoming: make(chan net.Conn), stopped: make(chan struct{})}
}

// Dial connects to whoever accepts next.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.incoming <- there:
		return here, nil
	case <-l.stopped:
		return nil, errors.New("the agent is stopping")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.stopped:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.stopped) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return addr(l.name) }

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }
