package store

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestATallyFollowsItsCollection(t *testing.T) {
	dir := t.TempDir()
	boats := NewCollection[boat]("boats", false)
	inHarbour := func(b *boat) (string, bool) { return b.Harbour, b.Harbour != "at sea" }
	before := NewTally(boats, inHarbour)
	s := openBoats(t, dir, boats)
	put := func(key, harbour string, bytes int) {
		t.Helper()
		b := boat{Harbour: harbour, Flags: []string{strings.Repeat("x", bytes)}}
		op := boats.Creating(key, b)
		if d, ok := boats.Get(key); ok {
			d.Value = b
			op = boats.Updating(d)
		}
		if _, err := s.Commit(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	frame := len(`{"Harbour":"Kiel","Flags":[""]}`)
	put("a", "Kiel", 5000)
	put("b", "Kiel", 10)
	put("c", "", 2000-frame+len("Kiel"))
	put("d", "at sea", 9000)
	check := func(what, owner string, documents int, bytes int64) {
		t.Helper()
		for name, tally := range map[string]*Tally[boat]{"one from before it was opened": before, "a new one": NewTally(boats, inHarbour)} {
			got := tally.All()
			if owner != "all" {
				got = tally.Of(owner)
			}
			if want := (Sum{documents, bytes}); got != want {
				t.Errorf("%s, %s: %+v, want %+v", what, name, got, want)
			}
		}
	}
	check("a large one and a small one, which counts as 1 KiB", "Kiel", 2, int64(5000+frame)+1024)
	check("of nobody", "", 1, 2000)
	check("what does not count", "at sea", 0, 0)
	check("together", "all", 3, int64(5000+frame)+1024+2000)
	put("a", "Kiel", 3000)
	check("it shrinks", "Kiel", 2, int64(3000+frame)+1024)
	put("b", "at sea", 10)
	check("it leaves", "Kiel", 1, int64(3000+frame))
	if err := boats.Delete(t.Context(), "a", 0); err != nil {
		t.Fatal(err)
	}
	check("it is gone", "Kiel", 0, 0)
	if len(before.sums) != 1 {
		t.Errorf("owners of nothing are kept: %v", before.sums)
	}
	put("a", "Kiel", 4000)
	check("it is there again", "Kiel", 1, int64(4000+frame))
}

// Check sees what is written with what it grows by, and refuses all of a Commit.
func TestACheckRefusesACommit(t *testing.T) {
	full := errors.New("full")
	var refuse error
	var seen []Write
	begun, ended := 0, 0
	boats := NewCollection[boat]("boats", true)
	s, err := openWith(t.Context(), Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Check: func(_ context.Context, writes []Write) (func(), error) {
		seen = writes
		begun++
		return func() { ended++ }, refuse
	}}, nil, boats)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	long := func(bytes int) boat { return boat{Harbour: strings.Repeat("x", bytes)} }
	if _, err := s.Commit(t.Context(), boats.Creating("a", long(2000)), boats.Creating("b", boat{})); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || !seen[0].New || seen[0].Of != Bindable(boats) || seen[0].Value.(boat).Harbour != long(2000).Harbour || seen[0].Grows < 2000 || seen[1].Grows != 1024 {
		t.Errorf("two new ones: %d, %.200v", len(seen), seen)
	}
	a, _ := boats.Get("a")
	a.Value = long(3000)
	refuse = full
	if _, err := s.Commit(t.Context(), boats.Updating(a), boats.Deleting("b", 0), boats.Creating("c", boat{})); !errors.Is(err, full) {
		t.Errorf("refused: %v", err)
	}
	if len(seen) != 2 || seen[0].New || seen[0].Grows < 990 || seen[0].Grows > 1010 {
		t.Errorf("a larger one, one that goes and a new one: %d, %.200v", len(seen), seen)
	}
	if is, ok := boats.Get("b"); !ok || is.Revision == 0 || len(boats.List()) != 2 {
		t.Error("a part of what was refused is done")
	}
	refuse = nil
	if _, err := boats.Update(t.Context(), a); err != nil {
		t.Error(err)
	}
	if _, err := boats.Update(t.Context(), a); err == nil { // whose revision is not that any more
		t.Error("a conflict is none")
	}
	if begun != 4 || ended != 3 {
		t.Errorf("%d commits were asked about, of which one was refused, and %d ended", begun, ended)
	}
}
