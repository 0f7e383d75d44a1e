package reconcile

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/server/store"
)

// afterConflict is how soon a key is looked at again whose document was written by another between.
const afterConflict = 10 * time.Millisecond

// maxText bounds a cause or an error that is kept, in bytes.
const maxText = 1000

// runner is a worker with its queue.
type runner struct {
	Worker
	log *slog.Logger
	now func() time.Time

	mu sync.Mutex
	// queue and keys are of the present period of work; the former is nil when there is none. The queue holds keys that are due and
	// those that are later; which key is worked on is kept here, as such a key may have to rest.
	queue   workqueue.TypedDelayingInterface[string]
	keys    map[string]*state
	since   time.Time
	counted counts
}

// state is what is known of a key.
type state struct {
	queued  time.Time // since when it waits for its turn; zero when it does not
	working time.Time // since when it is worked on; zero when it is not
	again   bool      // it was queued while it was worked on
	hurried bool      // and is not to rest after that
	rest    time.Time // until then it is left alone
	pause   backoff.Backoff
	fault   string // why it failed; empty when it did not
	failed  time.Time
	wait    *Wait
	end     context.CancelFunc // of Follow; nil when nothing is followed
}

func newRunner(c Worker, log *slog.Logger, now func() time.Time) *runner {
	c.RetryFirst = cmp.Or(c.RetryFirst, time.Second)
	c.RetryLast = cmp.Or(c.RetryLast, time.Minute)
	if c.Keys == nil {
		c.Keys = func() []string { return []string{""} }
	}
	return &runner{Worker: c, log: log, now: now}
}

// open begins a period of work: keys are taken from now on.
func (w *runner) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = workqueue.NewTypedDelayingQueue[string]()
	w.keys, w.since = map[string]*state{}, w.now()
}

// close ends it.
func (w *runner) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.ShutDown()
	w.queue, w.keys = nil, nil
}

