// Package fanout hands each change of a plan Secret to those who watch it, as the
// events of a Kubernetes watch. It is fed by the store's one view: nothing asks again
// and again, a change is encoded once for all, and an idle watch is a connection and a
// few KiB. It also knows who is there, since an agent's open watch is its only sign of
// life.
//
// Wire source: k8s.io/apiserver's watch handler, client-go's reflector.
package fanout

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Document is a plan Secret with its revision.
type Document = store.Document[records.PlanSecret]

// change is one change of a Secret, shared by all streams that send it.
type change struct {
	Document
	// shared says that more than one stream may send it, so that what it is as JSON is worth
	// keeping. Nearly always it is the one stream of the machine's agent.
	shared  bool
	once    sync.Once
	encoded []byte
}

// object is a shared change as JSON.
func (c *change) object(encode func([]byte, Document) []byte) []byte {
	c.once.Do(func() { c.encoded = encode(nil, c.Document) })
	return c.encoded
}

// tombstone is a Secret that was removed, for watches that begin before that.
type tombstone struct {
	revision int64
	object   records.Object
	key      string
}

// maxTombstones bounds how many removals can be reported later, maxShared how many revisions of
// several Secrets are remembered.
const (
	maxTombstones = 2048
	maxShared     = 2048
)

// machineStreams is how many watches one machine may have; the oldest gives way, since
// it may be one whose host is gone without a word.
const machineStreams = 4

// Options are what a Hub stands on; all are needed but Logger and the times.
type Options struct {
	Store   *store.Store
	Secrets *store.Collection[records.PlanSecret]
	// Encode appends the JSON of a Secret, without a newline at its end.
	Encode func([]byte, Document) []byte
	// Now is the clock of presence; default time.Now.
	Now func() time.Time
	// Heartbeat is the mean distance of bookmarks on an idle watch, spread by a third
	// both ways; default 45 s.
	Heartbeat time.Duration
	// Grace is how long an agent whose watch ended still counts as there; default observed.AgentGrace.
	Grace time.Duration
	// Logger gets watches that could not begin; default is to drop it.
	Logger *slog.Logger
}

// Hub knows all open watches.
type Hub struct {
	options  Options
	presence *presence
	buffers  buffers
	// sendTimeout is how long a client may take to receive one event.
	sendTimeout time.Duration
	stop        func() // ends the feed
	// running counts each stream, who holds its connection, and who sends on it.
	running sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	byKey      map[string][]*stream
	wide       map[*stream]struct{} // those of more than one Secret
	tombstones []tombstone          // oldest first
	// floor is the revision up to which removals may be forgotten, and began what it was at first. past is closed when removals of before are
	// known, or will not be; nil when that is not awaited.
	floor, began int64
	past         <-chan struct{}
	// shared are the newest revisions in which several Secrets changed, oldest first, and
	// sharedFloor the newest one that is forgotten. A watch of several Secrets that was cut
	// between the events of such a revision has seen some of them only.
	shared      []int64
	sharedFloor int64
	newest      int64 // the revision of the last change
}

// New makes a Hub that follows the store from now on; Close ends that.
func New(o Options) *Hub {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = 45 * time.Second
	}
	if o.Grace <= 0 {
		o.Grace = observed.AgentGrace
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Hub{
		options: o, presence: newPresence(o.Now, o.Grace), sendTimeout: sendTimeout,
		byKey: map[string][]*stream{}, wide: map[*stream]struct{}{},
	}
	h.stop = o.Secrets.Observe(h.observe)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = max(h.floor, o.Store.Revision())
	h.floor = h.began
	return h
}

// Watching says whether the agent of a plan Secret, "<namespace>/<name>", is there: it has its watch open, since when; or since when it has not,
// zero for never. A watch that ends and is opened again within a few seconds was never gone.
func (h *Hub) Watching(key string) (since time.Time, connected bool) { return h.presence.of(key) }

// OnPresence calls f whenever an agent comes or goes, one call at a time. f must not block. It is called before the first watch is served.
func (h *Hub) OnPresence(f func(key string, connected bool)) { h.presence.subscribe(f) }

// observe runs in the store's view, one change after the other.
func (h *Hub) observe(e store.Event[records.PlanSecret]) {
	c := &change{Document: Document{Key: e.Key, Revision: e.Revision, Value: e.Value}}
	gone := e.Type == store.Deleted
	h.mu.Lock()
	h.noteShared(e.Revision)
	c.shared = len(h.byKey[e.Key])+len(h.wide) > 1
	if gone {
		h.bury(tombstone{revision: e.Revision, key: e.Key, object: e.Value.Object})
	}
	for _, s := range h.byKey[e.Key] {
		s.offer(c, e.Old, gone)
	}
	for s := range h.wide {
		s.offer(c, e.Old, gone)
	}
	h.mu.Unlock()
	if gone {
		h.presence.forget(e.Key)
	}
}

