// One accepted websocket: whether it can be trusted with a dial, and the connections
// that live in it.

package tunnel

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/rancher/remotedialer"
)

type session struct {
	subject string
	key     string // the library's name of the session; it is the only one of its library server
	since   time.Time
	now     func() time.Time
	dialer  remotedialer.Dialer
	socket  *socket // nil until the upgrade took the connection over

	mu     sync.Mutex
	open   map[*conn]struct{} // nil once the websocket is gone
	failed time.Time          // when a dial last failed; zero after one that was answered
}

func newSession(subject string, now func() time.Time) *session {
	return &session{subject: subject, key: "only", since: now(), now: now, open: map[*conn]struct{}{}}
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

// dial sends the request to connect.
func (s *session) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	over, busy := s.open == nil, len(s.open) >= maxConnections
	s.mu.Unlock()
	if over {
		return nil, errSessionOver
	}
	if busy {
		return nil, ErrBusy
	}
	raw, err := s.dialer(ctx, network, address)
	if err != nil {
		s.answered(false)
		return nil, err
	}
	c := newConn(raw, s, network, address)
	s.mu.Lock()
	over = s.open == nil
	if !over {
		s.open[c] = struct{}{}
	}
	s.mu.Unlock()
	if over {
		c.Close()
		return nil, errSessionOver
	}
	return c, nil
}

// answered notes how a dial went: whether anything came back before the connection ended.
func (s *session) answered(ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok {
		s.failed = time.Time{}
	} else {
		s.failed = s.now()
	}
}

func (s *session) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// end wakes everybody who still waits on a connection of the session.
func (s *session) end() {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for c := range open {
		c.fail(errSessionOver)
	}
}
