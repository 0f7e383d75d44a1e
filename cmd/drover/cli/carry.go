// Carrying local connections to a host: each one that is accepted here becomes one
// through the server.

package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/drover-project/drover/tunnel"
)

// carrier accepts on a listener until its context ends.
type carrier struct {
	dial func(ctx context.Context) (io.ReadWriteCloser, error)
	// failed gets a connection that could not be carried, and may say so in it.
	failed func(local net.Conn, err error)
}

// run returns when everything has ended that it began.
func (c carrier) run(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	var open sync.WaitGroup
	defer open.Wait()
	defer cancel() // before waiting
	for {
		local, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		open.Go(func() { c.one(ctx, local) })
	}
}

func (c carrier) one(ctx context.Context, local net.Conn) {
	defer local.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	host, err := c.dial(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.failed(local, err)
		}
		return
	}
	defer context.AfterFunc(ctx, func() { local.Close(); host.Close() })()
	// However it ends, both programs see it end.
	_, _, _ = tunnel.Join(host, asProgram(local))
}

// asProgram is a local connection that notices when the program at its other end is gone, where
// the kernel knows: of TCP it does not before something is written.
func asProgram(local net.Conn) net.Conn {
	if socket, ok := local.(*net.UnixConn); ok {
		return &program{UnixConn: socket, closed: make(chan struct{})}
	}
	return local
}

// program is the other end of a unix socket.
type program struct {
	*net.UnixConn
	once   sync.Once
	closed chan struct{}
}

func (p *program) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.UnixConn.Close()
}

// WaitGone waits until the program takes nothing more either, having ended what it sends.
func (p *program) WaitGone() bool {
	raw, err := p.SyscallConn()
	if err != nil {
		return true
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for !hungUp(raw) {
		select {
		case <-p.closed:
			return true
		case <-ticker.C:
		}
	}
	return true
}
