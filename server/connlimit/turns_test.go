package connlimit

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// idle is how many counted connections are idle.
func (g *Guard) idle() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.sources {
		n += c.idle.Len()
	}
	return n
}

// TestSoManyAreBegunAtOnce: further connections wait until one was answered, and then all are.
func TestSoManyAreBegunAtOnce(t *testing.T) {
	const all, atOnce = 6, 2
	var entered, inside, most atomic.Int64
	b := newBed(t, Options{AtOnce: atOnce, BeginWithin: time.Hour, AnswerWithin: time.Hour})
	b.entered = func() (leave func()) {
		entered.Add(1)
		if n := inside.Add(1); n > most.Load() {
			most.Store(n)
		}
		return func() { inside.Add(-1) }
	}
	var group sync.WaitGroup
	for range all {
		group.Go(func() {
			c, err := tls.Dial("tcp", b.web.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if err := ask(c, "/late", "good"); err != nil {
				t.Error(err)
			}
		})
	}
	for answered := range int64(all) {
		waitFor(t, "as many as may be are begun", func() bool { return entered.Load() >= min(all, answered+atOnce) })
		b.release <- struct{}{}
	}
	group.Wait()
	if n := most.Load(); n != atOnce {
		t.Errorf("%d were begun at once, want %d", n, atOnce)
	}
}

// TestWhoSaysNothingKeepsNobodyWaiting, neither before a handshake nor with a request that takes its time.
func TestWhoSaysNothingKeepsNobodyWaiting(t *testing.T) {
	b := newBed(t, Options{AtOnce: 1, BeginWithin: time.Millisecond, AnswerWithin: time.Millisecond})
	defer close(b.release)
	silent, err := net.Dial("tcp", b.web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	slow := b.dial(t)
	go func() { _ = ask(slow, "/late", "good") }()
	if err := ask(b.dial(t), "/", "good"); err != nil {
		t.Error(err)
	}
}

// TestWhoWaitsIsNotCounted: more hosts behind one address than it may have connections without credentials come at
// the same instant.
func TestWhoWaitsIsNotCounted(t *testing.T) {
	b := newBed(t, Options{PerSource: func() int { return 1 }, AtOnce: 1, BeginWithin: time.Hour, AnswerWithin: time.Hour})
	var conns []net.Conn
	for range 8 {
		c, err := net.Dial("tcp", b.web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	for i, c := range conns {
		if err := ask(tls.Client(c, &tls.Config{InsecureSkipVerify: true}), "/", "good"); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	if n, refused := b.Open(); n != 0 || refused != 0 {
		t.Errorf("%d are counted and %d were refused", n, refused)
	}
}

// TestTheEndOfAServerEndsThoseThatWait, and those that have said nothing.
func TestTheEndOfAServerEndsThoseThatWait(t *testing.T) {
	b := newBed(t, Options{AtOnce: 1, BeginWithin: time.Hour, AnswerWithin: time.Hour})
	conns := b.silent(t, 4)
	for _, c := range conns[:3] {
		fmt.Fprint(c, "\x16") // as a handshake begins
	}
	at := b.below.(*listener)
	waitFor(t, "two wait and one is silent", func() bool { return len(at.waiting) == 2 && len(at.held) == 3 })
	if err := b.web.Config.Close(); err != nil {
		t.Fatal(err)
	}
	for i, c := range conns {
		if err := ends(c); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
}
