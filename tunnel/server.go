package tunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/tunnel/mux"
)

const (
	// maxTarget is how long "network/address" may be, in bytes: clients of older releases cut it there.
	maxTarget = 100
	// maxHeaders is how much the headers of a request may be, in bytes.
	maxHeaders = 64 << 10
	// stopping is the reason that hosts get when the server ends.
	stopping = "the server is stopping"
)

// Server accepts websockets and dials through them.
type Server struct {
	o      ServerOptions
	log    *slog.Logger
	now    func() time.Time
	limits limits
	totals totals
	// silence is silenceLimit, except in tests.
	silence time.Duration
	buffers *mux.Buffers

	// order is held while a change is made and reported, so that observers hear changes in order.
	order     sync.Mutex
	observers []func(subject string, connected bool)

	mu       sync.Mutex
	subjects map[string]*subject
	proving  map[*session]bool
	pruned   time.Time
	closing  bool
	serving  sync.WaitGroup // calls of ServeHTTP; none is added once closing
}

// NewServer makes a server. It has no goroutines of its own.
func NewServer(o ServerOptions) *Server {
	s := &Server{o: o, log: o.Logger, now: o.Now, limits: usualLimits(), silence: silenceLimit, buffers: mux.NewBuffers(), subjects: map[string]*subject{}, proving: map[*session]bool{}}
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
		http.Error(w, stopping, http.StatusServiceUnavailable)
		return
	}
	defer s.serving.Done()
	if n := headerSize(r.Header); n > maxHeaders {
		http.Error(w, fmt.Sprintf("the headers of the request have %d bytes; a tunnel takes up to %d", n, maxHeaders), http.StatusRequestHeaderFieldsTooLarge)
		return
	}
	peer, err := s.authorize(r)
	if err != nil {
		refuse(w, err)
		return
	}
	protocol := ""
	if offersMux(r.Header) {
		protocol = muxProtocol
	}
	one := newSession(peer, r.RemoteAddr, s, protocol)
	stop := func() bool { return false }
	proving, ended := context.WithCancel(r.Context())
	defer ended()
	var proved sync.WaitGroup
	one.carrier.serve(hijacker{ResponseWriter: w, take: func(c net.Conn) *socket {
		one.socket = newSocket(c, s.now)
		one.socket.silence = s.silence
		one.socket.watch()
		one.socket.opened = func() { s.prove(proving, &proved, one) }
		stop = context.AfterFunc(r.Context(), func() {
			reason := farewell(r.Context())
			s.remove(one, reason) // before the host hears of it: what the subject has next is not this tunnel
			one.socket.dismiss(1001, reason)
		})
		return one.socket
	}}, r)
	stop()
	if one.socket == nil {
		return
	}
	one.socket.dismiss(1002, one.socket.lastWords()) // unless it is closed already
	reason, _ := one.socket.over()
	ended()
	proved.Wait()
	s.remove(one, reason)
	one.end("the tunnel ended: " + reason)
}

// prove gives the subject a tunnel, once it has proved itself if it has to.
func (s *Server) prove(ctx context.Context, proved *sync.WaitGroup, one *session) {
	if one.peer.Prove == nil {
		s.add(one)
		return
	}
	s.mu.Lock()
	s.proving[one] = true
	s.mu.Unlock()
	proved.Go(func() {
		defer func() { s.mu.Lock(); delete(s.proving, one); s.mu.Unlock() }()
		err := one.peer.Prove(ctx, func(ctx context.Context, to Target) (net.Conn, error) { return one.dial(ctx, to) })
		if err != nil {
			one.socket.writing.Lock() // what was asked may just be closing, and the host is to hear the reason
			one.socket.depart(1008, err.Error(), true)
			return
		}
		s.add(one)
	})
}

// farewell is what a host is sent when the context of its tunnel ends: the cause, if the
// caller gave one.
func farewell(ctx context.Context) string {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause.Error()
	}
	return stopping
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

// headerSize is what a request's headers take on the wire.
func headerSize(h http.Header) int {
	size := 0
	for name, values := range h {
		for _, value := range values {
			size += len(name) + len(": ") + len(value) + len("\r\n")
		}
	}
	return size
}

func (s *Server) authorize(r *http.Request) (Peer, error) {
	if s.o.Authorize == nil {
		return Peer{}, errors.New("this server accepts no tunnels")
	}
	peer, err := s.o.Authorize(r)
	if err == nil && peer.Subject == "" {
		err = errors.New("the credentials name no user")
	}
	return peer, err
}

func refuse(w http.ResponseWriter, err error) {
	code, text := http.StatusUnauthorized, err.Error()
	var chosen *HandshakeError
	if errors.As(err, &chosen) {
		code, text = chosen.Status, chosen.Text
	}
	http.Error(w, text, code)
}

// Target is what a host is asked to connect to.
type Target struct {
	// Network and Address are as net.Dial takes them on the host.
	Network, Address string
	// Patient is for a connection of a person (exec, attach, port-forward): one of its writes may
	// wait 15 minutes for a host that takes nothing, instead of 30 seconds.
	Patient bool
}

// Dial asks a subject's host to open a connection. It returns before the host has
// answered: do a handshake with the target under a time limit. A failed handshake makes the
// next Dial prefer another of the subject's tunnels, so that one retry is worthwhile.
// *NoSessionError when the subject has no open tunnel, *RefusedError when the target is
// not allowed, ErrBusy when there are too many connections. The connection's own errors are
// *TargetRefusedError and *LostError, and those of any net.Conn.
//
// A deadline of the connection that passes during a Read or Write ends the connection.
func (s *Server) Dial(ctx context.Context, subject string, to Target) (net.Conn, error) {
	candidates, err := s.candidates(subject)
	if err != nil {
		s.totals.failed(failNoSession)
		return nil, err
	}
	var failed error
	for _, one := range candidates {
		if failed = s.allowed(one.peer, to.Network, to.Address); failed != nil {
			s.totals.failed(failRefused)
			continue
		}
		c, err := one.dial(ctx, to)
		if err == nil {
			return c, nil
		}
		failed = err
		if ctx.Err() != nil {
			break
		}
	}
	var refused *RefusedError
	if errors.As(failed, &refused) {
		return nil, failed
	}
	return nil, fmt.Errorf("dial %s %s through the tunnel of %s: %w", to.Network, to.Address, subject, failed)
}

func (s *Server) allowed(peer Peer, network, address string) error {
	refused := &RefusedError{Network: network, Address: address}
	switch {
	case len(network)+1+len(address) > maxTarget:
		refused.Reason = fmt.Sprintf("the target is longer than %d bytes", maxTarget-1)
	case network == "" || strings.Contains(network, "/") || strings.Contains(network, ":"):
		refused.Reason = "no such network"
	case s.o.Allow == nil:
		refused.Reason = "this server dials nothing"
	default:
		err := s.o.Allow(peer, network, address)
		if err == nil {
			return nil
		}
		refused.Reason = err.Error()
	}
	return refused
}

// Close ends all tunnels, waits until they have ended and accepts no more. An http.Server does not know of
// connections that were taken over, so its Shutdown leaves them open.
func (s *Server) Close() {
	s.mu.Lock()
	s.closing = true
	open := slices.Collect(maps.Keys(s.proving))
	for _, all := range s.subjects {
		open = append(open, all.sessions...)
	}
	s.mu.Unlock()
	for _, one := range open {
		go one.socket.dismiss(1001, stopping) // its ServeHTTP is waited for below
	}
	s.serving.Wait()
}
