package store

import (
	"sync"
	"time"
)

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
