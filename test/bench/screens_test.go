package main

import (
	"testing"
	"time"

	"github.com/drover-project/drover/server/ui/live"
)

// TestFind: a word is on a page when the last byte of its event has come, and not when it is in a later one again.
func TestFind(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	one, two := live.Long("main", "1", []byte("<p>\naaa-000\n</p>")).Packed, live.Long("main", "2", []byte("<p>\naaa-000 aaa-001 aaa-002\n</p>")).Packed
	s := &screen{came: []came{
		{live.Head(), at(0)}, {live.Short("hello", "x").Packed, at(1)}, {one[:len(one)/2], at(2)}, {one[len(one)/2:], at(3)},
		{live.Short("beat", "").Packed, at(4)}, {two, at(5)}, {two, at(6)},
	}}
	found, err := s.find([]string{"aaa-000", "aaa-001", "aaa-002"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Time{at(3), at(5), at(5)} {
		if !found[i].Equal(want) {
			t.Errorf("word %d came at %s, want %s", i, found[i], want)
		}
	}
	if _, err := s.find([]string{"aaa-000", "aaa-003"}); err == nil {
		t.Error("a word that never came was found")
	}
}
