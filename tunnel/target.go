// The client's side of tunnelled connections: the sockets on the host that the
// server asked for, and their end.

package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

var errSessionOver = errors.New("the tunnel has ended")

// targetLimit is how long a host tries to connect to a target, as with the original.
const targetLimit = time.Minute

// maxTargets is how many connections one websocket may have on a host: the server's
// thousand, and as many that it has closed and that have not ended here.
const maxTargets = 2000

// targets are the open local connections of one websocket.
type targets struct {
	policy DialFunc
	mu     sync.Mutex
	open   map[*target]struct{} // nil once the websocket is gone
}

func newTargets(policy DialFunc) *targets {
	return &targets{policy: policy, open: map[*target]struct{}{}}
}

// dial never returns an error: the library would report it to the server before it marks
// its connection closed, and the server's answer then races with the mark. A
// connection whose first Read fails takes the other, ordered way.
func (t *targets) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.connect(ctx, network, address)
	if err != nil {
		conn = &refusal{err: err, until: time.Now().Add(refusalDelay)}
	}
	return t.track(conn), nil
}

// track notes a connection until it is closed.
func (t *targets) track(conn net.Conn) *target {
	one := &target{Conn: conn, all: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		conn.Close()
	} else {
		t.open[one] = struct{}{}
	}
	return one
}

func (t *targets) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if t.policy == nil {
		return nil, &RefusedError{Network: network, Address: address, Reason: "this host offers no targets"}
	}
	if t.count() >= maxTargets {
		return nil, &RefusedError{Network: network, Address: address, Reason: "this host has too many connections open for the server"}
	}
	return t.policy(ctx, network, address)
}

func (t *targets) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

func (t *targets) forget(one *target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, one)
}

func (t *targets) close() {
	t.mu.Lock()
	open := t.open
	t.open = nil
	t.mu.Unlock()
	for one := range open {
		one.abandon()
	}
}

// target is one local connection. The library copies from it to its own connection
// and never wakes that copy when the peer had asked it to pause; as the source of the
// copy, target knows the destination and wakes it.
type target struct {
	net.Conn
	all  *targets
	once sync.Once
	err  error
	mu   sync.Mutex
	sink pausable // nil while no copy to it runs
}

// pausable is the library's connection, which a peer may have paused.
type pausable interface {
	io.Closer
	OnResume()
}

// WriteTo is what io.Copy calls.
func (t *target) WriteTo(w io.Writer) (int64, error) {
	one, _ := w.(pausable)
	t.setSink(one)
	defer t.setSink(nil)
	return io.Copy(w, readerOnly{t.Conn})
}

func (t *target) setSink(one pausable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sink = one
}

func (t *target) getSink() pausable {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sink
}

// Close is of io.Closer. The library calls it once it has marked its connection as closed.
func (t *target) Close() error {
	t.once.Do(func() {
		t.all.forget(t)
		t.err = t.Conn.Close()
		if to := t.getSink(); to != nil {
			to.Close()
		}
	})
	return t.err
}

// abandon ends a connection whose websocket is gone. A paused copy goes on and fails.
// Closing the library's connection is not for us here: it is marked as closed without a
// lock (remotedialer v0.6.1), and the copy may do the same at this moment.
func (t *target) abandon() {
	t.once.Do(func() {
		t.err = t.Conn.Close()
		if to := t.getSink(); to != nil {
			to.OnResume()
		}
	})
}

// refusalDelay holds a refusal back until the server has written its first request: the
// library is not made for an answer in the same instant. It slows down scans, too.
const refusalDelay = 50 * time.Millisecond

// refusal is a connection that was never made. The library reads, writes and closes.
type refusal struct {
	net.Conn // nil
	err      error
	until    time.Time
}

// Read is of net.Conn; its error is the reason.
func (r *refusal) Read([]byte) (int, error) {
	<-time.After(time.Until(r.until))
	return 0, r.err
}

// Write takes what the server sends before it learns of the refusal; an error here would
// close the stream before its reason has been sent.
func (r *refusal) Write(p []byte) (int, error) { return len(p), nil }

// Close is of net.Conn.
func (r *refusal) Close() error { return nil }

type readerOnly struct{ io.Reader }
