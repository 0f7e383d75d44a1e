package clusters

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestRest: a key that is added while it is worked on comes again after its rest, unless somebody hurries.
func TestRest(t *testing.T) {
	const rest = 5 * time.Second
	for _, c := range []struct {
		name string
		work func(q *queue) // while the key is taken
		then func(q *queue) // a second after it was given back
		want time.Duration  // from its return until it is taken again
	}{
		{name: "added", work: func(q *queue) { q.add("a/b") }, want: rest},
		{name: "added, then hurried", work: func(q *queue) { q.add("a/b"); q.hurry("a/b") }},
		{name: "hurried, then added", work: func(q *queue) { q.hurry("a/b"); q.add("a/b") }},
		{name: "added again in the rest", work: func(q *queue) { q.add("a/b") }, then: func(q *queue) { q.add("a/b") }, want: rest},
		{name: "hurried in the rest", work: func(q *queue) { q.add("a/b") }, then: func(q *queue) { q.hurry("a/b") }, want: time.Second},
		{name: "hurried twice in the rest", work: func(q *queue) { q.add("a/b") }, then: func(q *queue) { q.hurry("a/b"); q.hurry("a/b") }, want: time.Second},
		{name: "nothing, then hurried", work: func(*queue) {}, then: func(q *queue) { q.hurry("a/b") }, want: time.Second},
		{name: "nothing", work: func(*queue) {}, want: time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				q.add("a/b")
				if key, ok := q.take(t.Context()); !ok || key != "a/b" {
					t.Fatalf("took %q, %v", key, ok)
				}
				c.work(q)
				began := time.Now()
				q.done("a/b", rest, time.Minute)
				if c.then != nil {
					time.AfterFunc(time.Second, func() { c.then(q) })
				}
				q.take(t.Context())
				if got := time.Since(began); got != c.want {
					t.Errorf("it was taken again after %s, want %s", got, c.want)
				}
				// Nobody else gets it while it is worked on, and what is done is not repeated.
				q.done("a/b", 0, 0)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if key, ok := q.take(ctx); ok {
					t.Errorf("%s was taken once more", key)
				}
			})
		})
	}
}

// TestHurryDoesNotShare: a key that is hurried while one worker has it is given to no other before it is done.
func TestHurryDoesNotShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.add("a/b")
		q.take(t.Context())
		q.hurry("a/b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if key, ok := q.take(ctx); ok {
			t.Fatalf("%s was taken while a worker had it", key)
		}
		q.done("a/b", time.Second, 0)
		if _, ok := q.take(t.Context()); !ok {
			t.Error("it was not taken afterwards")
		}
	})
}
