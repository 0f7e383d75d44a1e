package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

type boat struct {
	Harbour string
	Flags   []string
}

func byHarbour(b *boat) []string {
	if b.Harbour == "" {
		return nil
	}
	return []string{b.Harbour}
}

func openBoats(t *testing.T, dir string, boats *Collection[boat]) *Store {
	t.Helper()
	s, err := openWith(t.Context(), Options{DataDir: dir, UnsafeNoFsync: true}, nil, boats)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func keysOf[T any](docs []*Document[T]) string {
	var keys []string
	for _, d := range docs {
		keys = append(keys, d.Key)
	}
	return strings.Join(keys, " ")
}

func TestIndexFollowsItsCollection(t *testing.T) {
	dir := t.TempDir()
	boats := NewCollection[boat]("boats", false)
	harbours := NewIndex(boats, byHarbour)
	s := openBoats(t, dir, boats)
	put := func(key string, b boat) {
		t.Helper()
		d, ok := boats.Get(key)
		d.Key, d.Value = key, b
		op := boats.Creating(key, b)
		if ok {
			op = boats.Updating(d)
		}
		if _, err := s.Commit(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(x *Index[boat, string], harbour, want string) {
		t.Helper()
		if got := keysOf(x.Find(harbour)); got != want {
			t.Errorf("in %s: %q, want %q", harbour, got, want)
		}
	}
	put("c", boat{Harbour: "kiel"})
	put("a", boat{Harbour: "kiel"})
	put("b", boat{Harbour: "kiel"})
	put("d", boat{})
	expect(harbours, "kiel", "a b c")
	expect(harbours, "", "")
	before := harbours.Find("kiel")
	put("b", boat{Harbour: "bergen"})
	put("a", boat{Harbour: "kiel", Flags: []string{"new"}})
	expect(harbours, "kiel", "a c")
	expect(harbours, "bergen", "b")
	if keysOf(before) != "a b c" || before[0].Value.Flags != nil {
		t.Error("what a reader was given has changed under it")
	}
	if d, ok := harbours.First("kiel"); !ok || d.Key != "a" || len(d.Value.Flags) != 1 {
		t.Errorf("first = %+v, %v", d, ok)
	}
	if err := boats.Delete(t.Context(), "b", 0); err != nil {
		t.Fatal(err)
	}
	expect(harbours, "bergen", "")
	if _, ok := harbours.First("bergen"); ok {
		t.Error("a deleted document is found")
	}
	if keys := harbours.Keys(); !slices.Equal(keys, []string{"kiel"}) {
		t.Errorf("keys = %v", keys)
	}

	// Made late, and made again from what is stored, an index has the same.
	flags := NewIndex(boats, func(b *boat) []string { return b.Flags })
	expect(flags, "new", "a")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := NewCollection[boat]("boats", false)
	harbours = NewIndex(again, byHarbour)
	openBoats(t, dir, again)
	expect(harbours, "kiel", "a c")
}

func BenchmarkIndex(b *testing.B) {
	boats := NewCollection[boat]("boats", false)
	harbours := NewIndex(boats, byHarbour)
	const all = 5000
	for i := range all {
		boats.replace(rawEvent{key: fmt.Sprint(i)}, &Document[boat]{Key: fmt.Sprint(i), Value: boat{Harbour: "kiel"}})
	}
	b.Run("find 5000", func(b *testing.B) {
		for b.Loop() {
			harbours.Find("kiel")
		}
	})
	b.Run("replace 1 of 5000", func(b *testing.B) {
		d := &Document[boat]{Key: "77", Value: boat{Harbour: "kiel"}}
		for b.Loop() {
			boats.replace(rawEvent{key: "77"}, d)
		}
	})
}
