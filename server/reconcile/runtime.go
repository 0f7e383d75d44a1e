package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/server/store"
)

// Leadership is the name of what the one server of a store leads that runs the workers.
const Leadership = "clusters"

// resignLimit bounds how long a server that ends takes to tell the others. Without it a successor would wait until the lease runs out.
const resignLimit = 2 * time.Second

// Options of a Runtime. All are required.
type Options struct {
	Store *store.Store
	// Identity names this server among those that campaign for leadership.
	Identity string
	Logger   *slog.Logger
	Now      func() time.Time
}

// Runtime runs workers.
type Runtime struct {
	Options
	runners []*runner
}

// New makes a runtime of workers. They begin in the order in which they are given.
func New(o Options, workers ...Worker) *Runtime {
	r := &Runtime{Options: o}
	for _, c := range workers {
		r.runners = append(r.runners, newRunner(c, o.Logger.With("worker", c.Name), o.Now))
	}
	return r
}

// Run runs the workers until ctx ends: those of the leader while this server leads. The error is of a campaign that failed.
func (r *Runtime) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer r.begin(ctx, func(c Worker) bool { return c.Everywhere })()
	defer cancel()
	for {
		leadership, err := r.Store.Campaign(ctx, Leadership, r.Identity)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("campaign for the leadership of the workers: %w", err)
		}
		r.Logger.Info("leading the workers", "identity", r.Identity)
		r.lead(ctx, leadership)
		if ctx.Err() != nil {
			return nil
		}
		r.Logger.Warn("leadership of the workers lost", "identity", r.Identity)
	}
}

// lead runs the leader's workers until ctx ends or leadership is lost, and returns when nothing runs any more.
func (r *Runtime) lead(parent context.Context, leadership *store.Leadership) {
	ctx, cancel := context.WithCancel(store.Fenced(parent, leadership))
	defer cancel()
	wait := r.begin(ctx, func(c Worker) bool { return !c.Everywhere })
	select {
	case <-ctx.Done():
	case <-leadership.Lost():
	}
	cancel()
	wait()
	release, done := context.WithTimeout(context.WithoutCancel(parent), resignLimit)
	defer done()
	if err := leadership.Resign(release); err != nil {
		r.Logger.Debug("resigning failed", "error", err)
	}
}

// begin starts some of the workers; wait is for after ctx has ended, and returns when nothing of them runs any more.
func (r *Runtime) begin(ctx context.Context, which func(Worker) bool) (wait func()) {
	var stops []func()
	var running sync.WaitGroup
	var begun []*runner
	for _, w := range r.runners {
		if !which(w.Worker) {
			continue
		}
		w.open()
		begun = append(begun, w)
		if w.Worker.Start != nil {
			stops = append(stops, w.Worker.Start(ctx))
		}
		for _, watch := range w.Watches {
			stops = append(stops, watch.Start(w))
		}
	}
	for _, w := range begun {
		running.Go(func() { w.run(ctx) })
	}
	return func() {
		running.Wait()
		for _, stop := range slices.Backward(stops) {
			stop()
		}
	}
}

// Begin runs one worker by itself and without leadership, as tests and benchmarks do. wait is for after ctx has ended, and returns
// when nothing of it runs any more.
func Begin(ctx context.Context, c Worker, log *slog.Logger) (q Queue, wait func()) {
	r := New(Options{Logger: log, Now: time.Now}, c)
	return r.runners[0], r.begin(ctx, func(Worker) bool { return true })
}
