// Package power cuts the power of the other end of a connection.
package power

import (
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/tunnel/peer"
)

// Cut has the kernel of one end of a connection, which may be below TLS, take nothing more of it and say nothing by itself, and so
// answer nothing.
func Cut(t testing.TB, conn net.Conn) {
	t.Helper()
	raw, err := peer.Bottom(conn).(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		if failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE, 0); failed == nil {
			failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop[0]})
		}
	}); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
}