// noteShared remembers a revision that the change before had too. h.mu is held.
func (h *Hub) noteShared(revision int64) {
	if n := len(h.shared); revision == h.newest && (n == 0 || h.shared[n-1] != revision) {
		h.share(revision)
	}
	h.newest = revision
}

func (h *Hub) share(revision int64) {
	if len(h.shared) == maxShared {
		h.sharedFloor = h.shared[0]
		h.shared = slices.Delete(h.shared, 0, 1)
	}
	h.shared = append(h.shared, revision)
}

func (h *Hub) bury(t tombstone) {
	if len(h.tombstones) == maxTombstones {
		h.floor = h.tombstones[0].revision
		h.tombstones = slices.Delete(h.tombstones, 0, 1)
	}
	h.tombstones = append(h.tombstones, t)
}

// add makes a stream known, and is the removals that it has to report: those after the
// revision from, which is since or just before it when others may be missing in since itself.
// complete is false when some may be forgotten, open is false when the server is closing. When
// open, the caller calls running.Done once it lets the connection go.
func (h *Hub) add(s *stream, since int64) (gone []tombstone, from int64, complete, open bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, since, false, false
	}
	h.running.Add(2) // the stream, which leave ends, and the caller
	if s.scope.Key == "" {
		h.wide[s] = struct{}{}
	} else {
		h.byKey[s.scope.Key] = append(h.byKey[s.scope.Key], s)
	}
	if since < 0 {
		return nil, since, true, true
	}
	complete = since >= h.floor
	if s.scope.Key == "" {
		complete = complete && since > h.sharedFloor
		if _, shared := slices.BinarySearch(h.shared, since); shared {
			since--
		}
	}
	for _, t := range h.tombstones {
		if t.revision > since && s.scope.Covers(t.key) && s.scope.Matches(t.object) {
			gone = append(gone, t)
		}
	}
	return gone, since, complete, true
}

// Remembers says whether all removals after a revision are known.
func (h *Hub) Remembers(since int64) bool {
	h.mu.Lock()
	if past := h.past; since < h.floor && past != nil {
		h.mu.Unlock()
		<-past
		h.mu.Lock()
	}
	defer h.mu.Unlock()
	return since >= h.floor
}

// AwaitPast has watches that saw something before the hub began wait until known is closed.
func (h *Hub) AwaitPast(known <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.past = known
}

// Recall takes what changed before the hub began and after a revision, in the order of revisions, unless the hub has forgotten removals meanwhile.
func (h *Hub) Recall(past []store.PastChange, after int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.floor != h.began || after >= h.floor {
		return
	}
	tombstones, shared, newest := h.tombstones, h.shared, h.newest
	h.tombstones, h.shared, h.newest, h.floor, h.sharedFloor = nil, nil, 0, after, after
	for _, p := range past {
		if p.Collection != h.options.Secrets.Name() || p.Revision > h.began {
			continue
		}
		h.noteShared(p.Revision)
		if last, gone := p.Removed.(records.PlanSecret); gone {
			h.bury(tombstone{revision: p.Revision, key: p.Key, object: last.Object})
		}
	}
	for _, t := range tombstones {
		if t.revision > h.began { // the others came twice
			h.bury(t)
		}
	}
	for _, revision := range shared {
		if revision > h.began {
			h.share(revision)
		}
	}
	h.newest = max(h.newest, newest)
}

// surplus is the machine's streams of a key that have to give way, oldest first.
func (h *Hub) surplus(key string) []*stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	var machines []*stream
	for _, s := range h.byKey[key] {
		if s.machine {
			machines = append(machines, s)
		}
	}
	return machines[:max(0, len(machines)-machineStreams)]
}

// remove is the end of a stream.
func (h *Hub) remove(s *stream) {
	h.mu.Lock()
	key := s.scope.Key
	if key == "" {
		delete(h.wide, s)
	} else {
		rest := slices.DeleteFunc(h.byKey[key], func(other *stream) bool { return other == s })
		if len(rest) == 0 {
			delete(h.byKey, key)
		} else {
			h.byKey[key] = rest
		}
	}
	h.mu.Unlock()
	if s.machine {
		h.presence.closed(key, s.silent)
	}
}

// Close ends all watches in order and waits for them.
func (h *Hub) Close() {
	h.stop()
	h.presence.stop()
	h.mu.Lock()
	h.closed = true
	all := make([]*stream, 0, len(h.wide)+len(h.byKey))
	for s := range h.wide {
		all = append(all, s)
	}
	for _, streams := range h.byKey {
		all = append(all, streams...)
	}
	h.mu.Unlock()
	for _, s := range all {
		s.finish()
	}
	h.running.Wait()
}
