// Package reconciletest shows tests which keys the watches of a controller queue.
package reconciletest

import (
	"slices"
	"sync"
	"testing"

	"github.com/drover-project/drover/server/reconcile"
)

// All is what a Recorder notes where all keys are queued.
const All = "*"

// Recorder is a queue that notes what is queued; a hurried key has an exclamation mark behind it.
type Recorder struct {
	mu     sync.Mutex
	queued []string
}

var _ reconcile.Queue = (*Recorder)(nil)

// Record notes what watches queue until the test ends.
func Record(t *testing.T, watches []reconcile.Watch) *Recorder {
	t.Helper()
	r := &Recorder{}
	for _, w := range watches {
		t.Cleanup(w.Start(r))
	}
	return r
}

// Take is what was queued since the last time, each key once, in order.
func (r *Recorder) Take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.queued
	r.queued = nil
	slices.Sort(all)
	return slices.Compact(all)
}

// Add implements reconcile.Queue.
func (r *Recorder) Add(key string) { r.note(key) }

// Hurry implements reconcile.Queue.
func (r *Recorder) Hurry(key string) { r.note(key + "!") }

// AddAll implements reconcile.Queue.
func (r *Recorder) AddAll() { r.note(All) }

func (r *Recorder) note(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queued = append(r.queued, key)
}
