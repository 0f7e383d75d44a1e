package workqueue

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
		work func(q *Queue[string]) // while the key is taken
		then func(q *Queue[string]) // a second after it was given back
		want time.Duration          // from its return until it is taken again
	}{
		{name: "added", work: func(q *Queue[string]) { q.Add("a/b") }, want: rest},
		{name: "added, then hurried", work: func(q *Queue[string]) { q.Add("a/b"); q.Hurry("a/b") }},
		{name: "hurried, then added", work: func(q *Queue[string]) { q.Hurry("a/b"); q.Add("a/b") }},
		{name: "added again in the rest", work: func(q *Queue[string]) { q.Add("a/b") }, then: func(q *Queue[string]) { q.Add("a/b") }, want: rest},
		{name: "hurried in the rest", work: func(q *Queue[string]) { q.Add("a/b") }, then: func(q *Queue[string]) { q.Hurry("a/b") }, want: time.Second},
		{name: "nothing, then hurried", work: func(*Queue[string]) {}, then: func(q *Queue[string]) { q.Hurry("a/b") }, want: time.Second},
		{name: "nothing", work: func(*Queue[string]) {}, want: time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New[string]()
				q.Add("a/b")
				if key, ok := q.Take(t.Context()); !ok || key != "a/b" {
					t.Fatalf("took %q, %v", key, ok)
				}
				c.work(q)
				began := time.Now()
				q.Done("a/b", rest, time.Minute)
				if c.then != nil {
					time.AfterFunc(time.Second, func() { c.then(q) })
				}
				q.Take(t.Context())
				if got := time.Since(began); got != c.want {
					t.Errorf("it was taken again after %s, want %s", got, c.want)
				}
				// Nobody else gets it while it is worked on, and what is done is not repeated.
				q.Done("a/b", 0, 0)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if key, ok := q.Take(ctx); ok {
					t.Errorf("%s was taken once more", key)
				}
			})
		})
	}
}

// TestHurryDoesNotShare: a key that is hurried while one worker has it is given to no other before it is done.
func TestHurryDoesNotShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[string]()
		q.Add("a/b")
		q.Take(t.Context())
		q.Hurry("a/b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if key, ok := q.Take(ctx); ok {
			t.Fatalf("%s was taken while a worker had it", key)
		}
		q.Done("a/b", time.Second, 0)
		if _, ok := q.Take(t.Context()); !ok {
			t.Error("it was not taken afterwards")
		}
	})
}

func TestNeverTwoWorkersOnOne(t *testing.T) {
	q := New[string]()
	q.Add("a")
	q.Add("a")
	key, ok := q.Take(t.Context())
	if key != "a" || !ok {
		t.Fatal(key, ok)
	}
	q.Add("a")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if key, ok := q.Take(ctx); ok {
		t.Fatalf("%s was given out twice", key)
	}
	q.Done("a", time.Millisecond, 0)
	if key, ok := q.Take(t.Context()); key != "a" || !ok {
		t.Error("a change during the work was lost")
	}
	q.Done("a", 0, time.Millisecond)
	if key, ok := q.Take(t.Context()); key != "a" || !ok {
		t.Error("the key did not come again by itself")
	}
}
