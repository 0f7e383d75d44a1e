// Lists that go on: each thing as it is, and again whenever it changes, a line each.

package native

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/store"
)

// followCheck is how often a follower's token is looked at while nothing happens, and an
// empty line is sent, by which a reader that is gone is found.
const followCheck = 2 * time.Second

// followed are the things that somebody follows.
type followed[T any] struct {
	// collection is where their changes are found in the feed.
	collection string
	list       func() []store.Document[T]
	get        func(key string) (store.Document[T], bool)
	wanted     func(T) bool
	show       func(store.Document[T]) any
	// about is a thing as auth.May knows it: what the caller does not see, or no longer, is left out.
	about func(T) auth.Object
	// one is the key of the only one that is followed: the answer ends when it is removed.
	one string
}

// unseen says that the only thing that is followed is no longer the caller's to see.
func (f followed[T]) unseen(c *route.Call) bool {
	d, ok := f.get(f.one)
	return f.one != "" && ok && !auth.May(c.Who, auth.Get, f.about(d.Value))
}

// follow sends things as lines of JSON until the caller goes or may not see them any more. Who
// falls too far behind gets all of them anew.
func follow[T any](a *API, c *route.Call, f followed[T]) (route.Answer, error) {
	c.W.Header().Set("Content-Type", "application/x-ndjson")
	norman.Uncached(c.W.Header())
	c.W.WriteHeader(http.StatusOK)
	control, lines := http.NewResponseController(c.W), json.NewEncoder(c.W)
	send := func(d store.Document[T]) bool {
		if !f.wanted(d.Value) {
			return true
		}
		if !auth.May(c.Who, auth.Get, f.about(d.Value)) {
			return true // who follows one thing alone is sent away below
		}
		return lines.Encode(f.show(d)) == nil
	}
	flush := func() bool {
		_ = control.SetWriteDeadline(time.Now().Add(liveWrite)) // a connection without deadlines ends by itself
		return control.Flush() == nil
	}
	check := time.NewTicker(followCheck)
	defer check.Stop()
	for {
		cursor := a.Changes.Now()
		all := f.list()
		if len(all) == 0 && f.one != "" {
			return route.Answer{}, nil
		}
		for _, d := range all {
			if !send(d) {
				return route.Answer{}, nil
			}
		}
		for behind := false; !behind; {
			changes, after, _, more, ok := a.Changes.Next(cursor)
			cursor, behind = after, !ok
			for _, change := range changes {
				if change.Collection != f.collection {
					continue
				}
				d, exists := f.get(change.Key)
				if exists && !send(d) || !exists && change.Key == f.one {
					return route.Answer{}, nil
				}
			}
			if !flush() || c.StillAdmitted() != nil || f.unseen(c) {
				return route.Answer{}, nil
			}
			if behind || len(changes) > 0 {
				continue
			}
			select {
			case <-c.Ctx().Done():
				return route.Answer{}, nil
			case <-more:
			case <-check.C:
				if _, err := c.W.Write([]byte{'\n'}); err != nil {
					return route.Answer{}, nil
				}
			}
		}
	}
}
