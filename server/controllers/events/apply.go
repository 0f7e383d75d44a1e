// What is written down, and what is removed for it.

package events

import (
	"context"
	"slices"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// lastWrite bounds the write of the last events when the leadership ends.
const lastWrite = 2 * time.Second

// Bounds of a transaction, below those of an etcd that is not tuned.
const (
	maxOps    = 100
	maxEvents = PerCluster // of about 1 KiB at most
)

// write writes down what was seen of all clusters, and removes what is too much or of no cluster any more.
func (l *Log) write(ctx context.Context) error {
	// Of a revision that the view has not reached some events may not be there yet.
	reached := l.State.Store.Revision()
	clusters := map[string]bool{}
	for _, d := range l.State.Clusters.List() {
		clusters[d.Value.ID] = true
	}
	for _, d := range l.State.Fleets.List() {
		clusters[d.Value.ID] = true
	}
	pages, fresh := map[string][]store.Document[records.EventPage]{}, map[string][]records.Event{}
	for _, d := range l.State.Events.List() {
		id := clusterOf(d.Key)
		pages[id] = append(pages[id], d)
	}
	l.mu.Lock()
	for id, list := range l.pending {
		if !clusters[id] && list[len(list)-1].Revision <= reached {
			delete(l.pending, id)
			continue
		}
		var done int64 // the last page may be in the view before its events are taken from the pending ones
		if n := len(pages[id]); n > 0 {
			done = through(pages[id][n-1].Value)
		}
		fresh[id] = slices.DeleteFunc(slices.Clone(list), func(e records.Event) bool { return e.Revision > reached || e.Revision <= done })
		if list[len(list)-1].Revision > reached {
			defer l.mark()
		}
	}
	l.mu.Unlock()
	share := shareOf(len(clusters))
	var ops []store.Op
	size := 0
	for id := range union(clusters, pages) {
		var next change
		if clusters[id] {
			next = plan(pages[id], fresh[id], share)
		} else {
			next = change{remove: keysOf(pages[id])}
		}
		mine, events := l.ops(id, next)
		if len(ops) > 0 && (len(ops)+len(mine) > maxOps || size+events > maxEvents) {
			if _, err := l.State.Store.Commit(ctx, ops...); err != nil {
				return err
			}
			ops, size = nil, 0
		}
		ops, size = append(ops, mine...), size+events
	}
	_, err := l.State.Store.Commit(ctx, ops...)
	return err
}

// ops are the writes of a change, and how many events are in them.
func (l *Log) ops(cluster string, c change) (ops []store.Op, events int) {
	for _, key := range c.remove {
		ops = append(ops, l.State.Events.Deleting(key, 0))
	}
	if c.tail != nil {
		ops, events = append(ops, l.State.Events.Updating(*c.tail)), events+len(c.tail.Value.Events)
	}
	for i, page := range c.add {
		ops, events = append(ops, l.State.Events.Creating(pageKey(cluster, c.first+i), page)), events+len(page.Events)
	}
	return ops, events
}

func union(a map[string]bool, b map[string][]store.Document[records.EventPage]) map[string]bool {
	all := map[string]bool{}
	for id := range a {
		all[id] = true
	}
	for id := range b {
		all[id] = true
	}
	return all
}
