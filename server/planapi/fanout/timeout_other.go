//go:build !linux

// How long a peer has been silent, and how long sent data may stay unanswered, is the system's own affair elsewhere.

package fanout

import (
	"net"
	"time"
)

func silence(net.Conn) time.Duration { return 0 }

func setUserTimeout(net.Conn, time.Duration) {}
