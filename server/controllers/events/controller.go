// Package events keeps the changes of states for a while: which machine, cluster or operation came
// from which state into which, when and why. No code has to announce one. Each server derives them
// from the changes of the store that it sees anyway, so that what is written of a state, by any server,
// cannot be without its event, and a roll-out costs no write more; and the server that leads writes
// them down, once a second at most, many in one document. A server that ends without warning loses
// at most the events of that second; where several servers run, the next leader has these events, too.
package events

import (
	"context"
	"log/slog"
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

	mu      sync.Mutex
	pending map[string][]records.Event // seen and not written down, by cluster ID, at most PerCluster each
	more    chan struct{}              // closed by the next event, then replaced
}

// New makes a log of what changes from now on. Nothing is written before its worker runs.
func New(o Options) *Log {
	l := &Log{Options: o, dirty: reconcile.Signal{Of: "states of machines, clusters and operations"}, pending: map[string][]records.Event{}, more: make(chan struct{})}
	o.State.Clusters.Observe(func(e store.Event[records.Cluster]) {
		if e.Type == store.Deleted || e.Old == nil {
			l.mark() // the others' share is another one now, and its own events go with it
		}
		l.add(ofCluster(e, l.now))
	})
	o.State.Fleets.Observe(func(e store.Event[records.Fleet]) {
		if e.Type == store.Deleted || e.Old == nil {
			l.mark() // as for clusters
		}
	})
	o.State.Machines.Observe(func(e store.Event[records.Machine]) { l.add(ofMachine(e, l.now)) })
	o.State.Operations.Observe(func(e store.Event[operations.Operation]) {
		if cluster, ok := o.State.Clusters.Get(e.Value.Subject); ok {
			l.add(ofOperation(e, cluster.Value.ID, l.now))
		} else if fleet, ok := o.State.Fleets.Get(e.Value.Subject); ok {
			l.add(ofOperation(e, fleet.Value.ID, l.now))
		}
	})
	o.State.Rehearsals.Observe(func(e store.Event[records.Rehearsals]) {
		if cluster, ok := o.State.Clusters.Get(e.Key); ok {
			l.add(ofRehearsals(e, cluster.Value))
		}
	})
	o.State.Events.Observe(func(e store.Event[records.EventPage]) {
		if e.Type == store.Put {
			l.written(clusterOf(e.Key), through(e.Value))
		}
	})
	return l
}

func (l *Log) now() time.Time { return l.Now().UTC() }

// every is how long what changes is gathered before it is written.
const every = time.Second

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
