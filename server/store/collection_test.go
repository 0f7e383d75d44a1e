package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDocuments(t *testing.T) {
	t.Parallel()
	s, plain, sensitive := openNotes(t, t.TempDir())
	for name, c := range map[string]*Collection[note]{"plain": plain, "sensitive": sensitive} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			value := note{Text: "one", Tags: map[string]string{"a": "b"}, Body: []byte{0, 255}}
			created := must(c.Create(ctx, "ns/a", value))(t)
			got, ok := c.Get("ns/a")
			if !ok || cmp.Diff(created, got) != "" || got.Revision != s.Revision() {
				t.Errorf("after Create: %v %v, want %v at revision %d", got, ok, created, s.Revision())
			}
			if _, err := c.Create(ctx, "ns/a", value); !is[*ExistsError](err) {
				t.Errorf("second Create: %v, want *ExistsError", err)
			}

			got.Value = note{Text: "two"}
			updated := must(c.Update(ctx, got))(t)
			if updated.Revision <= created.Revision {
				t.Errorf("Update went from revision %d to %d", created.Revision, updated.Revision)
			}
			var conflict *ConflictError
			if _, err := c.Update(ctx, got); !errors.As(err, &conflict) {
				t.Errorf("Update of an old revision: %v, want *ConflictError", err)
			} else if diff := cmp.Diff(&ConflictError{c.name, "ns/a", created.Revision, updated.Revision}, conflict); diff != "" {
				t.Error(diff)
			}
			if _, err := c.Update(ctx, Document[note]{Key: "ns/none", Revision: 1}); !is[*NotFoundError](err) {
				t.Errorf("Update of nothing: %v, want *NotFoundError", err)
			}
			if _, err := c.Update(ctx, Document[note]{Key: "ns/a"}); err == nil {
				t.Error("Update without a revision succeeded")
			}

			if err := c.Delete(ctx, "ns/a", created.Revision); !is[*ConflictError](err) {
				t.Errorf("Delete of an old revision: %v, want *ConflictError", err)
			}
			if err := c.Delete(ctx, "ns/a", updated.Revision); err != nil {
				t.Error(err)
			}
			if err := c.Delete(ctx, "ns/a", 0); !is[*NotFoundError](err) {
				t.Errorf("Delete of nothing: %v, want *NotFoundError", err)
			}
			if _, ok := c.Get("ns/a"); ok {
				t.Error("the document is still there")
			}
		})
	}
}

// is says that an error has one of type E inside.
func is[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

func TestList(t *testing.T) {
	t.Parallel()
	_, notes, _ := openNotes(t, t.TempDir())
	for _, key := range []string{"b/2", "a/1", "b", "b/1", "c/1", "b0"} {
		must(notes.Create(t.Context(), key, note{Text: key}))(t)
	}
	if err := notes.Delete(t.Context(), "c/1", 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		list []Document[note]
		want []string
	}{
		{"all", notes.List(), []string{"a/1", "b", "b/1", "b/2", "b0"}},
		{"prefix", notes.ListIn("b/"), []string{"b/1", "b/2"}},
		{"prefix of nothing", notes.ListIn("c/"), nil},
		{"prefix behind all", notes.ListIn("z"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var keys []string
			for _, d := range c.list {
				keys = append(keys, d.Key)
				if d.Value.Text != d.Key {
					t.Errorf("%s has the value of %s", d.Key, d.Value.Text)
				}
			}
			if diff := cmp.Diff(c.want, keys); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefusedNames(t *testing.T) {
	t.Parallel()
	s, notes, _ := openNotes(t, t.TempDir())
	before := s.Revision()
	for _, c := range []struct{ name, key string }{
		{"empty", ""},
		{"long", strings.Repeat("x", 1025)},
		{"not UTF-8", "a\xff"},
		{"control character", "a\nb"},
		{"zero", "a\x00b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := notes.Create(t.Context(), c.key, note{}); err == nil {
				t.Errorf("key %q was taken", c.key)
			}
		})
	}
	if s.Revision() != before {
		t.Error("something was written")
	}
	for _, name := range []string{"", "a/b", "Notes", "a b"} {
		if _, err := openWith(t.Context(), Options{DataDir: t.TempDir()}, nil, NewCollection[note](name, false)); err == nil {
			t.Errorf("collection name %q was taken", name)
		}
	}
	other := NewCollection[note]("notes", false)
	if _, err := other.Create(t.Context(), "a", note{}); err == nil {
		t.Error("a collection that was not opened took a document")
	}
	if _, err := s.Commit(t.Context(), other.Creating("a", note{})); err == nil {
		t.Error("a store took a document of a collection that is not its own")
	}
	if _, err := openWith(t.Context(), Options{DataDir: t.TempDir()}, nil, notes); err == nil {
		t.Error("a collection was bound twice")
	}
}

func TestCommitIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s, notes, secrets := openNotes(t, t.TempDir())
	a := must(notes.Create(t.Context(), "a", note{Text: "1"}))(t)
	for _, c := range []struct {
		name string
		ops  []Op
		want func(error) bool
	}{
		{"exists", []Op{secrets.Creating("x", note{}), notes.Creating("a", note{})}, is[*ExistsError]},
		{"conflict", []Op{secrets.Creating("x", note{}), notes.Updating(Document[note]{Key: "a", Revision: a.Revision - 1})}, is[*ConflictError]},
		{"not there", []Op{secrets.Creating("x", note{}), notes.Deleting("b", 0)}, is[*NotFoundError]},
		{"twice", []Op{secrets.Creating("x", note{}), secrets.Creating("x", note{})}, func(err error) bool { return err != nil }},
		{"no op", []Op{secrets.Creating("x", note{}), {}}, func(err error) bool { return err != nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := s.Revision()
			if _, err := s.Commit(t.Context(), c.ops...); !c.want(err) {
				t.Errorf("got error %v", err)
			}
			if _, ok := secrets.Get("x"); ok || s.Revision() != before {
				t.Error("a part was written")
			}
		})
	}
	revision := must(s.Commit(t.Context(), notes.Updating(Document[note]{Key: "a", Revision: a.Revision, Value: note{Text: "2"}}),
		secrets.Creating("x", note{Text: "3"})))(t)
	gotA, _ := notes.Get("a")
	gotX, _ := secrets.Get("x")
	if gotA.Revision != revision || gotX.Revision != revision || gotA.Value.Text != "2" || gotX.Value.Text != "3" {
		t.Errorf("after the commit of revision %d: %v and %v", revision, gotA, gotX)
	}
	if got := must(s.Commit(t.Context()))(t); got != revision {
		t.Errorf("a commit of nothing has revision %d, want %d", got, revision)
	}
}

func TestCommitOfMany(t *testing.T) {
	t.Parallel()
	s, notes, _ := openNotes(t, t.TempDir())
	var ops []Op
	for i := range 1100 {
		ops = append(ops, notes.Creating(fmt.Sprint(i), note{}))
	}
	leader := must(s.Campaign(t.Context(), "many", "me"))(t)
	if _, err := s.Commit(Fenced(t.Context(), leader), ops...); err != nil {
		t.Fatal(err)
	}
	if got := len(notes.List()); got != len(ops) {
		t.Errorf("%d documents, want %d", got, len(ops))
	}
	large := note{Body: make([]byte, 4<<20)}
	must(notes.Create(t.Context(), "large", large))(t)
	large.Body = make([]byte, 8<<20)
	_, err := notes.Create(t.Context(), "larger", large)
	if _, refused := errors.AsType[*TooLargeError](err); !refused || !strings.Contains(err.Error(), "max-request-bytes") {
		t.Errorf("a document that is too large: %v", err)
	}
	ops = nil
	for i := range 5000 {
		ops = append(ops, notes.Creating(fmt.Sprint("crowd-", i), note{}))
	}
	_, err = s.Commit(t.Context(), ops...)
	if _, refused := errors.AsType[*TooLargeError](err); !refused || !strings.Contains(err.Error(), "give it in parts") || len(notes.List()) > 4096 {
		t.Errorf("more writes than etcd takes at a time: %v", err)
	}
}

func TestModify(t *testing.T) {
	t.Parallel()
	s, notes, _ := openNotes(t, t.TempDir())
	created := must(notes.Create(t.Context(), "a", note{Tags: map[string]string{"n": ""}}))(t)

	t.Run("nothing", func(t *testing.T) {
		got, err := notes.Modify(t.Context(), "a", func(n note) (note, error) {
			n.Tags["n"] = "changed in place"
			return n, ErrUnchanged
		})
		if diff := cmp.Diff(created, got); diff != "" || err != nil || s.Revision() != created.Revision {
			t.Errorf("%v, revision %d, %s", err, s.Revision(), diff)
		}
	})
	t.Run("error", func(t *testing.T) {
		want := errors.New("no")
		if _, err := notes.Modify(t.Context(), "a", func(n note) (note, error) { return n, want }); !errors.Is(err, want) {
			t.Errorf("got error %v", err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		if _, err := notes.Modify(t.Context(), "b", func(n note) (note, error) { return n, nil }); !is[*NotFoundError](err) {
			t.Errorf("got error %v", err)
		}
	})
	t.Run("at once", func(t *testing.T) {
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if _, err := notes.Modify(t.Context(), "a", func(n note) (note, error) {
					n.Tags["n"] += "x"
					return n, nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if got, _ := notes.Get("a"); got.Value.Tags["n"] != strings.Repeat("x", 20) {
			t.Errorf("20 changes made %q", got.Value.Tags["n"])
		}
	})
	t.Run("for ever", func(t *testing.T) {
		tries := 0
		_, err := notes.Modify(t.Context(), "a", func(n note) (note, error) {
			tries++
			current, _ := notes.Get("a")
			must(notes.Update(t.Context(), current))(t)
			return n, nil
		})
		if !is[*ConflictError](err) || tries != 100 {
			t.Errorf("%d tries ended with %v", tries, err)
		}
	})
}

// TestObserversFindAllOfARevision: an observer that is called for a document finds what was written with it in other collections.
func TestObserversFindAllOfARevision(t *testing.T) {
	t.Parallel()
	s, plain, secret := openNotes(t, t.TempDir())
	missing := make(chan string, 100)
	look := func(other *Collection[note]) func(Event[note]) {
		return func(e Event[note]) {
			if d, ok := other.Get(e.Key); !ok || d.Revision != e.Revision {
				missing <- e.Key
			}
			if newest, reached := s.Newest(), s.Revision(); newest != e.Revision || reached >= newest {
				t.Errorf("the newest that can be read is of %d and the view at %d, while observers are told of %d", newest, reached, e.Revision)
			}
		}
	}
	plain.Observe(look(secret))
	secret.Observe(look(plain))
	for i := range 30 {
		key := strconv.Itoa(i)
		must(s.Commit(t.Context(), plain.Creating(key, note{Text: "a"}), secret.Creating(key, note{Text: "b"})))(t)
	}
	close(missing)
	for key := range missing {
		t.Errorf("%s was not there in the other collection", key)
	}
}
