// Package backoff spaces out attempts at something that fails, so that a thousand
// hosts do not come back in the same second. It is the one place that waits between
// attempts, always under a context.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff yields growing pauses. It is for one goroutine. The zero value yields no pause.
type Backoff struct {
	// Min is the first pause before jitter, Max the longest.
	Min, Max time.Duration
	// Floor is the part of a pause that jitter leaves alone, from 0 (full jitter) to 1 (none).
	Floor float64
	// Rand yields numbers in [0,1); nil is the runtime's.
	Rand func() float64

	failures int
}

// Next is the pause before the next attempt: twice the one before, up to Max, with jitter.
func (b *Backoff) Next() time.Duration {
	pause := b.Min
	for range b.failures {
		if pause >= b.Max/2 {
			pause = b.Max
			break
		}
		pause *= 2
	}
	b.failures++
	random := rand.Float64
	if b.Rand != nil {
		random = b.Rand
	}
	fixed := time.Duration(float64(pause) * b.Floor)
	return fixed + time.Duration(random()*float64(pause-fixed))
}

// Reset starts over with Min, after something has worked.
func (b *Backoff) Reset() { b.failures = 0 }

// Failures is the number of attempts since Reset.
func (b *Backoff) Failures() int { return b.failures }

// Wait waits. It returns the context's error when that ends first.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
