package reconcile

import (
	stdcmp "cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/store"
)

// run runs a worker for a test, in a bubble whose clock is the test's; stop ends it and returns when nothing runs any more.
func run(t *testing.T, c Worker) (w *runner, stop func()) {
	t.Helper()
	c.Name = "tested"
	w = newRunner(c, slog.New(slog.DiscardHandler), time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	w.open()
	go func() {
		defer close(ended)
		w.run(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return w, stop
}

// calls are when keys were reconciled, since the test began.
type calls struct {
	began time.Time
	mu    sync.Mutex
	all   []string
}

func (c *calls) add(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, fmt.Sprintf("%s %s", key, time.Since(c.began).Round(time.Millisecond)))
}

func (c *calls) are(t *testing.T, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if diff := cmp.Diff(want, c.all); diff != "" {
		t.Errorf("reconciled (-want +got):\n%s", diff)
	}
}

func keys(all ...string) func() []string { return func() []string { return all } }

func TestWhenKeysAreLookedAt(t *testing.T) {
	for _, tc := range []struct {
		name string
		with Worker
		// takes is how long each look takes, and results what comes of them in turn; the last one stays.
		takes   time.Duration
		results []Result
		errs    []error
		events  func(Queue)
		want    []string
	}{
		{name: "all keys once", with: Worker{Keys: keys("a")}, want: []string{"a 0s"}},
		{name: "after its first pause", with: Worker{Keys: keys("a"), First: 3 * time.Second}, want: []string{"a 3s"}},
		{
			name: "an event in the first pause does not wait for it", with: Worker{Keys: keys("a"), First: 3 * time.Second},
			events: func(q Queue) { q.Add("b") }, want: []string{"b 0s", "a 3s"},
		},
		{
			name: "again though nothing has changed", with: Worker{Keys: keys("a"), Resync: 4 * time.Second},
			want: []string{"a 0s", "a 4s", "a 8s"},
		},
		{
			name: "when the worker says so", with: Worker{Keys: keys("a"), Resync: 7 * time.Second},
			results: []Result{{After: 2 * time.Second}, {}}, want: []string{"a 0s", "a 2s", "a 9s"},
		},
		{
			name: "changes that come together are gathered", with: Worker{Keys: keys(), Gather: 100 * time.Millisecond},
			events: func(q Queue) {
				q.Add("a")
				time.Sleep(50 * time.Millisecond)
				q.Add("a")
			},
			want: []string{"a 100ms"},
		},
		{
			name: "what changes during a look is looked at after it", with: Worker{Keys: keys("a")}, takes: time.Second,
			events: func(q Queue) {
				time.Sleep(500 * time.Millisecond)
				q.Add("a")
				q.Add("a")
			},
			want: []string{"a 0s", "a 1s"},
		},
		{
			name: "a key rests", with: Worker{Keys: keys("a")}, takes: time.Second,
			results: []Result{{Rest: 3 * time.Second}, {}},
			events: func(q Queue) {
				time.Sleep(2 * time.Second)
				q.Add("a")
				q.Add("b")
			},
			want: []string{"a 0s", "b 2s", "a 4s"},
		},
		{
			name: "a key rests that changed during its look", with: Worker{Keys: keys("a")}, takes: time.Second,
			results: []Result{{Rest: 3 * time.Second}, {}},
			events: func(q Queue) {
				time.Sleep(500 * time.Millisecond)
				q.Add("a")
			},
			want: []string{"a 0s", "a 4s"},
		},
		{
			name: "a person who waits for it ends its rest", with: Worker{Keys: keys("a")}, takes: time.Second,
			results: []Result{{Rest: 5 * time.Second}, {}},
			events: func(q Queue) {
				time.Sleep(2 * time.Second)
				q.Add("a")
				time.Sleep(time.Second)
				q.Hurry("a")
			},
			want: []string{"a 0s", "a 3s", "a 6s"},
		},
		{
			name: "and does so during the look", with: Worker{Keys: keys("a")}, takes: time.Second,
			results: []Result{{Rest: 8 * time.Second}, {}},
			events: func(q Queue) {
				time.Sleep(500 * time.Millisecond)
				q.Hurry("a")
			},
			want: []string{"a 0s", "a 1s"},
		},
		{
			name: "a conflict is no failure", with: Worker{Keys: keys("a")},
			errs: []error{fmt.Errorf("write: %w", &store.ConflictError{}), nil}, want: []string{"a 0s", "a 10ms"},
		},
		{
			name: "what is gone is forgotten", with: Worker{Keys: keys("a"), Resync: time.Second},
			results: []Result{{Gone: true}}, want: []string{"a 0s"},
		},
		{
			name: "what is gone and comes again during the look is not", with: Worker{Keys: keys("a"), Resync: 4 * time.Second}, takes: time.Second,
			results: []Result{{Gone: true}, {}},
			events: func(q Queue) {
				time.Sleep(500 * time.Millisecond)
				q.Add("a")
			},
			want: []string{"a 0s", "a 1s", "a 6s"},
		},
		{
			name: "as many at once as there are workers", with: Worker{Keys: keys("a", "b", "c"), AtOnce: 2}, takes: time.Second,
			want: []string{"a 0s", "b 0s", "c 1s"},
		},
		{
			name: "a look has its limit", with: Worker{Keys: keys("a"), Limit: 2 * time.Second, Resync: 5 * time.Second}, takes: time.Hour,
			want: []string{"a 0s", "a 7s"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, n := calls{began: time.Now()}, 0
				tc.with.Reconcile = func(ctx context.Context, key string) (Result, error) {
					c.add(key)
					c.mu.Lock()
					i := n
					n++
					c.mu.Unlock()
					if tc.takes > 0 {
						select {
						case <-time.After(tc.takes):
						case <-ctx.Done():
						}
					}
					var r Result
					var err error
					if len(tc.results) > 0 {
						r = tc.results[min(i, len(tc.results)-1)]
					}
					if len(tc.errs) > 0 {
						err = tc.errs[min(i, len(tc.errs)-1)]
					}
					return r, err
				}
				w, _ := run(t, tc.with)
				synctest.Wait()
				if tc.events != nil {
					tc.events(w)
				}
				time.Sleep(10*time.Second - time.Since(c.began) - time.Millisecond)
				synctest.Wait()
				slices.SortFunc(c.all, func(a, b string) int { // keys that begin at the same time have no order
					_, at, _ := strings.Cut(a, " ")
					_, bt, _ := strings.Cut(b, " ")
					x, _ := time.ParseDuration(at)
					y, _ := time.ParseDuration(bt)
					return stdcmp.Or(stdcmp.Compare(x, y), strings.Compare(a, b))
				})
				c.are(t, tc.want...)
			})
		})
	}
}

func TestFailuresAreTriedAgainWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var at []time.Time
		failing := true
		fail := func(is bool) {
			mu.Lock()
			defer mu.Unlock()
			failing = is
		}
		tried := func() []time.Time {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(at)
		}
		w, _ := run(t, Worker{Keys: keys("a"), RetryFirst: time.Second, RetryLast: 8 * time.Second, Reconcile: func(context.Context, string) (Result, error) {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Now())
			if failing {
				return Result{}, errors.New("the disk is full")
			}
			return Result{}, nil
		}})
		time.Sleep(time.Minute)
		synctest.Wait()
		first := tried()
		bounds := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second}
		if len(first) < len(bounds)+1 {
			t.Fatalf("tried %d times in a minute", len(first))
		}
		for i, most := range bounds {
			if pause := first[i+1].Sub(first[i]); pause < most/2 || pause > most {
				t.Errorf("pause %d was %s, want between %s and %s", i+1, pause, most/2, most)
			}
		}
		s := w.status()
		if s.Failing != 1 || s.Faults[0].Error != "the disk is full" || s.Faults[0].Key != "a" || s.Failed != uint64(len(first)) || !s.LastSuccess.IsZero() {
			t.Errorf("status of a worker that fails: %+v", s)
		}
		fail(false)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		n := len(tried())
		if s = w.status(); s.Failing != 0 || s.LastSuccess.IsZero() || s.LastFault == nil || s.LastFault.Error != "the disk is full" {
			t.Errorf("status after it: %+v", s)
		}
		fail(true)
		w.Add("a")
		time.Sleep(time.Second)
		synctest.Wait()
		if len(tried()) < n+2 {
			t.Error("after a success the pauses did not begin anew")
		}
	})
}

func TestWaitsSaySinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var cause atomic.Value
		cause.Store("its API does not answer")
		w, _ := run(t, Worker{Keys: keys("a"), Reconcile: func(context.Context, string) (Result, error) {
			if cause.Load() == "" {
				return Result{}, nil
			}
			return Result{Wait: &Wait{Object: "cluster c1", Host: "h1", Cause: cause.Load().(string)}}, nil
		}})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		want := []KeyWait{{Key: "a", Waiting: Wait{Object: "cluster c1", Host: "h1", Cause: "its API does not answer", Since: began}}}
		if s := w.status(); s.Waiting != 1 || !cmp.Equal(s.Waits, want) || s.Failed != 0 || s.Retries < 10 {
			t.Errorf("status of a worker that waits: %+v", s)
		}
		cause.Store("it is paused")
		before := time.Now()
		w.Add("a")
		synctest.Wait()
		if s := w.status(); s.Waits[0].Cause != "it is paused" || s.Waits[0].Since.Before(before) {
			t.Errorf("status with another cause: %+v", s.Waits)
		}
		cause.Store("")
		w.Add("a")
		synctest.Wait()
		if s := w.status(); s.Waiting != 0 {
			t.Errorf("status after it: %+v", s.Waits)
		}
	})
}

func TestAThousandKeysAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []string
		for i := range 1000 {
			all = append(all, fmt.Sprint(i))
		}
		var mu sync.Mutex
		looks, working, most := map[string]int{}, 0, 0
		w, _ := run(t, Worker{Keys: keys(all...), AtOnce: 4, Reconcile: func(_ context.Context, key string) (Result, error) {
			mu.Lock()
			looks[key]++
			working++
			most = max(most, working)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			working--
			mu.Unlock()
			return Result{}, nil
		}})
		synctest.Wait()
		if s := w.status(); s.Keys != 1000 || s.Queued != 996 || len(s.Working) != 4 {
			t.Errorf("at the beginning there are %d keys, %d queued, %d worked on", s.Keys, s.Queued, len(s.Working))
		}
		for range 5 { // while they are looked at
			time.Sleep(100 * time.Millisecond)
			w.AddAll()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, key := range all {
			if looks[key] < 1 || looks[key] > 2 {
				t.Errorf("key %s was looked at %d times, and is due once or, if it was through, twice", key, looks[key])
			}
		}
		if s := w.status(); most != 4 || s.Queued != 0 || s.Latency == 0 || int(s.Succeeded) < 1000 {
			t.Errorf("%d at once; status %+v", most, s)
		}
	})
}

func TestWhatIsFollowedEndsWithItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		following, begun, gone := 0, 0, false
		w, stop := run(t, Worker{
			Keys: keys("a", "b"),
			Reconcile: func(_ context.Context, key string) (Result, error) {
				mu.Lock()
				defer mu.Unlock()
				return Result{Gone: gone && key == "a"}, nil
			},
			Follow: func(ctx context.Context, key string, _ Queue) error {
				mu.Lock()
				following++
				begun++
				first := begun == 1
				mu.Unlock()
				defer func() {
					mu.Lock()
					following--
					mu.Unlock()
				}()
				if first {
					return errors.New("the connection was cut")
				}
				<-ctx.Done()
				return ctx.Err()
			},
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if following != 2 || begun != 3 {
			t.Fatalf("%d are followed, begun %d times", following, begun)
		}
		mu.Lock()
		gone = true
		mu.Unlock()
		w.Add("a")
		synctest.Wait()
		if following != 1 {
			t.Errorf("%d are followed after one was forgotten", following)
		}
		stop()
		if following != 0 {
			t.Errorf("%d are followed after the stop", following)
		}
	})
}

func TestNothingRunsAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		w, stop := run(t, Worker{Keys: keys("a"), Reconcile: func(ctx context.Context, _ string) (Result, error) {
			looks.Add(1)
			<-ctx.Done() // in the middle of its work
			time.Sleep(time.Second)
			looks.Add(1)
			return Result{After: time.Second}, nil
		}})
		synctest.Wait()
		stop()
		if looks.Load() != 2 {
			t.Error("the stop did not wait for what was worked on")
		}
		w.Add("a")
		w.Hurry("b")
		time.Sleep(time.Minute)
		if s := w.status(); looks.Load() != 2 || s.Running || s.Keys != 0 {
			t.Errorf("after the stop: %d looks, %+v", looks.Load(), s)
		}
	})
}

func TestLongTextsAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("é", maxText)
		w, _ := run(t, Worker{Keys: keys("fails", "waits"), Reconcile: func(_ context.Context, key string) (Result, error) {
			if key == "fails" {
				return Result{}, errors.New(long)
			}
			return Result{Wait: &Wait{Object: "cluster", Cause: "\xff" + long}}, nil
		}})
		synctest.Wait()
		s := w.status()
		for _, text := range []string{s.Faults[0].Error, s.LastFault.Error, s.Waits[0].Cause} {
			if len(text) > maxText || len(text) < maxText-3 || !utf8.ValidString(text) {
				t.Errorf("a text of %d bytes is kept", len(text))
			}
		}
	})
}
