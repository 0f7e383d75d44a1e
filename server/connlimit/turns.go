package connlimit

// This file holds whose turn it is to begin. A connection costs little until it is served: then come a handshake,
// buffers, a request and what it asks for. Where thousands of hosts connect at the same instant, as they do when all of
// them report, only some are begun at once, and the others wait in the order in which they spoke. Each is answered as
// early as if all had been begun together, and the server holds a fraction of the memory.
//
// What is begun gives its turn on with its first answer. No connection keeps a turn for long: neither a client that goes silent,
// nor a request that takes its time. So the number of connections that are served is not bounded here, and a server that
// cannot answer one request still takes others. Who says nothing gets no turn; see silent.go.

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/server/clientip"
)

// listener hands connections on when it is their turn, and the guard admits them.
type listener struct {
	net.Listener
	guard   *Guard
	turns   chan struct{} // has an entry for each turn that is taken
	held    chan struct{} // has an entry for each connection that is silent or waits
	silent  silent
	waiting chan *conn // has room for all that are held
	failed  chan error
	closed  chan struct{}
	ended   chan struct{} // closed when nothing is accepted any more
	begin   sync.Once
	end     sync.Once
}

// Listener accepts what the guard admits.
func (g *Guard) Listener(l net.Listener) net.Listener {
	return &listener{
		Listener: l, guard: g, turns: make(chan struct{}, g.o.AtOnce), held: make(chan struct{}, g.o.Waiting),
		waiting: make(chan *conn, g.o.Waiting), failed: make(chan error), closed: make(chan struct{}), ended: make(chan struct{}),
	}
}

// Accept is of net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	l.begin.Do(func() { go l.accept() })
	select {
	case l.turns <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	for {
		select {
		case c := <-l.waiting:
			<-l.held
			// A connection that waits is not counted: a thousand hosts behind one address can come at the same instant.
			if l.guard.admit(c) {
				c.turn.take(l.turns, l.guard.o)
				return c, nil
			}
			_ = c.Close()
		case err := <-l.failed:
			<-l.turns
			return nil, err
		case <-l.closed:
			<-l.turns
			return nil, net.ErrClosed
		}
	}
}

// Close is of net.Listener. Connections that are silent or wait are closed: they are not served.
func (l *listener) Close() error {
	err := l.Listener.Close()
	l.end.Do(func() {
		close(l.closed)
		l.begin.Do(func() { close(l.ended) })
		<-l.ended
		l.silent.end()
		for len(l.waiting) > 0 {
			_ = (<-l.waiting).Close()
		}
	})
	return err
}

// accept accepts until the listener is closed.
func (l *listener) accept() {
	defer close(l.ended)
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			select {
			case l.failed <- err: // the web server takes it when it asks again, which it does later and later
			case <-l.closed:
				return
			}
			continue
		}
		from := clientip.Of(c.RemoteAddr().String())
		if !l.hold(from) {
			_ = c.Close()
			return
		}
		l.hear(&conn{Conn: c, guard: l.guard, source: from})
	}
}

// turn is a connection's turn to begin, until it is given on.
type turn struct {
	taken  atomic.Bool
	turns  chan struct{}
	timer  *time.Timer
	answer time.Duration
}

func (t *turn) take(turns chan struct{}, o Options) {
	t.turns, t.answer = turns, o.AnswerWithin
	t.taken.Store(true)
	t.timer = time.AfterFunc(o.BeginWithin, func() { t.end() })
}

// asked is that the first byte of a request is there.
func (t *turn) asked() {
	if t.taken.Load() {
		t.timer.Reset(t.answer)
	}
}

// give gives the turn on, once.
func (t *turn) give() {
	if t.end() {
		t.timer.Stop()
	}
}

func (t *turn) end() bool {
	taken := t.taken.CompareAndSwap(true, false)
	if taken {
		<-t.turns
	}
	return taken
}
