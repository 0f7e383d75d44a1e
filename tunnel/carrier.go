// The protocol spoken over one websocket, apart from everything that holds for any.

package tunnel

import (
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/rancher/remotedialer"
)

// carrier carries connections over the websocket of one session in one protocol.
type carrier interface {
	// protocol is its name, for people.
	protocol() string
	// chunk is how much of a Write it takes at a time, in bytes.
	chunk() int
	// paused is how many connections the host asked to send nothing, as far as session.see does not know.
	paused() int
	// serve answers the request with an upgrade and carries until the websocket has ended.
	serve(h hijacker, r *http.Request)
	// dial asks the host to open a connection, which can be used before the host has answered.
	dial(ctx context.Context, network, address string) (net.Conn, error)
}

// library is the carrier of the original protocol.
type library struct {
	see      func(part) error
	server   *remotedialer.Server
	through  remotedialer.Dialer
	answered sync.Once // the request, with an error
}

// newLibrary has a server of the library for itself: the library holds one lock for all
// websockets of a server while it says good-bye to a dead one.
func newLibrary(see func(part) error) *library {
	const only = "only" // the session's key in its server
	l := &library{see: see}
	authorize := func(*http.Request) (string, bool, error) { return only, true, nil }
	l.server = remotedialer.New(authorize, l.refuse)
	l.through = l.server.Dialer(only)
	return l
}

func (*library) protocol() string { return "remotedialer" }
func (*library) chunk() int       { return maxChunk }
func (*library) paused() int      { return 0 }

func (l *library) serve(h hijacker, r *http.Request) {
	take := h.take
	h.take = func(c net.Conn) *socket {
		s := take(c)
		s.frames = &frames{see: l.see, now: s.now}
		return s
	}
	l.server.ServeHTTP(h, r)
}

func (l *library) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return l.through(ctx, network, address)
}

// refuse answers a request that cannot be upgraded; the library calls it twice.
func (l *library) refuse(w http.ResponseWriter, _ *http.Request, code int, err error) {
	l.answered.Do(func() { http.Error(w, err.Error(), code) })
}
