package live

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns: a few pages are drawn as fast as they can, and hundreds take a small part of the time.
func TestTurns(t *testing.T) {
	for _, c := range []struct {
		pages       int
		least, most time.Duration
	}{{1, 10 * time.Millisecond, 10 * time.Millisecond}, {5, 50 * time.Millisecond, 50 * time.Millisecond}, {400, 40 * time.Second, 64 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			turns := NewTurns(1)
			began := time.Now()
			var all sync.WaitGroup
			for range c.pages {
				all.Go(func() {
					done, ok := turns.Take(t.Context())
					if !ok {
						t.Error("no turn")
						return
					}
					time.Sleep(10 * time.Millisecond)
					done()
				})
			}
			all.Wait()
			if took := time.Since(began); took < c.least || took > c.most {
				t.Errorf("%d pages took %s, want %s to %s", c.pages, took, c.least, c.most)
			}
		})
	}
}

// TestTurnsLeft: who goes away takes no turn from those who stay.
func TestTurnsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		done, _ := turns.Take(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan bool)
		go func() { _, ok := turns.Take(ctx); left <- ok }()
		synctest.Wait()
		cancel()
		if <-left {
			t.Error("a page that is gone got a turn")
		}
		done()
		again, ok := turns.Take(t.Context())
		if !ok || turns.waiting.Load() != 0 {
			t.Errorf("%v, %d wait", ok, turns.waiting.Load())
		}
		again()
	})
}
