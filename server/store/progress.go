package store

// This file holds how far the view is, and how writers wait for it.

import (
	"container/heap"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// progress is the revision that the view has reached, and who waits for one. Each
// waiter is woken once, for its own revision only.
type progress struct {
	revision atomic.Int64
	mu       sync.Mutex
	waiting  waiters
}

func (p *progress) reached() int64 { return p.revision.Load() }

// advance says that the view has reached a revision; it never goes back.
func (p *progress) advance(revision int64) {
	if revision <= p.revision.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revision.Store(revision)
	for len(p.waiting) > 0 && p.waiting[0].revision <= revision {
		close(heap.Pop(&p.waiting).(waiter).reached)
	}
}

// at is closed when the revision is reached; nil when it is already.
func (p *progress) at(revision int64) <-chan struct{} {
	if p.revision.Load() >= revision {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.revision.Load() >= revision {
		return nil
	}
	w := waiter{revision: revision, reached: make(chan struct{})}
	heap.Push(&p.waiting, w)
	return w.reached
}

// await waits until the view has reached a revision.
func (s *Store) await(ctx context.Context, revision int64) error {
	reached := s.view.at(revision)
	if reached == nil {
		return nil
	}
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for revision %d: %w", revision, ctx.Err())
	case <-s.alive.Done():
		return s.Err()
	}
}

type waiter struct {
	revision int64
	reached  chan struct{}
}

// waiters is a heap, the lowest revision first.
type waiters []waiter

func (w waiters) Len() int           { return len(w) }
func (w waiters) Less(i, j int) bool { return w[i].revision < w[j].revision }
func (w waiters) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *waiters) Push(x any)        { *w = append(*w, x.(waiter)) }
func (w *waiters) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	(*w)[last] = waiter{}
	*w = (*w)[:last]
	return x
}
