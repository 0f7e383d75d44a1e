package store

// This file holds watches: events in order, from a ring of recent history and then live.

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
)

// EventType is what happened to a document.
type EventType int

const (
	// Put says that the document was created or replaced.
	Put EventType = iota + 1
	// Deleted says that it was removed.
	Deleted
)

// String is "put" or "deleted".
func (t EventType) String() string {
	switch t {
	case Put:
		return "put"
	case Deleted:
		return "deleted"
	default:
		return fmt.Sprintf("event type %d", int(t))
	}
}

// Event is one change of a document. Values are shared: never change them.
type Event[T any] struct {
	Type EventType
	Key  string
	// Revision is the revision of the change; for Deleted that of the deletion.
	Revision int64
	// Value is the new value, for Deleted the last one.
	Value T
	// Old is the value before, nil when the document was created.
	Old *T
}

// historyLength is how many events of a collection can be watched again, and how many a
// watcher may be behind. etcd must keep at least as many revisions.
const historyLength = 10_000

// history is a ring of the last events, oldest first from start. All events after the
// revision floor are in it.
type history[T any] struct {
	length int
	floor  int64
	events []*Event[T]
	start  int
}

func (h *history[T]) add(e *Event[T]) {
	if len(h.events) < h.length {
		h.events = append(h.events, e)
		return
	}
	h.floor = h.events[h.start].Revision
	h.events[h.start] = e
	h.start = (h.start + 1) % h.length
}

func (h *history[T]) at(i int) *Event[T] { return h.events[(h.start+i)%len(h.events)] }

// after is the events with a revision above since that match, oldest first; false when
// some of them may be gone.
func (h *history[T]) after(since int64, match func(key string) bool) ([]*Event[T], bool) {
	if since < h.floor {
		return nil, false
	}
	first := sort.Search(len(h.events), func(i int) bool { return h.at(i).Revision > since })
	var events []*Event[T]
	for i := first; i < len(h.events); i++ {
		if e := h.at(i); match(e.Key) {
			events = append(events, e)
		}
	}
	return events, true
}

// Watcher delivers events of one collection. Its cost while nothing happens is one
// goroutine.
type Watcher[T any] struct {
	events chan Event[T]
	wake   chan struct{} // holds one token when pending has news
	behind chan struct{} // closed when too much was pending
	since  int64
	limit  int // of pending

	mu      sync.Mutex
	pending []*Event[T]
	fell    bool
	err     error
}

// Events delivers in the order of revisions. It is closed when the watch ends: Err says why.
func (w *Watcher[T]) Events() <-chan Event[T] { return w.events }

// Err is why Events is closed: ErrTooOld when the watcher fell behind, the context's
// error when that ended, or why the store ended. It is nil while Events is open.
func (w *Watcher[T]) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Watch delivers all events with a revision above since, from history and then as they
// come, until ctx ends. It returns ErrTooOld when since is older than the history kept
// (at least 10,000 events of the collection, none from before Open) or newer than the
// store. A watcher that is more than 10,000 events behind is ended with ErrTooOld.
func (c *Collection[T]) Watch(ctx context.Context, since int64) (*Watcher[T], error) {
	return c.watch(ctx, since, "", true)
}

// WatchIn is Watch for the keys that begin with prefix.
func (c *Collection[T]) WatchIn(ctx context.Context, prefix string, since int64) (*Watcher[T], error) {
	return c.watch(ctx, since, prefix, true)
}

// WatchKey is Watch for one document. Thousands of them cost nothing for each other's
// events.
func (c *Collection[T]) WatchKey(ctx context.Context, key string, since int64) (*Watcher[T], error) {
	return c.watch(ctx, since, key, false)
}

func (c *Collection[T]) watch(ctx context.Context, since int64, text string, isPrefix bool) (*Watcher[T], error) {
	s, err := c.bound()
	if err != nil {
		return nil, err
	}
	match := func(key string) bool { return key == text }
	if isPrefix {
		match = func(key string) bool { return strings.HasPrefix(key, text) }
	}
	w := &Watcher[T]{
		events: make(chan Event[T]),
		wake:   make(chan struct{}, 1),
		behind: make(chan struct{}),
		since:  since,
		limit:  s.options.history,
	}
	// Under the lock, so that no event comes between history and live ones.
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("watch %s: %w", c.name, err)
	}
	if since > s.applying.get() {
		return nil, fmt.Errorf("watch %s from revision %d: %w", c.name, since, ErrTooOld)
	}
	past, ok := c.history.after(since, match)
	if !ok {
		return nil, fmt.Errorf("watch %s from revision %d: %w", c.name, since, ErrTooOld)
	}
	remove := c.watchers.add(w, text, isPrefix)
	if !s.run(func() {
		w.run(ctx, s, past)
		c.mu.Lock()
		defer c.mu.Unlock()
		remove()
	}) {
		remove()
		return nil, fmt.Errorf("watch %s: %w", c.name, ErrClosed)
	}
	return w, nil
}

// run hands the events of the past and then the pending ones to the reader until the
// watch ends.
func (w *Watcher[T]) run(ctx context.Context, s *Store, events []*Event[T]) {
	var reason error
	defer func() {
		w.mu.Lock()
		w.err, w.pending, w.fell = reason, nil, true
		w.mu.Unlock()
		close(w.events)
	}()
	ended := func() bool {
		select {
		case <-ctx.Done():
			reason = ctx.Err()
		case <-s.alive.Done():
			reason = s.Err()
		case <-w.behind:
			reason = fmt.Errorf("the watcher is more than %d events behind: %w", w.limit, ErrTooOld)
		default:
			return false
		}
		return true
	}
	for {
		for _, e := range events {
			if ended() {
				return
			}
			select {
			case w.events <- *e:
			case <-ctx.Done():
			case <-s.alive.Done():
			case <-w.behind:
			}
		}
		if ended() {
			return
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
		case <-s.alive.Done():
		case <-w.behind:
		}
		w.mu.Lock()
		events, w.pending = w.pending, nil
		w.mu.Unlock()
	}
}

// push gives the watcher one more event. It never blocks: one that does not read is
// ended.
func (w *Watcher[T]) push(e *Event[T]) {
	if e.Revision <= w.since {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.fell:
		return
	case len(w.pending) >= w.limit:
		w.fell, w.pending = true, nil
		close(w.behind)
		return
	}
	w.pending = append(w.pending, e)
	select {
	case w.wake <- struct{}{}:
	default: // it knows already
	}
}

// watchers are those of one collection; those of a single key are found by it.
type watchers[T any] struct {
	byKey    map[string]map[*Watcher[T]]struct{}
	byPrefix map[string]map[*Watcher[T]]struct{}
}

func (ws *watchers[T]) add(w *Watcher[T], text string, isPrefix bool) (remove func()) {
	if ws.byKey == nil {
		ws.byKey = make(map[string]map[*Watcher[T]]struct{})
		ws.byPrefix = make(map[string]map[*Watcher[T]]struct{})
	}
	index := ws.byKey
	if isPrefix {
		index = ws.byPrefix
	}
	if index[text] == nil {
		index[text] = make(map[*Watcher[T]]struct{})
	}
	index[text][w] = struct{}{}
	return func() {
		delete(index[text], w)
		if len(index[text]) == 0 {
			delete(index, text)
		}
	}
}

func (ws *watchers[T]) tell(e *Event[T]) {
	for w := range ws.byKey[e.Key] {
		w.push(e)
	}
	for prefix, index := range ws.byPrefix {
		if !strings.HasPrefix(e.Key, prefix) {
			continue
		}
		for w := range index {
			w.push(e)
		}
	}
}
