// One accepted websocket: whether it can be trusted with a dial, and the connections
// that live in it.

package tunnel

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// silent is how long a healthy websocket may say nothing; clients ping every 5 s.
	silent = 15 * time.Second
	// penalty is how long a websocket with a failed dial stands behind the others.
	penalty = 30 * time.Second
	// requestLimit is how long the request to connect may wait to be written.
	requestLimit = 5 * time.Second
)

// PatientStall is how long a write of a patient Target may wait.
const PatientStall = 15 * time.Minute

// limits are what one session and its connections may take.
type limits struct {
	connections int           // at a time
	unread      int64         // bytes that a connection may hold because they are not read
	idle        time.Duration // without traffic, until a connection is closed
	stall       time.Duration // that a write may wait
	patient     time.Duration // the same for a patient Target
	// linger is how long after Close the host may end the connection by itself, as a target
	// does that was asked to in its own protocol (TLS). The library is not made for both
	// ends to close in the same instant (rancher/remotedialer issue 254).
	linger time.Duration
}

func usualLimits() limits {
	return limits{
		connections: 1000,
		// A peer is asked to pause at 2 MiB; what was on its way by then still comes.
		unread: 32 << 20,
		// The log of a pod that says nothing overnight is still followed; a websocket whose host is gone ends within silent.
		idle:    24 * time.Hour,
		stall:   30 * time.Second,
		patient: PatientStall,
		// A stopped host costs one try; the next goes through another tunnel.
		linger: 50 * time.Millisecond,
	}
}

type session struct {
	peer    Peer
	remote  string
	since   time.Time
	now     func() time.Time
	limits  limits
	totals  *totals
	carrier carrier
	socket  *socket // nil until the upgrade took the connection over

	dialing sync.Mutex // held during the library's dial, so that numbers are in its order
	in, out atomic.Int64

	mu       sync.Mutex
	open     map[int64]*conn // by the protocol's number; nil once the websocket is gone
	next     int64           // number of the next connection
	paused   int             // connections that the host asked to pause
	failed   time.Time       // when a dial last failed; zero after one that was answered
	good     time.Time       // when a dial was last answered
	dials    int64
	failures int64
}

func newSession(peer Peer, remote string, s *Server, protocol string) *session {
	one := &session{
		peer: peer, remote: remote, since: s.now(), now: s.now, limits: s.limits, totals: &s.totals,
		open: map[int64]*conn{}, next: 2, // the first number that a server gives, a wire fact
	}
	record := func(kind string, conn, size int64) {
		s.log.Debug("tunnel message", "subject", peer.Subject, "kind", kind, "connection", conn, "bytes", size)
	}
	if protocol == muxProtocol {
		var trace func(string, uint64, int)
		if s.o.Messages {
			trace = func(kind string, conn uint64, size int) { record(kind, int64(conn), int64(size)) } // #nosec G115 -- a count from 1
		}
		one.limits.linger = 0 // either end may close when it likes
		one.carrier = newMultiplexed(one, s.buffers, trace)
		return one
	}
	see := one.see
	if s.o.Messages {
		see = func(p part) error {
			record(p.messageType.String(), p.conn, p.payload)
			return one.see(p)
		}
	}
	one.carrier = newLibrary(see)
	return one
}

// healthy says whether the session was heard of lately and its last dial did not fail.
func (s *session) healthy(now time.Time) bool {
	if now.Sub(s.socket.lastHeard()) > silent {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed.IsZero() || now.Sub(s.failed) > penalty
}

// dial sends the request to connect. It waits for room in the websocket, not for the host.
func (s *session) dial(ctx context.Context, to Target) (*conn, error) {
	c := newConn(s, to.Network, to.Address)
	if to.Patient {
		c.stall = s.limits.patient
	}
	if err := s.admit(); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, requestLimit)
	done := make(chan error, 1)
	go func() {
		done <- s.request(limited, c, to.Network, to.Address)
		cancel()
	}()
	select {
	case err := <-done:
		return c, err
	case <-limited.Done():
	}
	select {
	case err := <-done:
		return c, err
	default:
		// The request may still be written; then its connection is closed at once.
		c.fail(context.Cause(limited))
		return nil, fmt.Errorf("the tunnel takes no request to connect: %w", context.Cause(limited))
	}
}

