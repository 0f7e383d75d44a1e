//go:build unix

// Waiting for a client to leave, without a read that would keep a deep stack and
// buffers: only the socket's readiness is waited for.

package fanout

import (
	"errors"
	"net"
	"syscall"

	"github.com/drover-project/drover/tunnel/peer"
)

// awaitReadable blocks until the socket has something to read, or is closed. It returns
// at once for connections that are no sockets.
func awaitReadable(conn net.Conn) {
	c, ok := peer.Bottom(conn).(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		// What came before the wait began is seen by looking; what comes later wakes the wait.
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		return !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
}
