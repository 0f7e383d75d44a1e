package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// happened is an event in short.
type happened struct {
	What, Key, Value, Old string
}

func short(e Event[note]) happened {
	old := "none"
	if e.Old != nil {
		old = e.Old.Text
	}
	return happened{e.Type.String(), e.Key, e.Value.Text, old}
}

// observed is what happens to a collection from now on. The channel has more room than any
// test has events, as an observer must not block.
func observed[T any](c *Collection[T]) <-chan Event[T] {
	events := make(chan Event[T], 1000)
	c.Observe(func(e Event[T]) { events <- e })
	return events
}

// take reads n events and checks that their revisions grow.
func take(t *testing.T, events <-chan Event[note], n int) []happened {
	t.Helper()
	var taken []happened
	var last int64
	for range n {
		e := <-events
		if e.Revision < last {
			t.Errorf("revision %d came after %d", e.Revision, last)
		}
		last = e.Revision
		taken = append(taken, short(e))
	}
	return taken
}

func TestObserve(t *testing.T) {
	t.Parallel()
	s, notes, secrets := openNotes(t, t.TempDir())
	var got []happened
	var revisions []int64
	stop := notes.Observe(func(e Event[note]) {
		got = append(got, short(e))
		revisions = append(revisions, e.Revision)
		if d, ok := notes.Get(e.Key); ok != (e.Type == Put) || ok && d.Revision != e.Revision {
			t.Errorf("observing %v the view has %v %v", e, d, ok)
		}
	})
	must(notes.Create(t.Context(), "a", note{Text: "1"}))(t)
	must(secrets.Create(t.Context(), "s", note{}))(t)
	must(notes.Modify(t.Context(), "a", func(n note) (note, error) { n.Text = "2"; return n, nil }))(t)
	must(s.Commit(t.Context(), notes.Deleting("a", 0), notes.Creating("b", note{Text: "3"})))(t)
	stop()
	must(notes.Create(t.Context(), "c", note{}))(t)
	want := []happened{{"put", "a", "1", "none"}, {"put", "a", "2", "1"}, {"deleted", "a", "2", "2"}, {"put", "b", "3", "none"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for i := 1; i < len(revisions); i++ {
		if revisions[i] < revisions[i-1] {
			t.Errorf("revisions %v are not in order", revisions)
		}
	}
}
