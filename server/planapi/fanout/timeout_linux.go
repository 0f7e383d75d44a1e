// How long sent data may stay unanswered, where the system lets us say.

package fanout

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout limits how long the kernel repeats data that the peer does not
// acknowledge; its own limit is a quarter of an hour.
func setUserTimeout(conn net.Conn, limit time.Duration) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
}
