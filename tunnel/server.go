package tunnel

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Server accepts websockets and dials through them.
type Server struct {
	o ServerOptions
}

// NewServer makes a server. It has no goroutines of its own.
func NewServer(o ServerOptions) *Server { return &Server{o: o} }

// ServeHTTP accepts one websocket and serves it until it ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {}

// Dial asks a subject's host to open a connection. It returns before the host has
// answered: do a handshake with the target under a time limit. *NoSessionError when the
// subject has no open tunnel, *RefusedError when the target is not allowed.
func (s *Server) Dial(ctx context.Context, subject, network, address string) (net.Conn, error) {
	return nil, errors.New("not yet")
}

// Connected says whether the subject has an open tunnel, and since when the oldest of
// those open; when it has none, since when it is gone (zero: never seen).
func (s *Server) Connected(subject string) (since time.Time, ok bool) { return time.Time{}, false }

// OnChange adds a function that is called when a subject's first tunnel opens and when
// its last one ends, in order. It must not block.
func (s *Server) OnChange(f func(subject string, connected bool)) {}
