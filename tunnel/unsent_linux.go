// How much of what is written waits in the operating system.

package tunnel

import (
	"crypto/tls"
	"net"
	"syscall"
)

const (
	// unsentLimit is what a socket takes beyond what it has sent, in bytes: enough to keep a
	// fast line busy. Whatever waits there cannot be passed by what is more urgent.
	unsentLimit = 128 << 10
	// tcpNotSentLowat is TCP_NOTSENT_LOWAT of tcp(7).
	tcpNotSentLowat = 25
)

// keepUnsentShort lets little wait in the socket below a connection, as far as it is TCP;
// elsewhere nothing is lost but time.
func keepUnsentShort(c net.Conn) {
	for {
		switch below := c.(type) {
		case *tls.Conn:
			c = below.NetConn()
		case *socket:
			c = below.Conn
		case syscall.Conn:
			if raw, err := below.SyscallConn(); err == nil {
				_ = raw.Control(func(fd uintptr) {
					_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, unsentLimit)
				})
			}
			return
		default:
			return
		}
	}
}
