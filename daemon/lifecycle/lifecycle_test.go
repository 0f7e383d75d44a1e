package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// record keeps what happens in order.
type record struct {
	mu  sync.Mutex
	all []string
}

func (r *record) add(s string) { r.mu.Lock(); defer r.mu.Unlock(); r.all = append(r.all, s) }

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.all, " ")
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// until runs as long as its context.
func until(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// TestAPartThatEndsIsStartedAgain and takes nothing else down.
func TestAPartThatEndsIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r record
		starts := 0
		l := &Life{Logger: quiet(), Now: time.Now, Notify: func(state string) error { r.add(state); return nil },
			Fault: func(part string, err error) {
				if err == nil {
					r.add(part + ":again")
				} else {
					r.add(part + ":" + err.Error())
				}
			},
			Parts: []Part{
				{Name: "steady", Run: func(ctx context.Context) error { r.add("steady"); return until(ctx) }},
				{Name: "ends", Run: func(ctx context.Context) error {
					<-time.After(time.Millisecond)
					if starts++; starts < 3 {
						return errors.New("broken")
					}
					return until(ctx)
				}},
			},
			Ended: func() { r.add("ended") },
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("error %v", err)
		}
		got := strings.Fields(r.String())
		for word, n := range map[string]int{"steady": 1, "ends:broken": 2, "ends:again": 2, "READY=1": 1, "STOPPING=1": 1} {
			if count := len(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s != word })); count != n {
				t.Errorf("%s %d times, want %d: %q", word, count, n, got)
			}
		}
		if got[len(got)-1] != "ended" {
			t.Errorf("the end is not the last: %q", got)
		}
	})
}

// TestAHopelessPartEndsTheLife with its error.
func TestAHopelessPartEndsTheLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := errors.New("stuck")
		l := &Life{Logger: quiet(), Now: time.Now, Hopeless: func(err error) bool { return errors.Is(err, stuck) },
			Parts: []Part{{Name: "other", Run: until}, {Name: "tunnel", Run: func(context.Context) error { return stuck }}}}
		if err := l.Run(t.Context()); !errors.Is(err, stuck) {
			t.Errorf("error %v", err)
		}
	})
}

// TestAPartThatDoesNotEnd holds the life up for as long as the limit says.
func TestAPartThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := &Life{Logger: quiet(), Now: time.Now, StopLimit: 20 * time.Second,
			Parts: []Part{{Name: "hangs", Run: func(context.Context) error { <-release; return nil }}}}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		if err := l.Run(ctx); !errors.Is(err, errSlow) || time.Since(began) != 20*time.Second {
			t.Errorf("error %v after %s", err, time.Since(began))
		}
		close(release)
	})
}
