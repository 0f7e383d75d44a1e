package guard

// This file holds connections that have said nothing yet. Who serves one reads from it and waits, so that a crowd that
// says nothing would have all turns, one after the other; it is the first byte that gets a connection into the line for
// them. How long one may be silent is bounded, and so is how many are held: for the next one, the one that has been
// silent the longest makes room.

import (
	"container/list"
	"net"
	"sync"
	"time"
)

// hesitates is how long a client keeps its room in any case: its first byte is on its way, or has not been read yet.
const hesitates = time.Second

// silent are connections that have said nothing, the one that has been silent the longest first.
type silent struct {
	mu      sync.Mutex
	conns   list.List // of *hush
	hearing sync.WaitGroup
}

// hush is one of them.
type hush struct {
	conn  net.Conn
	since time.Time
	ended bool // it had to make room
}

// hold finds room for one more connection; false is that the listener is closed. When all that are held have spoken, it
// waits until one is begun, and further ones wait in the kernel.
func (l *listener) hold() bool {
	for {
		select {
		case l.held <- struct{}{}:
			return true
		default:
		}
		var again <-chan time.Time
		switch left, some := l.silent.longest(); {
		case some && left <= 0:
			l.silent.drop()
			l.guard.refuse()
		case some:
			again = time.After(left)
		}
		select {
		case l.held <- struct{}{}:
			return true
		case <-again:
		case <-l.closed:
			return false
		}
	}
}

// hear waits for the first byte of a connection, with which it gets into the line.
func (l *listener) hear(c *conn) {
	at := l.silent.add(c.Conn)
	l.silent.hearing.Go(func() {
		_ = c.Conn.SetReadDeadline(time.Now().Add(l.guard.o.SilentWithin))
		_, err := c.Conn.Read(c.first[:])
		if !l.silent.remove(at) || err != nil {
			_ = c.Conn.Close()
			<-l.held
			return
		}
		_ = c.Conn.SetReadDeadline(time.Time{})
		c.ahead = true
		l.waiting <- c
	})
}

func (s *silent) add(c net.Conn) *list.Element {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns.PushBack(&hush{conn: c, since: time.Now()})
}

// remove is false for one that had to make room.
func (s *silent) remove(at *list.Element) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns.Remove(at)
	return !at.Value.(*hush).ended
}

// longest is for how long the one that has been silent the longest keeps its room; false is that there is none.
func (s *silent) longest() (left time.Duration, some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.conns.Front()
	if first == nil {
		return 0, false
	}
	return hesitates - time.Since(first.Value.(*hush).since), true
}

// drop closes the one that has been silent the longest; false is that there is none. Who waits for its first byte
// notices and gives its room back.
func (s *silent) drop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.conns.Front()
	if first == nil {
		return false
	}
	h := s.conns.Remove(first).(*hush)
	h.ended = true
	_ = h.conn.Close()
	return true
}

// end closes all of them, and waits until nobody waits for a first byte any more.
func (s *silent) end() {
	for s.drop() {
	}
	s.hearing.Wait()
}

// Read is of net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if c.ahead && len(p) > 0 {
		c.ahead = false
		return copy(p, c.first[:]), nil
	}
	return c.Conn.Read(p)
}
