//go:build !linux

// How long sent data may stay unanswered is the system's own choice elsewhere.

package fanout

import (
	"net"
	"time"
)

func setUserTimeout(net.Conn, time.Duration) {}
