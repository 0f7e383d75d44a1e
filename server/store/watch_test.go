package store

import (
	"context"
	"errors"
	"fmt"
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

// take reads n events and checks that their revisions grow.
func take(t *testing.T, w *Watcher[note], n int) []happened {
	t.Helper()
	var events []happened
	var last int64
	for range n {
		e, ok := <-w.Events()
		if !ok {
			t.Fatalf("the watch ended after %d events: %v", len(events), w.Err())
		}
		if e.Revision < last {
			t.Errorf("revision %d came after %d", e.Revision, last)
		}
		last = e.Revision
		events = append(events, short(e))
	}
	return events
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s, notes, secrets := openNotes(t, t.TempDir())
	start := s.Revision()
	live := must(notes.Watch(t.Context(), start))(t)
	one := must(notes.WatchKey(t.Context(), "b/1", start))(t)
	in := must(notes.WatchIn(t.Context(), "b/", start))(t)

	must(notes.Create(t.Context(), "a", note{Text: "1"}))(t)
	must(secrets.Create(t.Context(), "other collection", note{}))(t)
	b := must(notes.Create(t.Context(), "b/1", note{Text: "2"}))(t)
	b.Value.Text = "3"
	b = must(notes.Update(t.Context(), b))(t)
	must(s.Commit(t.Context(), notes.Creating("b/2", note{Text: "4"}), notes.Deleting("b/1", 0), secrets.Deleting("other collection", 0)))(t)

	all := []happened{
		{"put", "a", "1", "none"}, {"put", "b/1", "2", "none"}, {"put", "b/1", "3", "2"},
		{"put", "b/2", "4", "none"}, {"deleted", "b/1", "3", "3"},
	}
	for _, c := range []struct {
		name    string
		watcher *Watcher[note]
		want    []happened
	}{
		{"live", live, all},
		{"from history", must(notes.Watch(t.Context(), start))(t), all},
		{"one key live", one, []happened{all[1], all[2], all[4]}},
		{"one key from history", must(notes.WatchKey(t.Context(), "b/1", start))(t), []happened{all[1], all[2], all[4]}},
		{"prefix live", in, all[1:]},
		{"prefix from history", must(notes.WatchIn(t.Context(), "b/", start))(t), all[1:]},
		{"resumed", must(notes.Watch(t.Context(), b.Revision))(t), all[3:]},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, take(t, c.watcher, len(c.want))); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("nothing is repeated", func(t *testing.T) {
		w := must(notes.Watch(t.Context(), s.Revision()))(t)
		must(notes.Create(t.Context(), "z", note{Text: "5"}))(t)
		want := []happened{{"put", "z", "5", "none"}}
		if diff := cmp.Diff(want, take(t, w, 1)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(want, take(t, live, 1)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWatchEnds(t *testing.T) {
	t.Parallel()
	s, notes, _ := openNotes(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	canceled := must(notes.Watch(ctx, s.Revision()))(t)
	unread := must(notes.Watch(ctx, s.Revision()))(t)
	closed := must(notes.Watch(t.Context(), s.Revision()))(t)
	must(notes.Create(t.Context(), "a", note{}))(t)
	<-canceled.Events()
	if err := canceled.Err(); err != nil {
		t.Errorf("Err of an open watch is %v", err)
	}
	cancel()
	for _, w := range []*Watcher[note]{canceled, unread} {
		for range w.Events() { // until closed
		}
		if err := w.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("the watch of an ended context has error %v", err)
		}
	}
	closeStore(t, s)
	for range closed.Events() {
	}
	if err := closed.Err(); !errors.Is(err, ErrClosed) {
		t.Errorf("the watch of a closed store has error %v", err)
	}
	notes.mu.Lock()
	defer notes.mu.Unlock()
	if n := len(notes.watchers.byKey) + len(notes.watchers.byPrefix); n != 0 {
		t.Errorf("%d watchers are remembered", n)
	}
}

// A watch can only begin where history is known, and a reader that does not read is
// let go instead of holding everybody up.
func TestWatchTooOld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, notes, _ := openNotesWith(t, Options{DataDir: dir, history: 100})
	first := must(notes.Create(t.Context(), "first", note{}))(t).Revision
	for _, since := range []int64{0, first + 1} {
		if _, err := notes.Watch(t.Context(), since); !errors.Is(err, ErrTooOld) {
			t.Errorf("watch from %d while the store is at %d: %v", since, s.Revision(), err)
		}
	}
	unread := must(notes.Watch(t.Context(), first))(t)
	quiet := must(notes.WatchKey(t.Context(), "first", first))(t)
	// The unread watcher's goroutine holds up to one commit in its hands; the rest is
	// more than may be pending.
	const each = 20
	for n := range 11 {
		var ops []Op
		for i := range each {
			ops = append(ops, notes.Creating(fmt.Sprintf("%d/%d", n, i), note{}))
		}
		must(s.Commit(t.Context(), ops...))(t)
		if n == 0 {
			e := <-unread.Events() // so that the goroutine has taken the first batch and waits with it
			if e.Key != "0/0" {
				t.Errorf("first event is of %s", e.Key)
			}
		}
	}
	<-unread.behind
	for range unread.Events() {
	}
	if err := unread.Err(); !errors.Is(err, ErrTooOld) {
		t.Errorf("the watcher that did not read has error %v", err)
	}
	if _, err := notes.Watch(t.Context(), s.Revision()-6); !errors.Is(err, ErrTooOld) {
		t.Errorf("watch from before the last 100 events: %v", err)
	}
	// The last 100 events are there, and one that begins at the edge gets live ones too.
	edge := must(notes.Watch(t.Context(), s.Revision()-5))(t)
	must(notes.Create(t.Context(), "last", note{}))(t)
	for range 5*each + 1 {
		if _, ok := <-edge.Events(); !ok {
			t.Fatal(edge.Err())
		}
	}
	if err := notes.Delete(t.Context(), "first", first); err != nil {
		t.Fatal(err)
	}
	if e := <-quiet.Events(); e.Type != Deleted {
		t.Errorf("the watcher of one key got %v", e)
	}

	before := s.Revision()
	closeStore(t, s)
	s, notes, _ = openNotes(t, dir)
	if _, err := notes.Watch(t.Context(), before-1); !errors.Is(err, ErrTooOld) {
		t.Errorf("watch from before the restart: %v", err)
	}
	must(notes.Watch(t.Context(), s.Revision()))(t)
}

// Watchers that begin while others write miss nothing and get nothing twice.
func TestWatchWhileWriting(t *testing.T) {
	t.Parallel()
	s, notes, _ := openNotes(t, t.TempDir())
	const writes = 300
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range writes {
			if _, err := notes.Create(t.Context(), fmt.Sprint(i), note{}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	start := s.Revision()
	for writing := true; writing; {
		since := s.Revision()
		w := must(notes.Watch(t.Context(), since))(t)
		select {
		case e, ok := <-w.Events():
			if !ok {
				t.Fatal(w.Err())
			}
			if e.Revision != since+1 {
				t.Fatalf("the first event after revision %d has revision %d", since, e.Revision)
			}
		case <-done:
			writing = false
		}
	}
	w := must(notes.Watch(t.Context(), start))(t)
	for i := range writes {
		if e := <-w.Events(); e.Key != fmt.Sprint(i) {
			t.Fatalf("event %d is of %s", i, e.Key)
		}
	}
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
