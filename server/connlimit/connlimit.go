// Package connlimit bounds what connections hold without a login: how many one
// source may have, how many are begun at once, how long one may say nothing, how long a body may stall, and how long a client may read nothing. Watches
// and tunnels, which wait for hours by design, are bounded where they write, by no client's
// reading of what was sent.
package connlimit

import (
	"cmp"
	"container/list"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// WriteStall is how long one write may wait for a client that reads nothing.
	WriteStall = 30 * time.Second
	// BodyStall is how long nothing may come of a body, and BodyLimit how long all of it may take.
	BodyStall = 20 * time.Second
	BodyLimit = 5 * time.Minute
	// AtOnce is how many connections are begun at once: several groups of writes of the store, so that the disk is never
	// what waits.
	AtOnce = 128
	// Waiting is how many connections are held that were not begun: those that have said nothing, and those that wait for
	// their turn. SilentWithin is how long one may say nothing, which is as long as a header may take afterwards.
	Waiting      = 8192
	SilentWithin = 10 * time.Second
	// SilentPerSource is how many connections of one source may have said nothing. It leaves half of the room to others, and is
	// what as many hosts behind one address need that connect within one round trip.
	SilentPerSource = 4096
	// BeginWithin is how long a turn lasts before the first byte of a request, so that hosts far away and hosts that go
	// silent keep no other waiting; AnswerWithin is how long it lasts from there to the answer.
	BeginWithin  = 250 * time.Millisecond
	AnswerWithin = time.Second
)

// Options of a Guard. Zero limits have the defaults above.
type Options struct {
	// PerSource is how many connections one source, an IPv4 address or an IPv6 /64, may have
	// without credentials; 0 means no limit. It is asked at each new connection.
	PerSource func() int
	// Trusted says whether a request has good credentials. It is asked until the first of a
	// connection does; from then on the connection is not counted.
	Trusted func(*http.Request) bool

	// AtOnce is how many connections are begun at once, Waiting how many are held before that, and SilentPerSource how many of
	// these may be of one source and silent.
	AtOnce, Waiting, SilentPerSource int

	WriteStall, BodyStall, BodyLimit, SilentWithin, BeginWithin, AnswerWithin time.Duration

	Logger *slog.Logger
}

// Guard watches over the connections of one web server.
type Guard struct {
	o       Options
	mu      sync.Mutex
	sources map[netip.Prefix]*sourceConns
	total   int
	refused int64
}

// sourceConns is the connections of one source that are counted, oldest first, and of them those
// that are idle between two requests, idle the longest first.
type sourceConns struct {
	all    int
	idle   list.List // of *conn
	warned bool
}

// New makes a Guard.
func New(o Options) *Guard {
	o.WriteStall = cmp.Or(o.WriteStall, WriteStall)
	o.BodyStall = cmp.Or(o.BodyStall, BodyStall)
	o.BodyLimit = cmp.Or(o.BodyLimit, BodyLimit)
	o.AtOnce = cmp.Or(o.AtOnce, AtOnce)
	o.Waiting = cmp.Or(o.Waiting, Waiting)
	o.SilentPerSource = cmp.Or(o.SilentPerSource, SilentPerSource)
	o.SilentWithin = cmp.Or(o.SilentWithin, SilentWithin)
	o.BeginWithin = cmp.Or(o.BeginWithin, BeginWithin)
	o.AnswerWithin = cmp.Or(o.AnswerWithin, AnswerWithin)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Guard{o: o, sources: map[netip.Prefix]*sourceConns{}}
}

// Protect makes a web server's connections guarded; the server serves what Listener returns.
func (g *Guard) Protect(web *http.Server) {
	web.Handler = g.handler(web.Handler)
	web.ConnState = g.state
	web.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, below(c))
	}
}

// Open is how many connections are counted, and how many were refused or ended for others so far.
func (g *Guard) Open() (counted int, refused int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.total, g.refused
}

type connKey struct{}

// admit counts a new connection. Beyond the limit the one that is idle the longest makes
// room: its client opens another one when it needs it. Without such the new one is refused.
func (g *Guard) admit(c *conn) bool {
	most := 0
	if g.o.PerSource != nil {
		most = g.o.PerSource()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	conns := g.of(c.source)
	if most > 0 && conns.all >= most {
		g.refused++
		if !conns.warned {
			conns.warned = true
			g.o.Logger.Warn("one source has as many connections without credentials as it may; further ones are refused", "source", c.source.String(), "connections", conns.all)
		}
		longest := conns.idle.Front()
		if longest == nil {
			return false
		}
		victim := longest.Value.(*conn)
		g.drop(victim)
		go victim.Conn.Close() // the web server notices and forgets it
	}
	c.counted = true
	g.of(c.source).all++
	g.total++
	return true
}

// refuse counts a connection that was ended for another one before it was admitted.
func (g *Guard) refuse() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused++
}

