package auth

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// kept is a store with the one collection, and a clock that is set by hand.
type kept struct {
	*testing.T
	*store.Collection[records.TokenUse]
	store *store.Store

	mu     sync.Mutex
	now    time.Time
	tokens map[string]bool
}

func newKept(t *testing.T) *kept {
	t.Helper()
	k := &kept{T: t, Collection: store.NewCollection[records.TokenUse]("tokenuses", false), now: time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC), tokens: map[string]bool{"a": true, "b": true}}
	var err error
	if k.store, err = store.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)}, k.Collection); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.store.Close() })
	return k
}

// server is one of those that share the store.
func (k *kept) server() *Uses {
	return newUses(k.Collection, func(name string) bool { return k.tokens[name] }, func() time.Time {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.now
	}, slog.New(slog.DiscardHandler))
}

func (k *kept) later(d time.Duration) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = k.now.Add(d)
	return k.now
}

func (k *kept) last(u *Uses, name string, want time.Time) {
	k.Helper()
	if got := u.Last(name); !got.Equal(want) {
		k.Errorf("%s was used last at %s, not %s", name, got, want)
	}
}

func TestUsesAreKeptAndShared(t *testing.T) {
	k := newKept(t)
	one, two := k.server(), k.server()
	k.last(one, "a", time.Time{})
	first := k.later(0)
	one.Note("a")
	k.last(one, "a", first)
	k.last(two, "a", time.Time{}) // it is not written yet
	one.Write(t.Context())
	k.last(two, "a", first)

	second := k.later(time.Hour)
	two.Note("a")
	two.Write(t.Context())
	k.last(one, "a", second)
	before, _ := k.Get("a")
	one.Write(t.Context()) // which has nothing new
	if after, _ := k.Get("a"); after.Revision != before.Revision {
		t.Error("it is written though nothing is new")
	}
	// What a slower server saw earlier does not take back what is known.
	one.back("a", first)
	one.Write(t.Context())
	k.last(two, "a", second)

	k.tokens["a"] = false
	one.Note("a")
	one.Write(t.Context())
	if d, ok := k.Get("a"); ok {
		t.Errorf("kept of a token that is gone: %+v", d.Value)
	}
}

// TestWhatCouldNotBeWritten is kept for the next time.
func TestWhatCouldNotBeWritten(t *testing.T) {
	k := newKept(t)
	u := k.server()
	u.Note("b")
	at := k.later(0)
	if err := k.store.Close(); err != nil {
		t.Fatal(err)
	}
	u.Write(t.Context())
	if got := u.take()["b"]; !got.Equal(at) {
		t.Errorf("to be written: %s", got)
	}
}

func TestTheLastUsesAreWritten(t *testing.T) {
	k := newKept(t)
	u := k.server()
	ctx, cancel := context.WithCancel(t.Context())
	u.Note("a")
	cancel()
	_, wait := reconcile.Begin(ctx, u.Worker(), slog.New(slog.DiscardHandler))
	wait()
	if _, ok := k.Get("a"); !ok {
		t.Error("a server that ends writes nothing")
	}
}
