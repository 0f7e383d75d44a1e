package tunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rancher/remotedialer"
)

const (
	// maxTarget is how long "network/address" may be, in bytes: clients of older releases cut it there.
	maxTarget = 100
	// maxConnections is how many connections one websocket carries at a time.
	maxConnections = 1000
	// silent is how long a healthy websocket may say nothing; clients ping every 5 s.
	silent = 15 * time.Second
	// penalty is how long a websocket with a failed dial stands behind the others.
	penalty = 30 * time.Second
)

// ErrBusy says that every tunnel of a subject carries as many connections as it may.
var ErrBusy = errors.New("too many connections through the tunnel")

// Server accepts websockets and dials through them.
type Server struct {
	o   ServerOptions
	log *slog.Logger
	now func() time.Time

	// order is held while a change is made and told, so that observers hear changes in order.
	order     sync.Mutex
	observers []func(subject string, connected bool)

	mu       sync.Mutex
	subjects map[string]*subject
	closing  bool
	serving  sync.WaitGroup // calls of ServeHTTP; none is added once closing
}

// subject is who is at the other end, with all its websockets in the order they came.
type subject struct {
	sessions []*session
	gone     time.Time // when the last of them ended; zero while one is open
}

// NewServer makes a server. It has no goroutines of its own.
func NewServer(o ServerOptions) *Server {
	s := &Server{o: o, log: o.Logger, now: o.Now, subjects: map[string]*subject{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// ServeHTTP accepts one websocket and serves it until it ends, the request's context
// ends, or the server is closed.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		http.Error(w, "the server is stopping", http.StatusServiceUnavailable)
		return
	}
	defer s.serving.Done()
	name, err := s.authorize(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	one := newSession(name, s.now)
	// Each websocket has a library server of its own: the library holds one lock for all
	// websockets of a server while it says good-bye to a dead one.
	library := remotedialer.New(func(*http.Request) (string, bool, error) { return one.key, true, nil }, writeError)
	one.dialer = library.Dialer(one.key)
	stop := func() bool { return false }
	library.ServeHTTP(hijacker{ResponseWriter: w, take: func(c net.Conn) *socket {
		one.socket = newSocket(c, s.now)
		one.socket.opened = func() { s.add(one) }
		stop = context.AfterFunc(r.Context(), func() { one.socket.Close() })
		return one.socket
	}}, r)
	stop()
	if one.socket == nil {
		return
	}
	one.socket.Close()
	s.remove(one)
	one.end()
}

func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.serving.Add(1)
	return true
}

func (s *Server) authorize(r *http.Request) (string, error) {
	if s.o.Authorize == nil {
		return "", errors.New("this server accepts no tunnels")
	}
	name, err := s.o.Authorize(r)
	if err == nil && name == "" {
		err = errors.New("the credentials name nobody")
	}
	return name, err
}

func writeError(w http.ResponseWriter, _ *http.Request, code int, err error) {
	http.Error(w, err.Error(), code)
}

// add is called once the library serves the session.
func (s *Server) add(one *session) {
	s.order.Lock()
	defer s.order.Unlock()
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		one.socket.Close()
		return
	}
	all := s.subjects[one.subject]
	if all == nil {
		all = &subject{}
		s.subjects[one.subject] = all
	}
	all.sessions = append(all.sessions, one)
	all.gone = time.Time{}
	first := len(all.sessions) == 1
	s.mu.Unlock()
	s.log.Info("tunnel opened", "subject", one.subject, "from", one.socket.RemoteAddr().String())
	if first {
		s.tell(one.subject, true)
	}
}

func (s *Server) remove(one *session) {
	s.order.Lock()
	defer s.order.Unlock()
	s.mu.Lock()
	all := s.subjects[one.subject]
	i := -1
	if all != nil {
		i = slices.Index(all.sessions, one)
	}
	if i < 0 {
		s.mu.Unlock()
		return
	}
	all.sessions = slices.Delete(all.sessions, i, i+1)
	last := len(all.sessions) == 0
	if last {
		all.gone = s.now()
	}
	s.mu.Unlock()
	s.log.Info("tunnel ended", "subject", one.subject)
	if last {
		s.tell(one.subject, false)
	}
}

func (s *Server) tell(subject string, connected bool) {
	for _, f := range s.observers {
		f(subject, connected)
	}
}

// Dial asks a subject's host to open a connection. It returns before the host has
// answered: do a handshake with the target under a time limit. A failed handshake makes
// the next Dial prefer another of the subject's tunnels, so that one retry is worthwhile.
// *NoSessionError when the subject has no open tunnel, *RefusedError when the target is
// not allowed, ErrBusy when there are too many connections.
//
// A deadline of the connection that passes during a Read or Write ends the connection.
func (s *Server) Dial(ctx context.Context, subject, network, address string) (net.Conn, error) {
	if err := s.allowed(subject, network, address); err != nil {
		return nil, err
	}
	candidates, err := s.candidates(subject)
	if err != nil {
		return nil, err
	}
	var failed error
	for _, one := range candidates {
		c, err := one.dial(ctx, network, address)
		if err == nil {
			return c, nil
		}
		failed = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("dial %s %s through the tunnel of %s: %w", network, address, subject, failed)
}

func (s *Server) allowed(subject, network, address string) error {
	refused := &RefusedError{Network: network, Address: address}
	switch {
	case len(network)+1+len(address) > maxTarget:
		refused.Reason = fmt.Sprintf("the target is longer than %d bytes", maxTarget-1)
	case network == "" || strings.Contains(network, "/") || strings.Contains(network, ":"):
		refused.Reason = "no such network"
	case s.o.Allow == nil:
		refused.Reason = "this server dials nothing"
	default:
		err := s.o.Allow(subject, network, address)
		if err == nil {
			return nil
		}
		refused.Reason = err.Error()
	}
	return refused
}

// candidates are the subject's sessions, the one to try first in front.
func (s *Server) candidates(subject string) ([]*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.subjects[subject]
	if all == nil || len(all.sessions) == 0 {
		e := &NoSessionError{Subject: subject}
		if all != nil {
			e.Last = all.gone
		}
		return nil, e
	}
	now := s.now()
	var good, doubtful []*session
	for _, one := range slices.Backward(all.sessions) { // newest first
		if one.healthy(now) {
			good = append(good, one)
		} else {
			doubtful = append(doubtful, one)
		}
	}
	return append(good, doubtful...), nil
}

// Connected says whether the subject has an open tunnel, and since when the oldest of
// those open; when it has none, since when it is gone (zero: never seen).
func (s *Server) Connected(subject string) (since time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.subjects[subject]
	switch {
	case all == nil:
		return time.Time{}, false
	case len(all.sessions) == 0:
		return all.gone, false
	default:
		return all.sessions[0].since, true
	}
}

// OnChange adds a function that is called when a subject's first tunnel opens and when
// its last one ends, in order. It must neither block nor call OnChange.
func (s *Server) OnChange(f func(subject string, connected bool)) {
	s.order.Lock()
	defer s.order.Unlock()
	s.observers = append(s.observers, f)
}

// Close ends all tunnels, waits until they have ended and accepts no more. An http.Server does not know of
// connections that were taken over, so its Shutdown leaves them open.
func (s *Server) Close() {
	s.mu.Lock()
	s.closing = true
	var open []*session
	for _, all := range s.subjects {
		open = append(open, all.sessions...)
	}
	s.mu.Unlock()
	for _, one := range open {
		one.socket.Close()
	}
	s.serving.Wait()
}
