package reconcile

import (
	"cmp"
	"slices"
	"time"
)

// shown is how many waits and faults of a worker are told: enough to see the kind, not a list of a thousand clusters.
const shown = 20

// Status is what is known of a worker on this server. Counts are since the server started.
type Status struct {
	Name       string   `json:"name"`
	Title      string   `json:"title"`
	Watches    []string `json:"watches"`
	Everywhere bool     `json:"everywhere,omitempty"`
	// Running says that it runs on this server, since Since.
	Running bool      `json:"running"`
	Since   time.Time `json:"since,omitzero"`
	// Keys is how many keys there are, Queued how many of them wait for their turn, and Working which are worked on, oldest first.
	Keys    int       `json:"keys"`
	Queued  int       `json:"queued"`
	Working []Working `json:"working,omitempty"`
	// Waits and Faults are of the keys that wait or failed last, oldest first; Waiting and Failing count all of them.
	Waits   []KeyWait `json:"waits,omitempty"`
	Faults  []Fault   `json:"faults,omitempty"`
	Waiting int       `json:"waiting,omitempty"`
	Failing int       `json:"failing,omitempty"`

	Succeeded   uint64        `json:"succeeded"`
	Failed      uint64        `json:"failed,omitempty"`
	Retries     uint64        `json:"retries,omitempty"`
	Latency     time.Duration `json:"latency"` // the sum of how long keys waited for their turn, in nanoseconds
	LastSuccess time.Time     `json:"lastSuccess,omitzero"`
	LastFault   *Fault        `json:"lastFault,omitempty"`
}

// Working is a key that is worked on.
type Working struct {
	Key   string    `json:"key"`
	Since time.Time `json:"since"`
}

// KeyWait is what a key waits for.
type KeyWait struct {
	Key string `json:"key"`
	Wait
}

// Fault is a failure of a key.
type Fault struct {
	Key   string    `json:"key"`
	Error string    `json:"error"`
	At    time.Time `json:"at"`
}

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
			s.Waits = append(s.Waits, KeyWait{Key: key, Wait: *k.wait})
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
