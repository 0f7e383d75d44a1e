// Package workqueue holds the keys of what has to be looked at: each at most once, never two workers on one, and one that
// changes while it is worked on comes again.
package workqueue

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Queue is the queue of keys. Make it with New.
type Queue[K comparable] struct {
	mu      sync.Mutex
	ready   []K
	queued  map[K]bool
	busy    map[K]bool
	hurried map[K]bool        // of the queued ones, those that do not rest
	rests   map[K]*time.Timer // of the busy ones, those that no worker has: they rest
	timers  map[K]*time.Timer // of neither queued nor busy ones: when they come again
	wake    chan struct{}
}

// New is an empty queue.
func New[K comparable]() *Queue[K] {
	return &Queue[K]{
		queued: map[K]bool{}, busy: map[K]bool{}, hurried: map[K]bool{},
		rests: map[K]*time.Timer{}, timers: map[K]*time.Timer{}, wake: make(chan struct{}, 1),
	}
}

// Add has a key taken: at once, or after its rest when it was worked on before.
func (q *Queue[K]) Add(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put(key)
}

// Hurry is Add for what a person waits for: it ends the key's rest.
func (q *Queue[K]) Hurry(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put(key)
	if t := q.rests[key]; t != nil {
		t.Stop()
		q.release(key)
	} else if q.busy[key] {
		q.hurried[key] = true
	}
}

func (q *Queue[K]) put(key K) {
	if t := q.timers[key]; t != nil {
		t.Stop()
		delete(q.timers, key)
	}
	if q.queued[key] {
		return
	}
	q.queued[key] = true
	if !q.busy[key] {
		q.ready = append(q.ready, key)
		q.signal()
	}
}

func (q *Queue[K]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Len is how many keys wait for a worker.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.ready)
}

// Take waits for a key that no other worker has; ok is false when ctx ends.
func (q *Queue[K]) Take(ctx context.Context) (key K, ok bool) {
	for {
		q.mu.Lock()
		if len(q.ready) > 0 && ctx.Err() == nil {
			key = q.ready[0]
			q.ready = q.ready[1:]
			delete(q.queued, key)
			q.busy[key] = true
			if len(q.ready) > 0 {
				q.signal()
			}
			q.mu.Unlock()
			return key, true
		}
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return key, false
		case <-q.wake:
		}
	}
}

// Done gives a key back. When it was added meanwhile it comes again after a rest, which keeps
// a cluster of thousands of machines, all of them reporting, from occupying a worker without end;
// else it comes after the given time, and zero means only when it is added.
func (q *Queue[K]) Done(key K, rest, again time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.queued[key] {
		delete(q.busy, key)
		if again > 0 {
			q.timers[key] = time.AfterFunc(again, func() { q.Add(key) })
		}
		return
	}
	if rest <= 0 || q.hurried[key] {
		q.release(key)
		return
	}
	var rested *time.Timer
	rested = time.AfterFunc(rest, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.rests[key] == rested { // nobody hurried
			q.release(key)
		}
	})
	q.rests[key] = rested
}

// release has a queued key taken that was worked on.
func (q *Queue[K]) release(key K) {
	delete(q.busy, key)
	delete(q.hurried, key)
	delete(q.rests, key)
	q.ready = append(q.ready, key)
	q.signal()
}

// Waiting are the keys that wait for a worker, in their order.
func (q *Queue[K]) Waiting() []K {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.ready)
}
