// The recent past: which things changed in which order.

package subscribe

import (
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/drover-project/drover/server/store"
)

const (
	// keepFor is how long a client may be away and still miss nothing.
	keepFor = 5 * time.Minute
	// keepLeast events stay however old they are; keepMost is the bound however young.
	keepLeast = 10_000
	keepMost  = 200_000
)

// Change is one thing that changed. It holds no value but a removed one's: who shows a
// change reads the value when the change is shown, so that a long log stays small.
type Change struct {
	Revision int64
	// Collection and Key say what it was.
	Collection, Key string
	// Created says that it was not there before. Removed is the last value of what is gone.
	Created bool
	Removed any
}

// Of is the document that a change is of: as it is now, or as it was when it is gone. ok is false for one that is not known any more.
func Of[T any](c Change, in *store.Collection[T]) (d store.Document[T], gone, ok bool) {
	if last, gone := c.Removed.(T); gone {
		return store.Document[T]{Key: c.Key, Revision: c.Revision, Value: last}, true, true
	}
	d, ok = in.Get(c.Key)
	return d, false, ok
}

// Shown says for documents that are shown by their key what a change is about: the key, and the last form of what is gone.
func Shown[T, S any](show func(store.Document[T]) S) func(Change) (key string, last *S, ok bool) {
	return func(c Change) (string, *S, bool) {
		if value, gone := c.Removed.(T); gone {
			last := show(store.Document[T]{Key: c.Key, Revision: c.Revision, Value: value})
			return c.Key, &last, true
		}
		return c.Key, nil, true
	}
}

// Log is the changes of the last minutes in the order of their revisions.
type Log struct {
	now func() time.Time

	mu      sync.Mutex
	changes []Change
	times   []time.Time
	first   int64 // the number of changes[0]; numbers count from 0 without gaps
	floor   int64 // a client that has seen this revision or a later one can go on
	head    int64
	more    chan struct{}   // closed by the next change, then replaced
	past    <-chan struct{} // closed when what was before the log began is in it, or will not be; nil when that is not awaited
}

// NewLog makes a log; now is the clock.
func NewLog(now func() time.Time) *Log {
	return &Log{now: now, more: make(chan struct{})}
}

// Begin says that the log has everything after the revision. Changes may have been
// added before, by observers that had to come first.
func (l *Log) Begin(revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.floor, l.head = revision, max(l.head, revision)
}

// AwaitPast has clients that saw something before the log began wait until known is closed.
func (l *Log) AwaitPast(known <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.past = known
}

// lock locks the log once what is needed to go on after a revision is in it.
func (l *Log) lock(revision int64) {
	l.mu.Lock()
	if past := l.past; revision < l.floor && past != nil {
		l.mu.Unlock()
		<-past
		l.mu.Lock()
	}
}

// Recall puts changes in front of what the log began with, in the order of their revisions: all that there were after a revision, up to that with which
// it began. It does nothing once the log has dropped changes.
func (l *Log) Recall(past []Change, after int64) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first > 0 || after >= l.floor {
		return
	}
	began := sort.Search(len(l.changes), func(i int) bool { return l.changes[i].Revision > l.floor })
	l.changes, l.times = append(past, l.changes[began:]...), append(slices.Repeat([]time.Time{now}, len(past)), l.times[began:]...)
	l.first, l.floor = int64(began-len(past)), after
}

// Add appends a change; revisions never fall.
func (l *Log) Add(c Change) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes, l.times = append(l.changes, c), append(l.times, now)
	l.head = c.Revision
	for len(l.changes) > keepMost || len(l.changes) > keepLeast && now.Sub(l.times[0]) > keepFor {
		l.floor = l.changes[0].Revision + 1
		l.changes[0] = Change{} // the array lives on until it is grown; the removed value need not
		l.changes, l.times = l.changes[1:], l.times[1:]
		l.first++
	}
	close(l.more)
	l.more = make(chan struct{})
}

// Cursor is a place in the log.
type Cursor int64

// Now is the place behind the last change.
func (l *Log) Now() Cursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Cursor(l.first + int64(len(l.changes)))
}

// Since is the place from which a client goes on that saw the revision last. Changes of
// that revision come again, since one transaction changes several things and the client
// may have seen some of them only. False means that something may be missing: the
// client has to list anew, and the place is that of Now.
func (l *Log) Since(revision int64) (Cursor, bool) {
	l.lock(revision)
	defer l.mu.Unlock()
	if revision < l.floor || revision > l.head {
		return Cursor(l.first + int64(len(l.changes))), false
	}
	i := sort.Search(len(l.changes), func(i int) bool { return l.changes[i].Revision >= revision })
	return Cursor(l.first + int64(i)), true
}

// After is the place from which a client goes on that has seen everything up to the revision, which the store's
// view has reached. False means that something may be missing: the client has to list anew.
func (l *Log) After(revision int64) (Cursor, bool) {
	l.lock(revision)
	defer l.mu.Unlock()
	if revision < l.floor {
		return 0, false
	}
	i := sort.Search(len(l.changes), func(i int) bool { return l.changes[i].Revision > revision })
	return Cursor(l.first + int64(i)), true
}

// batch bounds how many changes are taken at once.
const batch = 500

// Next is what comes at the cursor and behind it, at most 500, and the place after that.
// Head is the revision up to which nothing is missing for a client that has seen those. Without
// any, more is closed when there will be some. False means that the log has gone on
// without the client.
func (l *Log) Next(c Cursor) (changes []Change, after Cursor, head int64, more <-chan struct{}, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := int64(c) - l.first
	if i < 0 {
		return nil, Cursor(l.first + int64(len(l.changes))), l.head, l.more, false
	}
	changes = l.changes[i:]
	if len(changes) > batch {
		changes = changes[:batch]
		head = changes[batch-1].Revision
	} else {
		head = l.head
	}
	copied := make([]Change, len(changes))
	copy(copied, changes)
	return copied, c + Cursor(len(changes)), head, l.more, true
}
