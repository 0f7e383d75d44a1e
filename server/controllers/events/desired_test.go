package events

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

func TestShare(t *testing.T) {
	for clusters, want := range map[int]int{0: 500, 1: 500, 20: 500, 40: 250, 300: 33, 9_999: 1, 50_000: 1} {
		if got := shareOf(clusters); got != want {
			t.Errorf("of %d clusters each has %d, want %d", clusters, got, want)
		}
	}
}

// However events come and whatever is kept of them, the pages are the newest of them in their order:
// none is lost that fits, no page is too long, and little more than what is new is written.
func TestPlan(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	for _, keeps := range [][]int{{500}, {120}, {50}, {10}, {1}, {500, 33, 400, 1, 75}} {
		var pages []store.Document[records.EventPage]
		var all []records.Event
		for round := range 400 {
			keep := keeps[round/20%len(keeps)]
			var fresh []records.Event
			for range random.IntN([]int{3, 30, 700}[random.IntN(3)]) {
				fresh = append(fresh, records.Event{Revision: int64(len(all) + 1)})
				all = append(all, fresh[len(fresh)-1])
			}
			had := count(pages)
			c := plan(pages, fresh, keep)
			pages = perform(t, pages, c)
			got := count(pages)
			if got > keep || got < min(had+len(fresh), max(1, keep-fullPage+1)) {
				t.Fatalf("round %d: %d events are left of %d and %d, keep %d", round, got, had, len(fresh), keep)
			}
			written := 0
			for _, p := range c.add {
				written += len(p.Events)
			}
			if c.tail != nil {
				written += len(c.tail.Value.Events)
			}
			if written > len(fresh)+fullPage {
				t.Fatalf("round %d: %d events are written for %d", round, written, len(fresh))
			}
			if len(fresh) == 0 && had <= keep && (len(c.remove) > 0 || written > 0) {
				t.Fatalf("round %d: something is written though there is nothing new: %+v", round, c)
			}
			var kept []records.Event
			for _, p := range pages {
				kept = append(kept, p.Value.Events...)
			}
			if !slices.Equal(all[len(all)-got:], kept) {
				t.Fatalf("round %d: %v are kept of %d", round, kept, len(all))
			}
		}
		if most := max(1, 2*maxOf(keeps)/fullPage+2); len(pages) > most {
			t.Errorf("keep %v: %d pages", keeps, len(pages))
		}
	}
}

func maxOf(list []int) int {
	most := 0
	for _, n := range list {
		most = max(most, n)
	}
	return most
}

func count(pages []store.Document[records.EventPage]) int {
	n := 0
	for _, p := range pages {
		n += len(p.Value.Events)
	}
	return n
}

// perform does a change as the store would.
func perform(t *testing.T, pages []store.Document[records.EventPage], c change) []store.Document[records.EventPage] {
	t.Helper()
	gone := map[string]bool{}
	for _, key := range c.remove {
		if gone[key] {
			t.Fatalf("%s is removed twice", key)
		}
		gone[key] = true
	}
	var next []store.Document[records.EventPage]
	for _, p := range pages {
		if c.tail != nil && c.tail.Key == p.Key {
			if gone[p.Key] {
				t.Fatalf("%s is written and removed", p.Key)
			}
			p = *c.tail
		}
		if !gone[p.Key] {
			next = append(next, p)
		}
		delete(gone, p.Key)
	}
	if len(gone) > 0 {
		t.Fatalf("removed what is not there: %v", gone)
	}
	for i, p := range c.add {
		d := store.Document[records.EventPage]{Key: pageKey("c", c.first+i), Revision: 1, Value: p}
		if n := len(next); n > 0 && next[n-1].Key >= d.Key {
			t.Fatalf("%s comes behind %s", d.Key, next[n-1].Key)
		}
		next = append(next, d)
	}
	for _, p := range next {
		if n := len(p.Value.Events); n > fullPage || n == 0 {
			t.Fatalf("%s has %d events", p.Key, n)
		}
	}
	return next
}
