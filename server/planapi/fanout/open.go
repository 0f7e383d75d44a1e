// Where a watch begins, and what it begins with.

package fanout

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/drover-project/drover/server/records"
)

// Watch is one watch that a client asks for.
type Watch struct {
	Scope Scope
	Start Start
	// Bookmarks asks for a heartbeat of bookmarks.
	Bookmarks bool
	// Machine says that the client is the agent of the one Secret of the scope.
	Machine bool
	// Duration is how long the watch runs.
	Duration time.Duration
	// Until calls end once the client may watch no longer, until stop is called; nil never does.
	Until func(end func()) (stop func())
}

// Start is what a stream begins with.
type Start struct {
	// Initial sends what there is as ADDED; Mark ends that with the marked bookmark.
	Initial, Mark bool
	// Since is the revision after which changes are reported; unused with Initial.
	Since int64
}

// Serve answers 200 and streams. On HTTP/1.1 it takes the connection over and returns;
// otherwise it returns when the watch ends.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, q Watch) {
	scope := q.Scope // a pointer into q would keep the request alive, which q.Until stands on, as long as the watch
	s := &stream{
		hub: h, scope: &scope, bookmarks: q.Bookmarks, machine: q.Machine,
		until: time.Now().Add(q.Duration), // real time, see left
		done:  make(chan struct{}),
	}
	raw, err := h.takeOver(w, r)
	switch {
	case err == nil:
		s.sink = raw
	case errors.Is(err, http.ErrNotSupported):
		s.sink = &handlerSink{w: w, control: http.NewResponseController(w), hub: h}
	default:
		h.options.Logger.Debug("watch not begun", "error", err)
		return // the connection is gone, there is no client to answer
	}
	if !h.attach(s, q.Start) {
		s.sink.cut() // closing; the client will ask another server
		return
	}
	if q.Until != nil {
		s.bind(q.Until)
	}
	if raw != nil {
		go func() { // counted in hub.running
			defer h.running.Done()
			raw.awaitPeer()
			s.abort()
		}()
		return
	}
	defer h.running.Done()
	select {
	case <-r.Context().Done():
		s.abort()
		<-s.done
	case <-s.done:
	}
}

// attach makes the stream known to the hub and queues what it begins with. Changes that
// happen meanwhile wait at s.mu, and those that the snapshot has already are left out.
func (h *Hub) attach(s *stream, from Start) bool {
	if s.machine {
		h.presence.opened(s.scope.Key) // taken back by remove
	}
	s.mu.Lock()
	since := from.Since
	if from.Initial {
		since = -1
	}
	gone, since, complete, open := h.add(s, since)
	if !open {
		s.mu.Unlock()
		if s.machine {
			h.presence.closed(s.scope.Key, 0)
		}
		return false
	}
	revision := h.options.Store.Revision() // before the snapshot, which then has everything up to it
	if !from.Initial {
		from.Since = since
	}
	frames, last := opening(s.scope, h.covered(s.scope), gone, from)
	s.last = max(last, from.Since)
	if from.Mark {
		frames = append(frames, bookmarkFrame(max(revision, last), true))
	}
	if !complete && (s.scope.Key == "" || len(frames) == 0) {
		frames, s.closing = []frame{expiredFrame(fmt.Sprintf("too old resource version: %d: list again", from.Since))}, true
	}
	s.queue = frames
	s.wake() // sends the header in any case: who sees it is known to be there
	s.timer = time.AfterFunc(s.pause(), s.tick)
	s.mu.Unlock()
	if s.machine {
		for _, old := range h.surplus(s.scope.Key) {
			old.finish()
		}
	}
	return true
}

// opening is the events that a stream begins with, in the order of their revisions, and
// the revision up to which they report everything.
func opening(s *Scope, present []Document, gone []tombstone, from Start) (frames []frame, last int64) {
	for _, d := range present {
		last = max(last, d.Revision)
		f := frame{kind: added, change: &change{Document: d}}
		switch {
		case from.Initial:
			if !s.Matches(d.Value.Object) {
				continue
			}
		case d.Revision <= from.Since:
			continue
		case s.Matches(d.Value.Object):
			f.kind = modified
		default:
			f.kind = deleted // it may have matched before
		}
		frames = append(frames, f)
	}
	for _, t := range gone {
		// An object that is there again says more than its removal.
		if !slices.ContainsFunc(present, func(d Document) bool { return d.Key == t.key }) {
			d := Document{Key: t.key, Revision: t.revision, Value: records.PlanSecret{Object: t.object}}
			frames = append(frames, frame{kind: deleted, change: &change{Document: d}})
		}
	}
	if !from.Initial { // a list keeps the order of names
		slices.SortFunc(frames, func(a, b frame) int { return cmp.Compare(a.change.Revision, b.change.Revision) })
	}
	return frames, last
}

// List is what the view has of a scope now, sorted by key.
func (h *Hub) List(s *Scope) []Document {
	return slices.DeleteFunc(h.covered(s), func(d Document) bool { return !s.Matches(d.Value.Object) })
}

// covered is what the view has below the scope's keys.
func (h *Hub) covered(s *Scope) []Document {
	if s.Key == "" {
		return h.options.Secrets.ListIn(s.Prefix)
	}
	if d, ok := h.options.Secrets.Get(s.Key); ok {
		return []Document{d}
	}
	return nil
}
