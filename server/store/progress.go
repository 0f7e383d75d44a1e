// How far a view of etcd is: the revision that it has reached, who waits for one, and when it was last known
// to be complete.

package store

import (
	"container/heap"
	"sync"
	"sync/atomic"
)

// viewProgress is the revision that the view has reached, and who waits for one. Each
// waiter is woken once, for its own revision only. The zero value is at 0.
type viewProgress struct {
	revision atomic.Int64
	mu       sync.Mutex
	waiting  waiters
}

// Reached is the revision that the view has reached.
func (p *viewProgress) Reached() int64 { return p.revision.Load() }

// Advance says that the view has reached a revision; it never goes back.
func (p *viewProgress) Advance(revision int64) {
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

// At is closed when the revision is reached; nil when it is already.
func (p *viewProgress) At(revision int64) <-chan struct{} {
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
