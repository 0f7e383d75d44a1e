// WATCH: what a client has seen of each object, and what it is sent for each change.

package kube

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/listing"
)

// sendTimeout is how long a client may take to receive what is sent to it.
const sendTimeout = 15 * time.Second

// hidden stands in watcher.seen for an object that the client does not have.
const hidden = -1

// event is one of a watch.
type event struct {
	kind   string
	object object
}

// watcher is one watch of one client.
type watcher struct {
	*Resource
	call  *route.Call
	shape shape
	query listing.Options
	// seen is the revision at which the client has each object, or hidden; what is not in it is not known.
	seen map[string]int64
	// complete says that what is not in seen is hidden: the watch began with a list.
	complete bool
	// headed says that the columns of a table were sent.
	headed bool
	rights *subscribe.Rights
	// before is who the caller may have been before the changes that are being shown.
	before auth.Identity
}

func (r *Resource) watch(c *route.Call, s shape, q listing.Options) error {
	changes := r.api.o.Changes
	w := &watcher{Resource: r, call: c, shape: s, query: q, seen: map[string]int64{}, rights: changes.RightsOf(c.Who)}
	revision := r.api.o.State.Store.Revision()
	start := q.Begin(revision)
	if start.Initial {
		start.Since, w.complete = revision, true
	}
	cursor, ok := changes.After(start.Since)
	if !ok || !start.Initial && !changes.SameRights(cursor, c.Who) {
		return listing.Expired("too old resource version: %d: what was removed since then is not known any more, or what you may see has changed; list again", start.Since)
	}
	// The token ends it; what the caller may see is asked of each change, and of all objects when their rights change.
	defer c.Bind(auth.Object{Kind: auth.Cluster})()
	h := c.W.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache, private")
	c.W.WriteHeader(http.StatusOK)
	if start.Initial {
		for _, o := range r.chosen(c, q) {
			w.seen[o.key] = o.revision
			if !w.send(event{"ADDED", o}) {
				return nil
			}
		}
		if start.Mark && !w.bookmark(revision, true) {
			return nil
		}
	}
	if w.flush() {
		w.follow(cursor)
	}
	return nil
}

// follow sends what comes until the client goes, its time or its credential is over, or it is too slow.
func (w *watcher) follow(cursor subscribe.Cursor) {
	feed, store := w.api.o.Changes, w.api.o.State.Store
	end := time.NewTimer(w.query.Duration())
	defer end.Stop()
	third := w.api.o.Heartbeat / 3
	beat := time.NewTicker(2*third + rand.N(2*third+1)) // #nosec G404 -- spreads load, nothing secret
	defer beat.Stop()
	for {
		complete := store.Revision() // before the changes: all up to it are among them
		changes, after, _, more, ok := feed.Next(cursor)
		if !ok {
			w.expired()
			return
		}
		cursor = after
		if len(changes) > 0 {
			if !w.admitted(changes) || !w.show(changes) {
				return
			}
			continue
		}
		select {
		case <-w.call.Ctx().Done():
			return
		case <-end.C:
			return
		case <-more:
		case <-beat.C:
			if w.query.Bookmarks && (!w.bookmark(complete, false) || !w.flush()) {
				return
			}
		}
	}
}

// admitted looks at who the caller is now, shows what they see by rights that they got and takes from the client what they may not
// see any more; false when it or their token is gone.
func (w *watcher) admitted(changes []subscribe.Change) bool {
	if route.Again(w.call) != nil {
		return false
	}
	w.before = w.rights.Before(changes)
	if !slices.ContainsFunc(changes, func(c subscribe.Change) bool { _, changed := w.rights.Changed(w.call.Who, c); return changed }) {
		return true
	}
	shown := changes[0].Revision - 1 // the changes themselves are shown afterwards
	for _, o := range w.list() {
		if e, ok := w.byRights(o, shown); ok && !w.send(e) {
			return false
		}
	}
	if w.query.Bookmarks && !w.bookmark(shown, false) { // an object that came has set the client back
		return false
	}
	return w.flush()
}

// byRights is what a change of rights alone does to an object in the client's eyes. An object that came keeps the revision by which it
// is changed, and each object that went has the revision up to which everything was shown.
func (w *watcher) byRights(o object, shown int64) (event, bool) {
	seen, known := w.seen[o.key]
	has := known && seen != hidden || !known && !w.complete && w.wantedBefore(o)
	switch wanted := w.wanted(o); {
	case has && !wanted:
		w.seen[o.key] = hidden
		return event{"DELETED", at(w.nameOnly(o), shown)}, true
	case wanted && !has && o.revision <= shown:
		w.seen[o.key] = o.revision
		return event{"ADDED", o}, true
	}
	return event{}, false
}

// wantedBefore says whether the client has an object as far as rights go.
func (w *watcher) wantedBefore(o object) bool {
	return o.matches(w.query) && w.shows(w.before, o)
}