func (g *Guard) of(source netip.Prefix) *sourceConns {
	c := g.sources[source]
	if c == nil {
		c = &sourceConns{}
		g.sources[source] = c
	}
	return c
}

// drop counts a connection no longer. It is called with mu held.
func (g *Guard) drop(c *conn) {
	if !c.counted {
		return
	}
	c.counted = false
	conns := g.of(c.source)
	g.active(c, conns)
	conns.all--
	g.total--
	if conns.all == 0 {
		delete(g.sources, c.source)
	}
}

func (g *Guard) active(c *conn, conns *sourceConns) {
	if c.idle != nil {
		conns.idle.Remove(c.idle)
		c.idle = nil
	}
}

// state follows the web server's connections. Connections that were taken over are watches and
// tunnels, which have credentials.
func (g *Guard) state(nc net.Conn, state http.ConnState) {
	c := below(nc)
	if c == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch state {
	case http.StateHijacked, http.StateClosed:
		g.drop(c)
	case http.StateIdle:
		if conns := g.of(c.source); c.counted && c.idle == nil {
			c.idle = conns.idle.PushBack(c)
		}
	case http.StateActive:
		if c.counted {
			g.active(c, g.of(c.source))
		}
		c.turn.asked()
		return
	default: // new
		return
	}
	c.turn.give()
}

// handler bounds bodies, and lets connections with credentials go uncounted.
func (g *Guard) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*conn)
		if c != nil && g.o.Trusted != nil && !c.trusted.Load() && g.o.Trusted(r) {
			c.trusted.Store(true)
			g.mu.Lock()
			g.drop(c)
			g.mu.Unlock()
		}
		if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		body := &body{ReadCloser: r.Body, control: http.NewResponseController(w), stall: g.o.BodyStall, until: time.Now().Add(g.o.BodyLimit)}
		body.extend()
		r.Body = body
		next.ServeHTTP(w, r)
	})
}

// body is a request's body that has to keep coming. The deadline is lifted at its end, as
// the web server goes on reading to notice when the client leaves.
type body struct {
	io.ReadCloser
	control *http.ResponseController
	stall   time.Duration
	until   time.Time
	ended   atomic.Bool
}

func (b *body) extend() {
	by := time.Now().Add(b.stall)
	if b.until.Before(by) {
		by = b.until
	}
	_ = b.control.SetReadDeadline(by)
}

// Read is of io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if !b.ended.Load() {
		b.extend()
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.ended.CompareAndSwap(false, true) && err == io.EOF { //nolint:errorlint // the web server's own
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// conn gives each write a limit of its own, the usual one or what Patient said, unless a shorter one was set.
type conn struct {
	net.Conn
	guard   *Guard
	source  netip.Prefix
	trusted atomic.Bool
	writeBy atomic.Int64 // Unix nanoseconds, as was set; 0 for none
	patient atomic.Int64 // nanoseconds that one write may wait instead of WriteStall; 0 for none
	turn    turn
	first   [1]byte // what was read to know that the client speaks
	ahead   bool    // the first byte is still to be handed on

	// Guarded by the guard's mutex.
	counted bool
	idle    *list.Element
}

// Write is of net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	stall := c.guard.o.WriteStall
	if patient := c.patient.Load(); patient != 0 {
		stall = time.Duration(patient)
	}
	by := time.Now().Add(stall)
	if set := c.writeBy.Load(); set != 0 && set < by.UnixNano() {
		by = time.Unix(0, set)
	}
	if err := c.Conn.SetWriteDeadline(by); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline is of net.Conn. A write that waits already ends by it too.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.remember(t)
	if t.IsZero() {
		return nil // each write has its own
	}
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline is of net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.remember(t)
	if t.IsZero() {
		return c.Conn.SetReadDeadline(t)
	}
	return c.Conn.SetDeadline(t)
}

func (c *conn) remember(t time.Time) {
	if t.IsZero() {
		c.writeBy.Store(0)
	} else {
		c.writeBy.Store(t.UnixNano())
	}
}

// Patient lets each write of a connection wait so long: a person who pauses the output of a shell reads nothing until
// they go on. Where no guard is below, no write has a limit.
func Patient(c net.Conn, stall time.Duration) {
	if guarded := below(c); guarded != nil {
		guarded.patient.Store(int64(stall))
	}
}

// NetConn is the connection below, for who sets options of the socket.
func (c *conn) NetConn() net.Conn { return c.Conn }

// below finds the guarded connection below TLS; nil for another's.
func below(c net.Conn) *conn {
	for {
		switch at := c.(type) {
		case *conn:
			return at
		case interface{ NetConn() net.Conn }:
			c = at.NetConn()
		default:
			return nil
		}
	}
}
