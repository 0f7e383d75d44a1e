// How long a peer has been silent, how long sent data may stay unanswered, and how much may wait, where the system lets us say.

package peer

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func silence(conn net.Conn) (d time.Duration) {
	control(conn, func(fd int) {
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			d = time.Duration(min(info.Last_ack_recv, info.Last_data_recv)) * time.Millisecond
		}
	})
	return d
}

// setUserTimeout limits how long the kernel repeats data that the peer does not acknowledge; its own limit is a quarter of
// an hour.
func setUserTimeout(conn net.Conn, limit time.Duration) {
	control(conn, func(fd int) {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
}

// limitUnsent limits what the socket takes beyond what it has sent, in bytes.
func limitUnsent(conn net.Conn, limit int) {
	control(conn, func(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, limit) })
}

// control calls f with the socket of a connection that has one.
func control(conn net.Conn, f func(fd int)) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // #nosec G115 -- a file descriptor
}
