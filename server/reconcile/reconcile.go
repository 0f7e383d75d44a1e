// Package reconcile is the frame in which the server's workers run: the work that no request asks for. A
// worker says what it watches, how a change maps to keys, and what it does for one key; the frame has the queue, back-off,
// what runs on the leader only, clean stops, and tells people what runs, what waits and what failed.
//
//	watches ─▶ keys ─▶ queue ─▶ Reconcile(ctx, key) ─▶ Result: done, look again after, or wait for
//	                    ▲                                  │
//	                    └────────── back-off, resync ──────┘
//
// The context of a worker on the leader is fenced: once another server leads, no write below it goes through.
package reconcile

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/store"
)

// Worker is one worker of the server. Name, Title and Reconcile are required.
type Worker struct {
	// Name is what people and metrics call it: one word, or two with a dash.
	Name string
	// Title is one sentence about what it does.
	Title string
	// Everywhere runs it on every server of a store; else it runs on the leader.
	Everywhere bool
	// Watches have keys queued when something changes.
	Watches []Watch
	// Keys are all keys there are; they are queued when the worker begins. nil queues the key "".
	Keys func() []string
	// Reconcile brings what key names to what it should be, and is called for one key once at a time. It must return soon after
	// ctx ends. What it returns is either an error or a Result.
	Reconcile func(ctx context.Context, key string) (Result, error)
	// Start begins what a worker has beside its keys, before any worker gets a key; stop is called after ctx has ended and
	// no Reconcile runs any more, and returns when nothing of it is left. nil is nothing.
	Start func(ctx context.Context) (stop func())
	// Follow watches what is outside of the store for a key, and is called again with a back-off until ctx ends: when the key is
	// forgotten, or the worker stops. Queue has it queued. nil follows nothing.
	Follow func(ctx context.Context, key string, queue Queue) error

	// AtOnce is how many keys are worked on at once; 0 is all.
	AtOnce int
	// First is how long after its beginning the worker looks at its keys for the first time.
	First time.Duration
	// Resync is when a key is looked at again though nothing has changed; 0 is never.
	Resync time.Duration
	// Gather is how long a queued key waits for further changes.
	Gather time.Duration
	// Limit bounds one Reconcile; 0 does not.
	Limit time.Duration
	// RetryFirst and RetryLast bound the pauses after errors and waits, which double. Default: one second, one minute.
	RetryFirst, RetryLast time.Duration
}

// Result is what came of a key.
type Result struct {
	// After has the key looked at again; 0 is the worker's Resync.
	After time.Duration
	// Rest is how long the key is left alone though something changes, unless it is hurried.
	Rest time.Duration
	// Wait is what the key waits for; nil when it waits for nothing. Without After it is looked at again by the worker's pauses.
	Wait *Wait
	// Gone forgets the key: what it names is no longer there.
	Gone bool
}

// Wait is what a key waits for.
type Wait = apitypes.Waiting

// Queue takes keys. Its methods do not block, and do nothing while the worker does not run.
type Queue interface {
	// Add has a key looked at.
	Add(key string)
	// Hurry is Add for what a person waits for: it ends the key's rest.
	Hurry(key string)
	// AddAll adds all keys.
	AddAll()
}

// Watch is one thing that a worker watches.
type Watch struct {
	// Of names it for people, as "clusters" or "tunnels".
	Of string
	// Start begins to watch; stop ends it.
	Start func(Queue) (stop func())
}

// Keys are those of all documents of a collection.
func Keys[T any](of *store.Collection[T]) func() []string {
	return func() (all []string) {
		for _, d := range of.List() {
			all = append(all, d.Key)
		}
		return all
	}
}

// Documents watches a collection of the store. queue is called for each change, also for those of the worker itself, and must
// not block.
func Documents[T any](of *store.Collection[T], queue func(store.Event[T], Queue)) Watch {
	return Watch{Of: of.Name(), Start: func(q Queue) func() {
		return of.Observe(func(e store.Event[T]) { queue(e, q) })
	}}
}

// Signal is what is not in the store and yet watched by workers, such as tunnels. It takes keys as a queue does, and gives them to
// all workers that watch it.
type Signal struct {
	// Of names it for people.
	Of string

	mu     sync.Mutex
	queues []*Queue // replaced, never changed
}

// Watch has a worker watch it.
func (s *Signal) Watch() Watch {
	return Watch{Of: s.Of, Start: func(q Queue) func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.queues = append(slices.Clone(s.queues), &q)
		return func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.queues = slices.DeleteFunc(slices.Clone(s.queues), func(other *Queue) bool { return other == &q })
		}
	}}
}

// Add implements Queue.
func (s *Signal) Add(key string) { s.each(func(q Queue) { q.Add(key) }) }

// Hurry implements Queue.
func (s *Signal) Hurry(key string) { s.each(func(q Queue) { q.Hurry(key) }) }

// AddAll implements Queue.
func (s *Signal) AddAll() { s.each(Queue.AddAll) }

func (s *Signal) each(f func(Queue)) {
	s.mu.Lock()
	queues := s.queues
	s.mu.Unlock()
	for _, q := range queues {
		f(*q)
	}
}
