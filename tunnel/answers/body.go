package answers

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

const (
	// chunk is how much of an answer is read before it is looked at, in bytes.
	chunk = 32 << 10
	// decoding is how long an answer counts at most after it was closed: what reads it decodes it then. It ends with the context of
	// the request, if that is earlier.
	decoding = time.Second
	// heavier is how much more than its bytes an answer may weigh.
	heavier = 8
)

// body is the body of an answer that is bounded.
type body struct {
	io.ReadCloser
	transport *Transport
	bound     Bound
	together  *together
	// asked is the context of the request as it was given, ctx that with which it was sent; end ends ctx.
	asked, ctx context.Context //nolint:containedctx // io.ReadCloser has no place for them
	end        func()

	// mu is held for what follows: a watch is closed while it is read.
	mu   sync.Mutex
	scan scanner
	// whole is all of the answer, value what is counted against the budget: all of it, or the value that is being read.
	whole, value sum
	held         int64
	failed       error
	closed       bool
}

// sum is how many bytes there were, and what they and the values in them weigh.
type sum struct{ bytes, weight int64 }

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), chunk)])
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil && !b.closed {
		b.failed = b.count(p[:n])
	}
	if b.failed != nil {
		b.release()
		return 0, b.failed
	}
	if slow, ok := errors.AsType[*SlowError](context.Cause(b.ctx)); ok && err != nil && !errors.Is(err, io.EOF) {
		err = slow
	}
	return n, err
}

// count adds what was read, and returns why that is too much.
func (b *body) count(p []byte) error {
	n := int64(len(p))
	weight := n
	if b.whole.bytes += n; b.bound.Bytes > 0 && b.whole.bytes > b.bound.Bytes {
		return b.tooLarge(b.bound.What, b.bound.Bytes, false)
	}
	if b.bound.Together > 0 && b.transport.kept.Add(n) > b.bound.Together {
		return b.tooLarge(b.bound.What+", again and again,", b.bound.Together, false)
	}
	if !b.bound.Passed || b.bound.Each > 0 {
		for len(p) > 0 {
			read, more, ended := b.scan.next(p)
			p = p[read:]
			weight += more
			b.value.bytes += int64(read)
			b.value.weight += int64(read) + more
			if err := b.over(); err != nil {
				return err
			}
			if ended && b.bound.Each > 0 {
				b.value = sum{}
				b.release()
			}
		}
	}
	if b.scan.tooDeep {
		return b.tooLarge(b.bound.What, b.bound.Bytes+b.bound.Each, true)
	}
	if t := b.together; t != nil {
		t.sum.bytes += n
		if t.sum.weight += weight; t.sum.bytes > t.bytes || t.sum.weight > heavier/2*t.bytes {
			return b.tooLarge(t.what, t.bytes, t.sum.bytes <= t.bytes)
		}
	}
	return b.charge()
}

// over says whether what is counted is more than its bound.
func (b *body) over() error {
	most := cmp.Or(b.bound.Each, b.bound.Bytes)
	if most > 0 && (b.value.bytes > most || b.value.weight > heavier*most) {
		return b.tooLarge(b.bound.What, most, b.value.bytes <= most)
	}
	return nil
}

func (b *body) tooLarge(what string, bytes int64, values bool) error {
	return b.transport.tooLarge(&TooLargeError{From: b.transport.From, What: what, Bytes: bytes, Values: values})
}

// charge has the budget hold what is being read.
func (b *body) charge() error {
	more := b.value.weight - b.held
	if b.bound.Passed && b.bound.Each == 0 || more <= 0 {
		return nil
	}
	if err := b.transport.budget().take(b.ctx, more, b.value.weight <= small); err != nil {
		if _, busy := errors.AsType[*BusyError](err); busy {
			return &BusyError{From: b.transport.From, What: b.bound.What, Bytes: b.transport.budget().most}
		}
		return err
	}
	b.held += more
	return nil
}

// release gives back to the budget what is held.
func (b *body) release() {
	b.transport.budget().give(b.held)
	b.held = 0
}

// Close implements io.Closer.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return err
	}
	b.closed = true
	if b.failed != nil || b.held <= small {
		b.release()
		return err
	}
	// It is decoded now.
	release := sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.release()
	})
	stop := context.AfterFunc(b.asked, release)
	time.AfterFunc(decoding, func() { stop(); release() })
	return err
}
