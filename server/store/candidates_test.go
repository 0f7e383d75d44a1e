package store

import "testing"

func TestTheFirstLeads(t *testing.T) {
	var s candidates
	seen := []string{}
	s.Observe(func() { seen = append(seen, s.Leader("a/")) })
	s.Put("b/1", candidacy{"other", 1})
	s.Put("a/3", candidacy{"late", 9})
	s.Put("a/2", candidacy{"first", 5})
	s.Put("a/2", candidacy{"renamed", 5})
	s.Delete("a/2")
	s.Replace(map[string]candidacy{"a/7": {"new", 12}, "a/8": {"newer", 13}})
	s.Delete("a/nobody")
	s.Replace(nil)
	s.Put("a/9", candidacy{"again", 20})
	want := []string{"", "late", "first", "renamed", "late", "new", "new", "", "again"}
	for i, got := range seen {
		if i >= len(want) || got != want[i] {
			t.Fatalf("%q led, not %q", seen, want)
		}
	}
	if len(seen) != len(want) {
		t.Errorf("%d changes were seen of %d", len(seen), len(want))
	}
	if got := s.Leader("b/"); got != "" {
		t.Errorf("%q leads what nobody stands for", got)
	}
}
