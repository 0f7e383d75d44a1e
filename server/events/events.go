// Package events keeps the changes of states for a while: which machine, cluster or operation came
// from which state into which, when and why. Nobody has to announce one. Each server derives them
// from the changes of the store that it sees anyway, so that what is written of a state, by whomever,
// cannot be without its event, and a roll-out costs no write more; and the server that leads writes
// them down, once a second at most, many in one document. A server that ends without warning loses
// at most those of that second, and where others run, the next leader has even these.
package events

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Bounds of what is kept: of each cluster, and in all. Clusters share the latter alike, so that one
// that is restless takes nothing from another.
const (
	PerCluster = 500
	InAll      = 10_000
)

// Options of a log.
type Options struct {
	State  *state.State
	Now    func() time.Time
	Logger *slog.Logger
}

// Log is the events of all clusters and fleets, the latter being meant with the former below: those that are written down, and those that are about to be.
type Log struct {
	Options
	dirty reconcile.Signal // there is something to write
	stop  []func()

	mu      sync.Mutex
	pending map[string][]records.Event // seen and not written down, by cluster ID, at most PerCluster each
	more    chan struct{}              // closed by the next event, then replaced
}

// New makes a log of what changes from now on, until Close. Nothing is written before its worker runs.
func New(o Options) *Log {
	l := &Log{Options: o, dirty: reconcile.Signal{Of: "states of machines, clusters and operations"}, pending: map[string][]records.Event{}, more: make(chan struct{})}
	l.stop = []func(){
		o.State.Clusters.Observe(func(e store.Event[records.Cluster]) {
			if e.Type == store.Deleted || e.Old == nil {
				l.mark() // the others' share is another one now, and its own events go with it
			}
			l.add(ofCluster(e, l.now))
		}),
		o.State.Fleets.Observe(func(e store.Event[records.Fleet]) {
			if e.Type == store.Deleted || e.Old == nil {
				l.mark() // as for clusters
			}
		}),
		o.State.Machines.Observe(func(e store.Event[records.Machine]) { l.add(ofMachine(e, l.now)) }),
		o.State.Operations.Observe(func(e store.Event[operations.Operation]) {
			if cluster, ok := o.State.Clusters.Get(e.Value.Subject); ok {
				l.add(ofOperation(e, cluster.Value.ID, l.now))
			} else if fleet, ok := o.State.Fleets.Get(e.Value.Subject); ok {
				l.add(ofOperation(e, fleet.Value.ID, l.now))
			}
		}),
		o.State.Rehearsals.Observe(func(e store.Event[records.Rehearsals]) {
			if cluster, ok := o.State.Clusters.Get(e.Key); ok {
				l.add(ofRehearsals(e, cluster.Value))
			}
		}),
		o.State.Events.Observe(func(e store.Event[records.EventPage]) {
			if e.Type == store.Put {
				l.written(clusterOf(e.Key), through(e.Value))
			}
		}),
	}
	return l
}

// Close ends observing.
func (l *Log) Close() {
	for _, stop := range l.stop {
		stop()
	}
}

func (l *Log) now() time.Time { return l.Now().UTC() }

// add takes an event, if it is one.
func (l *Log) add(e records.Event, changed bool) {
	if !changed {
		return
	}
	l.mu.Lock()
	list := append(l.pending[e.ClusterID], e)
	l.pending[e.ClusterID] = list[max(0, len(list)-PerCluster):]
	close(l.more)
	l.more = make(chan struct{})
	l.mu.Unlock()
	l.mark()
}

func (l *Log) mark() { l.dirty.Add("") }

// written takes events for written down, up to a revision.
func (l *Log) written(cluster string, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(l.pending[cluster]), func(e records.Event) bool { return e.Revision <= revision })
	if len(left) == 0 {
		delete(l.pending, cluster)
		return
	}
	l.pending[cluster] = left
}

// More is closed when there is another event.
func (l *Log) More() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.more
}

// From are the events of a cluster, or of all for "", whose revision is at least the given one, in
// their order. Every server has the same, but for those of the last second before it started. Two
// that share the newest revision may come one after the other.
func (l *Log) From(cluster string, revision int64) []records.Event {
	prefix, fresh := "", l.seen(cluster) // before the pages: what is written meanwhile is then found twice, and not missed
	if cluster != "" {
		prefix = cluster + "/"
	}
	var all []records.Event
	reached := map[string]int64{}
	for _, d := range l.State.Events.ListIn(prefix) {
		last := through(d.Value)
		reached[clusterOf(d.Key)] = last
		if last >= revision {
			all = append(all, d.Value.Events...)
		}
	}
	for _, e := range fresh {
		if e.Revision > reached[e.ClusterID] {
			all = append(all, e)
		}
	}
	all = slices.DeleteFunc(all, func(e records.Event) bool { return e.Revision < revision })
	slices.SortFunc(all, records.CompareEvents)
	return all
}

// seen are the events of a cluster, or of all, that are not written down.
func (l *Log) seen(cluster string) []records.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cluster != "" {
		return slices.Clone(l.pending[cluster])
	}
	var all []records.Event
	for _, list := range l.pending {
		all = append(all, list...)
	}
	return all
}

// every is how long what changes is gathered before it is written.
const every = time.Second

// lastWrite bounds the write of the last events when the leadership ends.
const lastWrite = 2 * time.Second

// Worker writes events down for as long as this server leads: below a context that is fenced there is one writer. The last ones are
// written once nothing else is done any more.
func (l *Log) Worker() reconcile.Worker {
	return reconcile.Worker{
		Name: "events", Title: "writes down what has happened to clusters and machines", Watches: []reconcile.Watch{l.dirty.Watch()}, Gather: every,
		Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) { return reconcile.Result{}, l.write(ctx) },
		Start: func(ctx context.Context) (stop func()) {
			return func() {
				last, done := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
				defer done()
				if err := l.write(last); err != nil {
					l.Logger.Debug("the last events could not be written down; the next leader does if it has seen them", "error", err)
				}
			}
		},
	}
}

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

func clusterOf(pageKey string) string {
	id, _, _ := strings.Cut(pageKey, "/")
	return id
}

// through is the revision up to which a page has events; pages are not empty.
func through(p records.EventPage) int64 {
	if len(p.Events) == 0 {
		return 0
	}
	return p.Events[len(p.Events)-1].Revision
}
