//go:build unix

package cli

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp says whether both directions of a unix socket have ended.
func hungUp(raw syscall.RawConn) bool { return hungUpBy(unix.Poll, raw) }

// hungUpBy asks by poll(2). A signal interrupts even a question that does not wait, and says nothing of the socket;
// the Go runtime sends such signals to itself when much is going on.
func hungUpBy(poll func([]unix.PollFd, int) (int, error), raw syscall.RawConn) bool {
	gone := true
	_ = raw.Control(func(fd uintptr) { // its error is that the connection is closed
		ends := []unix.PollFd{{Fd: int32(fd)}} // #nosec G115 -- the descriptor of an open file
		_, err := poll(ends, 0)
		for errors.Is(err, unix.EINTR) {
			_, err = poll(ends, 0)
		}
		if err == nil {
			gone = ends[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
		}
	})
	return gone
}
