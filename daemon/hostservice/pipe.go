// A pipe connects an HTTP server inside the agent with the tunnel that dials it.

package hostservice

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Pipe is a net.Listener without an address that others could reach: it accepts what Dial connected.
type Pipe struct {
	name     string
	incoming chan net.Conn
	stopped  chan struct{}
	once     sync.Once // closes stopped
}

// NewPipe makes a listener; the name is its address.
func NewPipe(name string) *Pipe {
	return &Pipe{name: name, incoming: make(chan net.Conn), stopped: make(chan struct{})}
}

// Dial connects to the next call of Accept. It returns an error once the pipe is closed, and the context's.
func (l *Pipe) Dial(ctx context.Context) (net.Conn, error) {
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
func (l *Pipe) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.stopped:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Pipe) Close() error {
	l.once.Do(func() { close(l.stopped) })
	return nil
}

// Addr implements net.Listener.
func (l *Pipe) Addr() net.Addr { return addr(l.name) }

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }
