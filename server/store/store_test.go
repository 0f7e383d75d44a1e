package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// note is the document of most tests.
type note struct {
	Text string            `json:"text"`
	Tags map[string]string `json:"tags,omitempty"`
	Body []byte            `json:"body,omitempty"`
}

// openNotes opens a store with a plain and a sensitive collection and closes it at the
// end of the test.
func openNotes(tb testing.TB, dir string) (s *Store, plain, secret *Collection[note]) {
	tb.Helper()
	return openNotesWith(tb, Options{DataDir: dir})
}

func openNotesWith(tb testing.TB, o Options) (s *Store, plain, secret *Collection[note]) {
	tb.Helper()
	plain, secret = NewCollection[note]("notes", false), NewCollection[note]("secrets", true)
	o.UnsafeNoFsync = true
	s, err := openWith(tb.Context(), o, nil, plain, secret) // at schema 1, whatever migrations there are
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closeStore(tb, s) })
	return s, plain, secret
}

func closeStore(tb testing.TB, s *Store) {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Error(err)
	}
}

// must is the value of a call that has to succeed.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// Each writer finds its own writes as soon as they return, while many write.
func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	s, notes, _ := openNotes(t, t.TempDir())
	observed := make(map[string]int64) // no lock: one goroutine calls, and Commit orders
	var mu sync.Mutex
	defer notes.Observe(func(e Event[note]) {
		mu.Lock()
		defer mu.Unlock()
		observed[e.Key] = e.Revision
	})()
	var group sync.WaitGroup
	for w := range 16 {
		group.Go(func() {
			key := fmt.Sprint("w/", w)
			d, err := notes.Create(t.Context(), key, note{})
			for i := 0; err == nil && i < 30; i++ {
				got, ok := notes.Get(key)
				mu.Lock()
				seen := observed[key]
				mu.Unlock()
				if !ok || got.Revision != d.Revision || seen != d.Revision || s.Revision() < d.Revision {
					t.Errorf("%s was written at %d, read at %d, observed at %d, store at %d", key, d.Revision, got.Revision, seen, s.Revision())
				}
				got.Value.Text = fmt.Sprint(i)
				d, err = notes.Update(t.Context(), got)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestRestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "by open")
	s, notes, secrets := openNotes(t, dir)
	must(notes.Create(t.Context(), "a", note{Text: "1"}))(t)
	must(notes.Create(t.Context(), "gone", note{}))(t)
	must(secrets.Create(t.Context(), "b", note{Text: "2", Body: []byte{}}))(t)
	if err := notes.Delete(t.Context(), "gone", 0); err != nil {
		t.Fatal(err)
	}
	before, beforeNotes, beforeSecrets := s.Revision(), notes.List(), secrets.List()
	closeStore(t, s)
	if err := s.Err(); !errors.Is(err, ErrClosed) {
		t.Errorf("Err after Close: %v", err)
	}
	if _, err := notes.Create(t.Context(), "c", note{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Create after Close: %v", err)
	}
	if _, err := s.Campaign(t.Context(), "x", "me"); !errors.Is(err, ErrClosed) {
		t.Errorf("Campaign after Close: %v", err)
	}

	s, notes, secrets = openNotes(t, dir)
	if diff := cmp.Diff(beforeNotes, notes.List()); diff != "" {
		t.Error(diff)
	}
	// JSON does not distinguish an empty list that it leaves out from none.
	if diff := cmp.Diff(beforeSecrets, secrets.List(), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if s.Revision() < before {
		t.Errorf("the revision went from %d to %d", before, s.Revision())
	}
	if d := must(notes.Create(t.Context(), "c", note{}))(t); d.Revision <= before {
		t.Errorf("a new revision is %d, want more than %d", d.Revision, before)
	}
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	_, notes, _ := openNotes(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := notes.Create(ctx, "a", note{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Create with an ended context: %v", err)
	}
	dir := t.TempDir()
	if _, err := Open(ctx, Options{DataDir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open with an ended context: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, etcdName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an etcd was begun that nobody waits for: %v", err)
	}
}
