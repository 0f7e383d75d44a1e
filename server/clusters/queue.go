// The queue holds the clusters that have to be looked at: each at most once, never
// two workers on one, and a cluster that changes while it is worked on comes again.

package clusters

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/server/records"
)

type queue struct {
	mu      sync.Mutex
	ready   []records.ClusterKey
	queued  map[records.ClusterKey]bool
	busy    map[records.ClusterKey]bool
	hurried map[records.ClusterKey]bool        // of the queued ones, those that do not rest
	rests   map[records.ClusterKey]*time.Timer // of the busy ones, those that no worker has: they rest
	timers  map[records.ClusterKey]*time.Timer // of neither queued nor busy ones: when they come again
	wake    chan struct{}
}

func newQueue() *queue {
	return &queue{
		queued: map[records.ClusterKey]bool{}, busy: map[records.ClusterKey]bool{}, hurried: map[records.ClusterKey]bool{},
		rests: map[records.ClusterKey]*time.Timer{}, timers: map[records.ClusterKey]*time.Timer{}, wake: make(chan struct{}, 1),
	}
}

// add has a key taken: at once, or after its rest when it was worked on before.
func (q *queue) add(key records.ClusterKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put(key)
}

// hurry is add for what a person waits for: it ends the key's rest.
func (q *queue) hurry(key records.ClusterKey) {
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

func (q *queue) put(key records.ClusterKey) {
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

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// length is how many keys wait for a worker.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.ready)
}

// take waits for a key that no other worker has; ok is false when ctx ends.
func (q *queue) take(ctx context.Context) (key records.ClusterKey, ok bool) {
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
			return "", false
		case <-q.wake:
		}
	}
}

// done gives a key back. When it was added meanwhile it comes again after a rest, which keeps
// a cluster of thousands of machines, all of them reporting, from occupying a worker without end;
// else it comes after the given time, and zero means only when it is added.
func (q *queue) done(key records.ClusterKey, rest, again time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.queued[key] {
		delete(q.busy, key)
		if again > 0 {
			q.timers[key] = time.AfterFunc(again, func() { q.add(key) })
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
func (q *queue) release(key records.ClusterKey) {
	delete(q.busy, key)
	delete(q.hurried, key)
	delete(q.rests, key)
	q.ready = append(q.ready, key)
	q.signal()
}
