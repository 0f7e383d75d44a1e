package connlimit

// This file holds connections that have said nothing yet. Who serves one reads from it and waits, so that a crowd that
// says nothing would have all turns, one after the other; it is the first byte that gets a connection into the line for
// them. How long a connection may be silent is bounded, and so is how many are held: for the next connection, the one that has
// been silent the longest makes room. One source holds at most SilentPerSource: beyond that its own connections make room for
// each other at once, before any handshake, so that the connections of other sources are accepted without a wait.

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"time"
)

// hesitates is how long a client keeps its room, unless its source has more than its share: its first byte is on its way, or
// has not been read yet.
const hesitates = time.Second

// silent are connections that have said nothing, the one that has been silent the longest first.
type silent struct {
	mu      sync.Mutex
	conns   list.List                   // of *hush
	sources map[netip.Prefix]*list.List // of *hush, the connections of each source
	hearing sync.WaitGroup
}

// hush is a connection that has said nothing.
type hush struct {
	conn      net.Conn
	source    netip.Prefix
	since     time.Time
	ended     bool // it had to make room
	in, among *list.Element
}

// hold finds room for one more connection; false is that the listener is closed. When all that are held have spoken, it
// waits until one is begun, and further ones wait in the kernel.
func (l *listener) hold(source netip.Prefix) bool {
	made := l.silent.of(source) >= l.guard.o.SilentPerSource && l.silent.drop(source)
	for {
		select {
		case l.held <- struct{}{}:
			if made {
				l.guard.refuse()
			}
			return true
		default:
		}
		var again <-chan time.Time
		if !made {
			left, some := l.silent.longest(l.guard.o.SilentPerSource / 4)
			switch {
			case some && left <= 0:
				made = l.silent.drop(netip.Prefix{})
			case some:
				again = time.After(left)
			}
		}
		select {
		case l.held <- struct{}{}:
			if made {
				l.guard.refuse()
			}
			return true
		case <-again:
		case <-l.closed:
			return false
		}
	}
}

// hear waits for the first byte of a connection, with which it gets into the line.
func (l *listener) hear(c *conn) {
	at := l.silent.add(c.Conn, c.source)
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

func (s *silent) add(c net.Conn, source netip.Prefix) *hush {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sources == nil {
		s.sources = map[netip.Prefix]*list.List{}
	}
	if s.sources[source] == nil {
		s.sources[source] = list.New()
	}
	h := &hush{conn: c, source: source, since: time.Now()}
	h.in, h.among = s.conns.PushBack(h), s.sources[source].PushBack(h)
	return h
}

// remove is false for a connection that had to make room.
func (s *silent) remove(h *hush) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(h)
	return !h.ended
}

// forget is called with mu held, once or more.
func (s *silent) forget(h *hush) {
	s.conns.Remove(h.in)
	if among := s.sources[h.source]; among != nil {
		if among.Remove(h.among); among.Len() == 0 {
			delete(s.sources, h.source)
		}
	}
}

// of is how many connections of a source are silent.
func (s *silent) of(source netip.Prefix) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if among := s.sources[source]; among != nil {
		return among.Len()
	}
	return 0
}

// longest is for how long the connection that has been silent the longest keeps its room, which is no time where its source
// has more silent connections than its share; false is that no connection is silent.
func (s *silent) longest(share int) (left time.Duration, some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.conns.Front()
	if first == nil {
		return 0, false
	}
	h := first.Value.(*hush)
	if s.sources[h.source].Len() > share {
		return 0, true
	}
	return hesitates - time.Since(h.since), true
}

// drop closes the connection of a source that has been silent the longest, or, with no source, the one of all; false is that
// there is none. The goroutine that waits for its first byte notices and gives its room back.
func (s *silent) drop(source netip.Prefix) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := &s.conns
	if source.IsValid() {
		from = s.sources[source]
	}
	if from == nil || from.Front() == nil {
		return false
	}
	h := from.Front().Value.(*hush)
	s.forget(h)
	h.ended = true
	_ = h.conn.Close()
	return true
}

// end closes all of them, and waits until no goroutine waits for a first byte any more.
func (s *silent) end() {
	for s.drop(netip.Prefix{}) {
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