func (s *session) admit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.open == nil:
		return errSessionOver
	case len(s.open) >= s.limits.connections:
		s.totals.failed(failBusy)
		return ErrBusy
	}
	s.dials++
	return nil
}

// request gives the connection the number that the library is going to give it, since what
// comes for it may come before the library returns.
func (s *session) request(ctx context.Context, c *conn, network, address string) error {
	s.dialing.Lock()
	defer s.dialing.Unlock()
	s.mu.Lock()
	if s.open == nil {
		s.mu.Unlock()
		return errSessionOver
	}
	c.number = s.next
	s.next++
	s.open[c.number] = c
	s.mu.Unlock()
	raw, err := s.carrier.dial(ctx, network, address)
	if err != nil {
		err = c.lost("the request to connect could not be sent: " + oneLine(err.Error()))
		c.fail(err)
		s.forget(c) // also when it was given up before it had a number
		return err
	}
	c.begin(raw)
	return nil
}

// see looks at what comes over the websocket before the library acts on it.
func (s *session) see(p part) error {
	switch p.messageType {
	case typeConnect:
		return violationf("it asked the server to connect somewhere, which only the server may ask of it")
	case typeAddClient, typeRemoveClient:
		return violationf("it announced other clients, which only another server may do")
	case typeData, typePause, typeResume:
	default:
		return nil
	}
	s.mu.Lock()
	c := s.open[p.conn]
	if c != nil && p.messageType != typeData {
		s.pause(c, p.messageType == typePause)
	}
	s.mu.Unlock()
	if c != nil && p.messageType == typeData && c.received.Add(p.payload)-c.consumed.Load() > s.limits.unread {
		return violationf("it sent more than %d bytes on a connection that it was asked to pause", s.limits.unread)
	}
	return nil
}

// pause is called with mu held.
func (s *session) pause(c *conn, paused bool) {
	if c.paused == paused {
		return
	}
	c.paused = paused
	if paused {
		s.paused++
	} else {
		s.paused--
	}
}

// settled notes how a dial went, once: whether the host can be relied on for another.
func (s *session) settled(c *conn, ok bool, reason failure) {
	s.mu.Lock()
	now := s.now()
	if ok {
		s.failed, s.good = time.Time{}, now
	} else if reason != failGaveUp {
		s.failed = now
	}
	if reason != "" && reason != failGaveUp {
		s.failures++
	}
	s.mu.Unlock()
	if reason != "" {
		s.totals.failed(reason)
		return
	}
	s.totals.answered(now.Sub(c.begun))
}

func (s *session) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[c.number] == c {
		delete(s.open, c.number)
		s.pause(c, false)
	}
}

// end wakes everybody who still waits on a connection of the session.
func (s *session) end(reason string) {
	s.mu.Lock()
	open := s.open
	s.open, s.paused = nil, 0
	s.mu.Unlock()
	for _, c := range open {
		c.fail(c.lost(reason))
	}
}

func (s *session) info(now time.Time) SessionInfo {
	healthy := s.healthy(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	return SessionInfo{
		Subject: s.peer.Subject, Kind: s.peer.Kind, Agent: s.peer.Agent, Protocol: s.carrier.protocol(), Remote: s.remote,
		Since: s.since, LastHeard: s.socket.lastHeard(), LastAnswer: s.good, Healthy: healthy,
		Connections: len(s.open), Paused: s.paused + s.carrier.paused(), Dials: s.dials, Failures: s.failures,
		BytesIn: s.in.Load(), BytesOut: s.out.Load(),
	}
}