// run works on keys until ctx ends, and returns when none is worked on any more.
func (w *runner) run(ctx context.Context) {
	w.mu.Lock()
	queue := w.queue
	w.mu.Unlock()
	defer w.close()
	defer context.AfterFunc(ctx, queue.ShutDown)()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		if backoff.Wait(ctx, w.First) == nil {
			w.AddAll()
		}
	})
	var turns chan struct{}
	if w.AtOnce > 0 {
		turns = make(chan struct{}, w.AtOnce)
	}
	for {
		if turns != nil {
			select {
			case turns <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
		key, ended := queue.Get()
		if ended || ctx.Err() != nil {
			return
		}
		running.Go(func() {
			w.take(ctx, key, &running)
			queue.Done(key)
			if turns != nil {
				<-turns
			}
		})
	}
}

// take works on a key unless it has to rest.
func (w *runner) take(ctx context.Context, key string, running *sync.WaitGroup) {
	if !w.begin(ctx, key, running) {
		return
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if w.Limit > 0 {
		limited, cancel = context.WithTimeout(ctx, w.Limit)
	}
	result, err := w.Reconcile(limited, key)
	cancel()
	if ctx.Err() == nil {
		w.finish(key, result, err)
	}
}

// begin says whether a key is to be worked on now.
func (w *runner) begin(ctx context.Context, key string, running *sync.WaitGroup) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, now := w.keys[key], w.now()
	if s == nil { // it was forgotten
		return false
	}
	if s.queued.IsZero() {
		s.queued = now
	}
	w.counted.latency(now.Sub(s.queued))
	s.queued, s.working, s.again, s.hurried = time.Time{}, now, false, false
	if w.Worker.Follow != nil && s.end == nil {
		followed, end := context.WithCancel(ctx)
		s.end = end
		running.Go(func() { w.follow(followed, key) })
	}
	return true
}

// finish keeps what came of a key and has it looked at again when that is due.
func (w *runner) finish(key string, r Result, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, now := w.keys[key], w.now()
	again := s.again
	s.working = time.Time{}
	after := w.judge(key, s, r, err)
	switch {
	case !again && err == nil && r.Gone:
		if s.end != nil {
			s.end()
		}
		delete(w.keys, key)
		return
	case s.hurried:
		s.rest = time.Time{}
		w.later(key, s, 0)
	case r.Rest > 0:
		s.rest = now.Add(r.Rest)
	}
	switch {
	case again && !s.hurried:
		w.later(key, s, max(r.Rest, w.Gather))
	case after > 0:
		w.queue.AddAfter(key, after)
	}
}

// judge is when a key is looked at again, by what came of it; 0 is not. w.mu is held.
func (w *runner) judge(key string, s *state, r Result, err error) (after time.Duration) {
	now := w.now()
	if _, conflict := errors.AsType[*store.ConflictError](err); conflict {
		w.counted.retries++
		return afterConflict
	}
	if err != nil {
		w.counted.failed(key, now, err)
		if s.fault == bounded(err.Error()) {
			w.log.Debug("failed again", "key", key, "error", err, "attempt", s.pause.Failures()+1)
		} else {
			w.log.Warn("failed; trying again", "key", key, "error", err)
		}
		s.fault, s.failed = bounded(err.Error()), now
		return w.pause(s)
	}
	s.fault = ""
	before := s.wait
	if s.wait = since(before, r.Wait, now); s.wait != nil && (before == nil || before.Cause != s.wait.Cause) {
		w.log.Debug("waits", "key", key, "object", s.wait.Object, "host", s.wait.Host, "cause", s.wait.Cause)
	}
	w.counted.succeeded(now)
	if s.wait != nil && r.After == 0 {
		return w.pause(s)
	}
	s.pause.Reset()
	if r.After > 0 {
		return r.After
	}
	return w.Resync
}

func (w *runner) pause(s *state) time.Duration {
	w.counted.retries++
	s.pause.Min, s.pause.Max, s.pause.Floor = w.RetryFirst, w.RetryLast, 0.5
	return s.pause.Next()
}

// since is the next wait, with the time of the one before where it is the same.
func since(before, next *Wait, now time.Time) *Wait {
	if next == nil {
		return nil
	}
	w := *next
	w.Cause = bounded(w.Cause)
	if w.Since.IsZero() {
		w.Since = now
	}
	if before != nil && before.Object == w.Object && before.Host == w.Host && before.Cause == w.Cause {
		w.Since = before.Since
	}
	return &w
}

// bounded is a text as it is kept and shown: hosts and clusters write parts of it.
func bounded(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}

// follow calls the worker's Follow again and again until ctx ends.
func (w *runner) follow(ctx context.Context, key string) {
	for pause := (backoff.Backoff{Min: w.RetryFirst, Max: w.RetryLast, Floor: 0.5}); ; {
		if err := w.Worker.Follow(ctx, key, w); err == nil {
			pause.Reset()
		} else if ctx.Err() == nil {
			w.log.Debug("not followed; trying again", "key", key, "error", err)
		}
		if backoff.Wait(ctx, pause.Next()) != nil {
			return
		}
	}
}

// Add implements Queue.
func (w *runner) Add(key string) { w.put(key, false) }

// Hurry implements Queue.
func (w *runner) Hurry(key string) { w.put(key, true) }

// AddAll implements Queue.
func (w *runner) AddAll() {
	for _, key := range w.Keys() {
		w.Add(key)
	}
}

func (w *runner) put(key string, hurry bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue == nil {
		return
	}
	s := w.keys[key]
	if s == nil {
		s = &state{}
		w.keys[key] = s
	}
	s.hurried = s.hurried || hurry
	if !s.working.IsZero() {
		s.again = true
		return
	}
	if hurry {
		s.rest = time.Time{}
		w.later(key, s, 0)
		return
	}
	w.later(key, s, max(s.rest.Sub(w.now()), w.Gather))
}

// later queues a key. w.mu is held.
func (w *runner) later(key string, s *state, after time.Duration) {
	if s.queued.IsZero() {
		s.queued = w.now().Add(max(after, 0))
	}
	if after > 0 {
		w.queue.AddAfter(key, after)
		return
	}
	w.queue.Add(key)
}
