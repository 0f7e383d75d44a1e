//go:build !unix

// Waiting for a client to leave where sockets cannot be looked at.

package fanout

import "net"

func awaitReadable(net.Conn) {}
