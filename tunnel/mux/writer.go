// Who writes next. A goroutine writes as long as something waits, so that a session that
// rests has none.

package mux

import (
	"encoding/binary"
	"runtime"
	"time"
)

// maxSmall is how much of signals and small frames goes before a large frame's turn, in bytes.
const maxSmall = 32 << 10

// pingSize is the payload of a ping: its number. By its size the server knows from the first
// ping, which comes at once, that the client speaks this protocol.
const pingSize = 8

// line is streams that wait for their turn, first come, first served.
type line struct{ waiting []*Stream }

func (l *line) push(st *Stream) { l.waiting = append(l.waiting, st) }

func (l *line) pop() *Stream {
	if len(l.waiting) == 0 {
		return nil
	}
	st := l.waiting[0]
	l.waiting[0] = nil
	if l.waiting = l.waiting[1:]; len(l.waiting) == 0 {
		l.waiting = nil
	}
	return st
}

// pings are one's own and those that have to be answered: one of each at most.
type pings struct {
	due, pongDue bool
	sent         time.Time
	number       uint64
	pong         []byte
	shortest     time.Duration // that an answer took
}

func (p *pings) ask(now time.Time) {
	p.due, p.sent = true, now
	p.number++
}

func (p *pings) answer(payload []byte) { p.pongDue, p.pong = true, append(p.pong[:0], payload...) }

func (p *pings) answered(payload []byte, now time.Time) {
	if len(payload) != pingSize || binary.BigEndian.Uint64(payload) != p.number || p.sent.IsZero() {
		return
	}
	if took := max(now.Sub(p.sent), 1); p.shortest == 0 || took < p.shortest {
		p.shortest = took
	}
	p.sent = time.Time{}
}

// kick has what waits written. It is called with mu held.
func (s *Session) kick() {
	if s.writing || !s.heard || s.err != nil {
		return
	}
	s.writing = true
	s.work.Go(s.write)
}

// write writes until nothing waits.
func (s *Session) write() {
	small := s.o.Buffers.get(maxSmall)
	defer s.o.Buffers.put(small)
	for {
		s.mu.Lock()
		words, large, stream := s.gather(small.buf[:0])
		if len(words) == 0 && large == nil {
			s.writing = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		err := s.send(words)
		if large != nil {
			if err == nil {
				err = s.send(large.frame(s.client, stream))
			}
			s.o.Buffers.put(large)
			runtime.Gosched() // so that what is small gets its turn on a busy machine
		}
		if err != nil {
			s.end(err) // writing stays true: no goroutine writes any more
			return
		}
	}
}

func (s *Session) send(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := s.conn.Write(b)
	return err
}

// gather takes what goes next: pings, signals and a small frame of each connection that has
// one, and then one large frame. It is called with mu held.
func (s *Session) gather(b []byte) (small []byte, large *chunk, stream uint64) {
	if s.err != nil {
		return nil, nil, 0
	}
	b = s.gatherPings(b)
	for len(b) < maxSmall-smallFrame-2*headRoom {
		st := s.signals.pop()
		if st == nil {
			break
		}
		b = st.speak(b)
	}
	for range len(s.express.waiting) {
		if len(b) >= maxSmall-smallFrame-2*headRoom {
			break
		}
		b = s.express.pop().takeSmall(b)
	}
	for st := s.bulk.pop(); st != nil; st = s.bulk.pop() {
		st.lined = false
		if len(st.out) > 0 {
			large = st.takeOut()
			st.queue()
			return b, large, st.id
		}
		st.queue()
	}
	return b, nil, 0
}

func (s *Session) gatherPings(b []byte) []byte {
	if s.pings.pongDue {
		s.pings.pongDue = false
		b = appendControl(b, s.client, opPong, s.pings.pong)
	}
	if s.pings.due {
		s.pings.due = false
		b = appendControl(b, s.client, opPing, binary.BigEndian.AppendUint64(nil, s.pings.number))
	}
	return b
}

// speak appends the words that wait.
func (st *Stream) speak(b []byte) []byte {
	st.signalled = false
	if st.words&sayOpen != 0 {
		b = appendFrame(b, st.s.client, header{kindOpen, len(st.target), st.id}, []byte(st.target))
	}
	if st.words&sayOpened != 0 {
		b = appendFrame(b, st.s.client, header{kindOpened, 0, st.id}, nil)
	}
	if st.words&sayCredit != 0 {
		more := st.consumed + st.grow
		st.granted += more
		st.consumed, st.grow = 0, 0
		b = appendFrame(b, st.s.client, header{kindCredit, 4, st.id}, binary.BigEndian.AppendUint32(nil, uint32(more))) // #nosec G115 -- at most a window
	}
	st.words = 0
	return b
}

// takeSmall appends one small frame, or the end after the last.
func (st *Stream) takeSmall(b []byte) []byte {
	st.lined = false
	switch {
	case st.gone:
		return b
	case len(st.out) > 0 && len(st.out[0].unread()) <= smallFrame:
		c := st.takeOut()
		b = appendFrame(b, st.s.client, header{kindData, len(c.unread()), st.id}, c.unread())
		st.s.o.Buffers.put(c)
	}
	if len(st.out) == 0 {
		b = st.takeEnd(b)
	}
	st.queue()
	return b
}

func (st *Stream) takeEnd(b []byte) []byte {
	switch {
	case st.reset != nil:
		body := append([]byte{byte(st.reset.Code)}, st.reset.Text...)
		b = appendFrame(b, st.s.client, header{kindReset, len(body), st.id}, body)
		st.forget()
	case st.finish:
		st.finish, st.finished = false, true
		b = appendFrame(b, st.s.client, header{kindFinish, 0, st.id}, nil)
		st.forgetIfOver()
	}
	return b
}

// takeOut takes the next buffer.
func (st *Stream) takeOut() *chunk {
	c := st.out[0]
	st.out[0] = nil
	if st.out = st.out[1:]; len(st.out) == 0 {
		st.out = nil
	}
	st.outBytes -= len(c.unread())
	st.writable.Signal()
	return c
}
