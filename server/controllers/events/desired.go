// The pages in which events are written down: a page is written again with each event that it
// gets, until it is full, so that pages are small and few.

package events

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// fullPage is how many events a page has at most.
const fullPage = 50

// shareOf is how many events are kept of each of so many clusters.
func shareOf(clusters int) int {
	return max(1, min(PerCluster, InAll/max(1, clusters)))
}

// change is what is written of one cluster's pages.
type change struct {
	remove []string                           // keys of pages
	tail   *store.Document[records.EventPage] // the last page as it shall be; nil leaves it
	add    []records.EventPage                // pages behind it
	first  int                                // the number of the first of them
}

// plan puts events behind those of the pages that there are, and takes so many of the oldest away
// that at most keep are left. All are in their order.
func plan(pages []store.Document[records.EventPage], fresh []records.Event, keep int) change {
	fresh = fresh[max(0, len(fresh)-keep):]
	var c change
	if n := len(pages); n > 0 {
		last := pages[n-1]
		c.first = numberOf(last.Key) + 1
		kept := last.Value.Events
		kept = kept[max(0, len(kept)-max(0, keep-len(fresh))):]
		room := max(0, min(fullPage, len(fresh)+len(kept))-len(kept))
		switch {
		case len(kept) == 0:
			c.remove = append(c.remove, last.Key)
		case room > 0 || len(kept) < len(last.Value.Events):
			events := append(append([]records.Event{}, kept...), fresh[:room]...)
			c.tail = &store.Document[records.EventPage]{Key: last.Key, Revision: last.Revision, Value: records.EventPage{Events: events}}
			fresh, keep = fresh[room:], keep-room
		}
		keep -= len(kept)
		pages = pages[:n-1]
	}
	for rest := fresh; len(rest) > 0; {
		n := min(fullPage, len(rest))
		c.add = append(c.add, records.EventPage{Events: rest[:n:n]})
		rest = rest[n:]
	}
	keep -= len(fresh)
	// Older pages go whole: the newest of them that does not fit, and all before it.
	for i := len(pages) - 1; i >= 0; i-- {
		if keep -= len(pages[i].Value.Events); keep < 0 {
			c.remove = append(c.remove, keysOf(pages[:i+1])...)
			break
		}
	}
	return c
}

func keysOf(pages []store.Document[records.EventPage]) []string {
	keys := make([]string, len(pages))
	for i, p := range pages {
		keys[i] = p.Key
	}
	return keys
}

func pageKey(cluster string, number int) string { return fmt.Sprintf("%s/%010d", cluster, number) }

// numberOf is the number of a page; only this package makes their keys.
func numberOf(key string) int {
	_, text, _ := strings.Cut(key, "/")
	n, _ := strconv.Atoi(text) // 0 would collide with a page that is there, which the store refuses
	return n
}
