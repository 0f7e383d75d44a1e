// How far a view of etcd is: the revision that it has reached, who waits for one, and when it was last known
// to be complete.

package store

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"
)

// viewProgress is the revision that the view has reached, and who waits for one. Each
// waiter is woken once, for its own revision only. The zero value is at 0.
type viewProgress struct {
	revision atomic.Int64
	begun    atomic.Int64
	mu       sync.Mutex
	waiting  waiters
}

// Reached is the revision that the view has reached.
func (p *viewProgress) Reached() int64 { return p.revision.Load() }

// Begin says that documents of a revision, which is higher than all before, may be read from now on.
func (p *viewProgress) Begin(revision int64) { p.begun.Store(revision) }

// Newest is the highest revision that a document of the view may have.
func (p *viewProgress) Newest() int64 { return max(p.begun.Load(), p.revision.Load()) }

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

// contact is when the view was known to be complete.
type contact struct {
	// UpTo is what the watch said that it is complete up to.
	UpTo viewProgress

	mu        sync.Mutex
	last      time.Time
	stale     bool
	observers []func()
}

// Heard is that the watch is complete up to a revision.
func (c *contact) Heard(revision int64) {
	c.mu.Lock()
	c.last = time.Now()
	c.mu.Unlock()
	c.UpTo.Advance(revision)
}

// Complete says whether the view, or the watch, had all of what etcd had at a moment.
func (c *contact) Complete(etcd, view int64, at time.Time) bool {
	if etcd > max(view, c.UpTo.Reached()) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.last) {
		c.last = at
	}
	return true
}

// Last is when the view was last known to be complete.
func (c *contact) Last() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// OnStale has f called when the view becomes stale. f must not block.
func (c *contact) OnStale(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observers = append(c.observers, f)
}

// Found says that the view is stale, or is not. It calls the observers when that has just begun, and says whether it has changed.
func (c *contact) Found(stale bool) (changed bool) {
	c.mu.Lock()
	changed, observers := c.stale != stale, c.observers
	c.stale = stale
	c.mu.Unlock()
	if changed && stale {
		for _, f := range observers {
			f()
		}
	}
	return changed
}
