// Signs of life, for a watchdog: the loop of a source answers, also while a plan is
// applied, which may take hours.

package upkeep

import (
	"context"
	"sync/atomic"
	"time"
)

// answerLimit is how long an answer of the loop is awaited.
const answerLimit = 5 * time.Second

// Pulse shows whether a loop still turns. The loop calls Turn each time it does, and takes
// from Asked in any case.
type Pulse struct {
	// busy is how long the loop may be away from its channels.
	busy   time.Duration
	now    func() time.Time
	asked  chan struct{}
	turned atomic.Pointer[time.Time] // with the monotonic clock: the other may jump; nil while the loop does not run
}

// NewPulse makes the pulse of a loop that may be away from its channels for as long as busy.
func NewPulse(busy time.Duration, now func() time.Time) *Pulse {
	return &Pulse{busy: busy, now: now, asked: make(chan struct{})}
}

// Alive says whether the loop turns: it answers, or it was seen a short while ago. A loop that
// does not run cannot hang and counts as alive.
func (p *Pulse) Alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if p.turned.Load() == nil {
		return true
	}
	select {
	case p.asked <- struct{}{}:
		return true
	case <-ctx.Done():
		last := p.turned.Load()
		return last == nil || p.now().Sub(*last) < p.busy
	}
}

// Turn notes that the loop turns.
func (p *Pulse) Turn() {
	now := p.now()
	p.turned.Store(&now)
}

// End notes that the loop has ended.
func (p *Pulse) End() { p.turned.Store(nil) }

// Asked has an entry when a caller waits for a sign of life.
func (p *Pulse) Asked() <-chan struct{} { return p.asked }

// During does something that takes long while the loop goes on giving signs of life and
// takes up its events.
func During[T any](p *Pulse, do func(), events <-chan T, each func(T)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	for {
		p.Turn()
		select {
		case <-done:
			return
		case <-p.asked:
		case event := <-events:
			each(event)
		}
	}
}
