package reconcile

import (
	"cmp"
	"slices"
	"time"

	"github.com/drover-project/drover/apitypes"
)

// shown is how many waits and faults of a worker are told: enough to see the kind, not a list of a thousand clusters.
const shown = 20

// Status is what is known of a worker on this server. Counts are since the server started.
type Status = apitypes.WorkerStatus

// Working is a key that is worked on.
type Working = apitypes.WorkingKey

// KeyWait is what a key waits for.
type KeyWait = apitypes.WorkerWait

// Fault is a failure of a key.
type Fault = apitypes.WorkerFault

// counts are what a worker has done since the server started.
type counts struct {
	successes, failures, retries uint64
	waited                       time.Duration
	success                      time.Time
	fault                        *Fault
}

func (c *counts) latency(d time.Duration) { c.waited += max(d, 0) }
func (c *counts) succeeded(at time.Time)  { c.successes++; c.success = at }
func (c *counts) failed(key string, at time.Time, err error) {
	c.failures++
	c.fault = &Fault{Key: key, Error: bounded(err.Error()), At: at}
}

// Status tells of all workers, in their order.
func (r *Runtime) Status() []Status {
	all := make([]Status, 0, len(r.runners))
	for _, w := range r.runners {
		all = append(all, w.status())
	}
	return all
}

func (w *runner) status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.counted
	s := Status{
		Name: w.Name, Title: w.Title, Everywhere: w.Everywhere, Running: w.queue != nil, Keys: len(w.keys),
		Succeeded: c.successes, Failed: c.failures, Retries: c.retries, Latency: c.waited, LastSuccess: c.success, LastFault: c.fault,
	}
	for _, watch := range w.Watches {
		s.Watches = append(s.Watches, watch.Of)
	}
	if !s.Running {
		return s
	}
	s.Since = w.since
	now := w.now()
	for key, k := range w.keys {
		if !k.queued.IsZero() && !k.queued.After(now) {
			s.Queued++
		}
		if !k.working.IsZero() {
			s.Working = append(s.Working, Working{Key: key, Since: k.working})
		}
		if k.wait != nil {
			s.Waits = append(s.Waits, KeyWait{Key: key, Waiting: *k.wait})
		}
		if k.fault != "" {
			s.Faults = append(s.Faults, Fault{Key: key, Error: k.fault, At: k.failed})
		}
	}
	s.Waiting, s.Failing = len(s.Waits), len(s.Faults)
	s.Working = oldest(s.Working, func(w Working) (time.Time, string) { return w.Since, w.Key })
	s.Waits = oldest(s.Waits, func(w KeyWait) (time.Time, string) { return w.Since, w.Key })
	s.Faults = oldest(s.Faults, func(f Fault) (time.Time, string) { return f.At, f.Key })
	return s
}

// oldest are the first of all by time, and by key where that is the same.
func oldest[T any](all []T, of func(T) (time.Time, string)) []T {
	slices.SortFunc(all, func(a, b T) int {
		at, key := of(a)
		bt, other := of(b)
		return cmp.Or(at.Compare(bt), cmp.Compare(key, other))
	})
	return all[:min(len(all), shown)]
}
