//go:build !linux

package tunnel

import "net"

// keepUnsentShort does nothing where it is not known how.
func keepUnsentShort(net.Conn) {}