// show sends what changes are to the client; false when it has gone.
func (w *watcher) show(changes []subscribe.Change) bool {
	sent := false
	for _, change := range changes {
		if w.collection != "" && change.Collection != w.collection {
			continue
		}
		if e, ok := w.eventOf(change); ok {
			if sent = true; !w.send(e) {
				return false
			}
		}
	}
	return !sent || w.flush()
}

// eventOf is a change as the client sees it. Objects are shown as they are now: a change that a later one has
// overtaken is left to that.
func (w *watcher) eventOf(change subscribe.Change) (event, bool) {
	key, last, ok := w.changed(change)
	if !ok {
		return event{}, false
	}
	before, known := w.seen[key]
	if !known && w.complete {
		before, known = hidden, true
	}
	if last != nil {
		w.seen[key] = hidden
		if before == hidden || !known && !w.wanted(*last) && !w.wantedBefore(*last) {
			return event{}, false
		}
		return event{"DELETED", at(*last, change.Revision)}, true
	}
	o, exists := w.get(key)
	switch {
	case exists && (w.permanent || o.revision == 0) && o.revision < change.Revision:
		o = at(o, change.Revision)
	case !exists || o.revision > change.Revision:
		if change.Created && !known {
			w.seen[key] = hidden
		}
		return event{}, false
	}
	if known && before >= o.revision {
		return event{}, false
	}
	wanted := w.wanted(o)
	switch {
	case wanted && (before == hidden || change.Created && !w.permanent):
		w.seen[key] = o.revision
		return event{"ADDED", o}, true
	case wanted:
		w.seen[key] = o.revision
		return event{"MODIFIED", o}, true
	}
	w.seen[key] = hidden
	if known && before != hidden || !known && !change.Created && !w.shows(w.call.Who, o) && w.wantedBefore(o) {
		return event{"DELETED", w.nameOnly(o)}, true
	}
	if !known && !change.Created && w.query.Labels != nil && w.shows(w.call.Who, o) && o.matches(listing.Options{Fields: w.query.Fields, Namespace: w.query.Namespace}) {
		return event{"DELETED", o}, true // it may have had the labels when the client listed
	}
	return event{}, false
}

// wanted says whether the client asked for an object and may see it.
func (w *watcher) wanted(o object) bool {
	return o.matches(w.query) && w.shows(w.call.Who, o)
}

// nameOnly is an object that left what the client sees: whole when it may still see it, else its name.
func (w *watcher) nameOnly(o object) object {
	if w.shows(w.call.Who, o) {
		return o
	}
	meta := map[string]any{"resourceVersion": o.text("resourceVersion")}
	for _, name := range []string{"name", "namespace", "uid"} {
		if text := o.text(name); text != "" {
			meta[name] = text
		}
	}
	o.content = map[string]any{"apiVersion": o.content["apiVersion"], "kind": o.content["kind"], "metadata": meta}
	o.cells = make([]any, len(o.cells))
	for i := range o.cells {
		o.cells[i] = ""
	}
	o.cells[0] = meta["name"]
	return o
}

// at is an object with another resourceVersion.
func at(o object, revision int64) object {
	meta := maps.Clone(o.metadata())
	meta["resourceVersion"] = strconv.FormatInt(revision, 10)
	o.content = maps.Clone(o.content)
	o.content["metadata"], o.revision = meta, revision
	return o
}

// send writes one event; false when the client has gone.
func (w *watcher) send(e event) bool {
	shown := w.present(w.shape, e.object, !w.headed)
	w.headed = true
	return w.write(e.kind, shown)
}

// bookmark says up to where the watch is complete; first marks the end of the objects that it began with.
func (w *watcher) bookmark(revision int64, first bool) bool {
	meta := map[string]any{"resourceVersion": strconv.FormatInt(revision, 10)}
	if first {
		meta["annotations"] = map[string]string{"k8s.io/initial-events-end": "true"}
	}
	o := object{revision: revision, content: map[string]any{"apiVersion": w.APIVersion(), "kind": w.Kind, "metadata": meta}}
	if w.shape.As == "Table" {
		return w.write("BOOKMARK", map[string]any{"apiVersion": w.shape.Version, "kind": "Table", "metadata": meta, "columnDefinitions": w.Columns, "rows": []any{
			map[string]any{"cells": []any{}, "object": metadataOnly(o, w.shape.Version)},
		}})
	}
	return w.write("BOOKMARK", w.present(w.shape, o, false))
}

// expired makes the client list again.
func (w *watcher) expired() {
	if status, ok := errors.AsType[*apierrors.StatusError](listing.Expired("this watch is too far behind: list again")); ok && w.write("ERROR", status.ErrStatus) {
		w.flush()
	}
}

func (w *watcher) write(kind string, o any) bool {
	// A connection without deadlines ends by itself.
	_ = http.NewResponseController(w.call.W).SetWriteDeadline(time.Now().Add(sendTimeout))
	return json.NewEncoder(w.call.W).Encode(struct {
		Type   string `json:"type"`
		Object any    `json:"object"`
	}{kind, o}) == nil
}

func (w *watcher) flush() bool {
	control := http.NewResponseController(w.call.W)
	_ = control.SetWriteDeadline(time.Now().Add(sendTimeout))
	return control.Flush() == nil
}
