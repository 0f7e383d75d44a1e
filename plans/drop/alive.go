// Signs of life, for a watchdog: the loop answers, also while a plan is applied, which
// may take hours.

package drop

import (
	"context"
	"time"
)

// busyLimit is how long the loop may be away: it only reads and writes small files, but a
// disk may be slow.
const busyLimit = 90 * time.Second

// Alive says whether the source still turns: it answers, or it was seen a short while ago.
// One that does not run cannot hang and counts as alive.
func (s *Source) Alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if s.turned.Load() == nil {
		return true
	}
	select {
	case s.pings <- struct{}{}:
		return true
	case <-ctx.Done():
		last := s.turned.Load()
		return last == nil || s.o.Now().Sub(*last) < busyLimit
	}
}

func (s *Source) turn() {
	now := s.o.Now()
	s.turned.Store(&now)
}

// Looks at the rest of the directory while a plan is applied: the first comes soon enough
// for a person who watches, and not with a plan that takes no time.
const (
	firstLook = time.Second
	laterLook = 5 * time.Second
)

// during does something that takes long while signs of life are given, and looks now and
// then; look says when next.
func (s *Source) during(look func() time.Duration, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	timer := time.NewTimer(firstLook)
	defer timer.Stop()
	for {
		s.turn()
		select {
		case <-done:
			return
		case <-s.pings:
		case <-timer.C:
			timer.Reset(look())
		}
	}
}
