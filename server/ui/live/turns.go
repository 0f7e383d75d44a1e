package live

// Open pages are drawn in turns, so that they leave room for the work that they show.

import (
	"context"
	"sync/atomic"
	"time"
)

// In a crowd of waiting pages each turn is followed by a rest: nobody waits longer for a page than a page needs
// while few are open, and hundreds of them take mostRest times less than a processor has.
const (
	crowd    = 8
	mostRest = 15
)

// Turns are given one after the other.
type Turns struct {
	slots   chan struct{}
	waiting atomic.Int64
}

// NewTurns gives so many at once.
func NewTurns(atOnce int) *Turns { return &Turns{slots: make(chan struct{}, max(1, atOnce))} }

// Take waits for a turn, until done is called; ok is false when the context ended before it came.
func (t *Turns) Take(ctx context.Context) (done func(), ok bool) {
	t.waiting.Add(1)
	select {
	case t.slots <- struct{}{}:
		t.waiting.Add(-1)
	case <-ctx.Done():
		t.waiting.Add(-1)
		return nil, false
	}
	began := time.Now()
	return func() {
		if rest := time.Since(began) * time.Duration(min(t.waiting.Load()/crowd, mostRest)); rest > 0 {
			time.AfterFunc(rest, t.give)
			return
		}
		t.give()
	}, true
}

func (t *Turns) give() { <-t.slots }
