// How a stream ends, and what is said to the other side of it.

package mux

import (
	"errors"
	"io"
	"net"
)

// Reset is Close with a reason.
func (st *Stream) Reset(code Code, text string) {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if st.gone || st.reset != nil {
		return
	}
	if code == Closed && st.finish && errors.Is(st.inEnd, io.EOF) {
		st.drain() // it ends by itself, once the other end has what was written
		st.wake()
		return
	}
	st.reset = &ResetError{Code: code, Text: text[:min(len(text), maxReason)]}
	st.outEnd = net.ErrClosed
	st.endInput(net.ErrClosed)
	st.drain()
	st.wake()
	st.queue()
}

// endInput ends what comes, once; what came before is still read.
func (st *Stream) endInput(why error) {
	if st.inEnd == nil {
		st.inEnd = why
	}
	st.readable.Broadcast()
}

// drain drops what will not be read.
func (st *Stream) drain() {
	for _, c := range st.in {
		st.s.o.Buffers.put(c)
	}
	st.in = nil
}

func (st *Stream) wake() {
	st.readable.Broadcast()
	st.writable.Broadcast()
	st.over.Broadcast()
	if st.cancel != nil {
		st.cancel()
	}
}

// abandon ends both directions at once: the other end takes nothing any more.
func (st *Stream) abandon(why error) {
	st.endInput(why)
	if st.outEnd == nil || st.finish {
		st.outEnd = why
	}
	for _, c := range st.out {
		st.s.o.Buffers.put(c)
	}
	st.out, st.outBytes, st.words = nil, 0, 0
	st.finish, st.gone = false, true
	st.wake()
}

// forget takes the stream out of the session; its lines skip it.
func (st *Stream) forget() {
	st.gone = true
	st.over.Broadcast()
	st.s.grown -= st.window - firstWindow
	st.window = firstWindow
	delete(st.s.streams, st.id)
}

// forgetIfOver leaves the handler be, which may still have to bring the last to its target.
func (st *Stream) forgetIfOver() {
	if st.finished && errors.Is(st.inEnd, io.EOF) && !st.gone {
		st.forget()
	}
}
