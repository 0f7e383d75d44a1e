//go:build !linux

// What the system does for a connection is its own affair elsewhere; nothing is lost but time.

package peer

import (
	"net"
	"time"
)

func silence(net.Conn) time.Duration { return 0 }

func setUserTimeout(net.Conn, time.Duration) {}

func limitUnsent(net.Conn, int) {}
