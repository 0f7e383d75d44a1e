// Carrying local connections to a host: each one that is accepted here becomes one
// through the server.

package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// carrier accepts on a listener until its context ends.
type carrier struct {
	dial func(ctx context.Context) (io.ReadWriteCloser, error)
	// failed is told of a connection that could not be carried, and may say so in it.
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
	defer host.Close()
	stop := context.AfterFunc(ctx, func() { local.Close(); host.Close() })
	defer stop()
	var out sync.WaitGroup
	defer out.Wait()
	out.Go(func() {
		_, err := io.Copy(host, local)
		// A tunnel cannot say that one direction has ended. A program that only sends no more
		// still wants the answer, so the connection stays until the program has closed it.
		if err == nil {
			untilClosed(ctx, local)
		}
		host.Close()
	})
	_, _ = io.Copy(local, host) // whichever side ends it, it is over
	cancel()
}

// untilClosed waits until the program at the other end of a connection that sends no more
// takes no more either, or ctx ends.
func untilClosed(ctx context.Context, local net.Conn) {
	socket, ok := local.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for !hungUp(raw) {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// hungUp says whether both directions have ended. Of TCP the kernel does not know before
// something is written, so there the end of one direction counts.
func hungUp(raw syscall.RawConn) bool {
	gone := true
	_ = raw.Control(func(fd uintptr) { // its error is that the connection is closed
		if kind, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || kind != unix.AF_UNIX {
			return
		}
		poll := []unix.PollFd{{Fd: int32(fd)}}
		if _, err := unix.Poll(poll, 0); err == nil {
			gone = poll[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
		}
	})
	return gone
}
