// Package peer has the kernel look after a connection: whether the host at its other end is still there, and how much waits to be sent
// to it. A host that lost its power, or its network, says nothing of it. The kernel asks one that was silent for a sign of life, and
// the other kernel answers, however busy the programs on both hosts are; no program of either wakes up.
package peer

import (
	"net"
	"time"
)

// The kernel asks a host that was silent for probeAfter, each probeEvery anew, and ends the connection after Timeout: four probes
// have to be lost.
const (
	probeAfter = 3 * time.Second
	probeEvery = time.Second
	probes     = 4
	// Timeout is how long a host that does not answer is believed to be there.
	Timeout = probeAfter + probes*probeEvery
	// LateAnswer is the silence from which on a host has not just had nothing to say.
	LateAnswer = probeAfter + probeEvery
	// TooSilent is Timeout for what is no probe, and lies between two of them.
	TooSilent = Timeout - probeEvery/2
	// unsentLimit is what a socket takes beyond what it has sent, in bytes: enough to keep a fast line busy.
	unsentLimit = 128 << 10
)

// Watch has the kernel end a connection within Timeout of the last sign of life of its host, both when data are under way and when
// none are. Data that are sent to a host that was silent before count from then alone; see AfterSending.
func Watch(conn net.Conn) {
	conn = Bottom(conn)
	if c, ok := conn.(interface {
		SetKeepAliveConfig(net.KeepAliveConfig) error
	}); ok {
		_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: probeEvery, Count: probes})
	}
	setUserTimeout(conn, TooSilent)
}

// AfterSending calls lost when the host of a connection, which was silent for so long before something is sent to it, has still said
// nothing at the end of Timeout. The kernel counts from the first repetition of what was sent last, and not the silence before.
// silence is asked again then.
func AfterSending(before time.Duration, silence func() time.Duration, lost func()) {
	if before <= time.Second {
		return
	}
	time.AfterFunc(max(Timeout-before, time.Second), func() {
		if silence() >= TooSilent {
			lost()
		}
	})
}

// KeepUnsentShort lets little wait in the socket below a connection. What waits there cannot be passed by what is more urgent.
func KeepUnsentShort(conn net.Conn) { limitUnsent(Bottom(conn), unsentLimit) }

// Silence is how long the kernel has heard nothing of the peer, not even a confirmation; zero when that is not known.
func Silence(conn net.Conn) time.Duration { return silence(Bottom(conn)) }

// Bottom is the connection below TLS and other layers that show what is below them.
func Bottom(conn net.Conn) net.Conn {
	for {
		c, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = c.NetConn()
	}
}
