// Requests for lists that go on: each thing as it is, and again whenever it changes, a line of
// JSON each. This file knows neither what things there are nor who may see them beyond what is said of each line.

package native

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/store"
)

const (
	// checkFollow is how often a follower's token is looked at while nothing happens, and an empty line is sent, by which a
	// reader that is gone is found.
	checkFollow = 2 * time.Second
	// followPatience is how long a reader may take to accept a line.
	followPatience = 30 * time.Second
)

// Line is a thing.
type Line struct {
	// Key is what changes know it by; without it nothing reports that it is gone.
	Key string
	// About is the thing as auth.May knows it: what the caller does not see, or no longer, is left out.
	About auth.Object
	// Show is what is sent.
	Show func() any
}

// List is what a client follows.
type List struct {
	// All are the things as they are.
	All func() []Line
	// Of are the things that a change is about, by keys that tell things apart.
	Of func(subscribe.Change) []string
	// Now is a thing as it is; false says that there is none.
	Now func(key string) (Line, bool)
	// Pause is left between two rounds, for things that change with many others. What changed more than once in the
	// meantime is sent once.
	Pause time.Duration
	// Alone says that All is one thing at most: the answer ends when it is removed or no longer the caller's to see.
	Alone bool
}

// followDocuments are those of one collection, each a thing.
func followDocuments[T any](collection string, list func() []store.Document[T], get func(string) (store.Document[T], bool),
	wanted func(T) bool, about func(T) auth.Object, show func(store.Document[T]) any) List {
	line := func(d store.Document[T]) Line { return Line{d.Key, about(d.Value), func() any { return show(d) }} }
	return List{
		All: func() []Line {
			var all []Line
			for _, d := range list() {
				if wanted(d.Value) {
					all = append(all, line(d))
				}
			}
			return all
		},
		Of: changesOf(collection, func(string) bool { return true }),
		Now: func(key string) (Line, bool) {
			d, ok := get(key)
			if !ok || !wanted(d.Value) {
				return Line{}, false
			}
			return line(d), true
		},
	}
}

// followDocument is the one with a key.
func followDocument[T any](collection, key string, get func(string) (store.Document[T], bool), about func(T) auth.Object, show func(store.Document[T]) any) List {
	one := func() []store.Document[T] {
		if d, ok := get(key); ok {
			return []store.Document[T]{d}
		}
		return nil
	}
	l := followDocuments(collection, one, get, func(T) bool { return true }, about, show)
	l.Of, l.Alone = changesOf(collection, func(changed string) bool { return changed == key }), true
	return l
}

// changesOf is the document of a change in a collection.
func changesOf(collection string, wanted func(key string) bool) func(subscribe.Change) []string {
	return func(c subscribe.Change) []string {
		if c.Collection != collection || !wanted(c.Key) {
			return nil
		}
		return []string{c.Key}
	}
}

// Lines is an answer of lines of JSON that goes on until the caller goes or may not see it any more.
type Lines struct {
	call    *route.Call
	control *http.ResponseController
	lines   *json.Encoder
	check   *time.Ticker
}

// beginFollow begins an answer, which End ends.
func beginFollow(c *route.Call) *Lines {
	c.W.Header().Set("Content-Type", "application/x-ndjson")
	norman.Uncached(c.W.Header())
	c.W.WriteHeader(http.StatusOK)
	return &Lines{c, http.NewResponseController(c.W), json.NewEncoder(c.W), time.NewTicker(checkFollow)}
}

// End ends the answer.
func (l *Lines) End() { l.check.Stop() }

// Send sends a line; false says that the caller is gone.
func (l *Lines) Send(line any) bool {
	l.patient()
	return l.lines.Encode(line) == nil
}

// Wait waits for more, after what was sent is on its way, which is then shown by the rights that the caller has by then. False ends
// the answer.
func (l *Lines) Wait(more <-chan struct{}) bool { return l.wait(more) && l.call.StillAdmitted() == nil }

func (l *Lines) wait(more <-chan struct{}) bool {
	if !l.flush() {
		return false
	}
	select {
	case <-l.call.Ctx().Done():
		return false
	case <-more:
		return true
	case <-l.check.C:
		_, err := l.call.W.Write([]byte{'\n'})
		return err == nil
	}
}

func (l *Lines) flush() bool {
	l.patient()
	return l.control.Flush() == nil
}

// patient gives the reader time for what is written next.
func (l *Lines) patient() {
	_ = l.control.SetWriteDeadline(time.Now().Add(followPatience)) // a connection without deadlines ends by itself
}

// answer is the answer to one request, while it goes on.
type answer struct {
	List
	*Lines
	// seen are the things that the reader has, when it asked for reports of what is gone; else nil.
	seen map[string]Gone
}

// Gone is the line of a thing that was removed, or is no longer the caller's to see: as much of it as names it.
type Gone struct {
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Gone      bool   `json:"gone"`
}

// serveFollow sends lines, and with the parameter gone=true a Gone for each thing that goes, until the caller goes or may not see them any more. Who falls too far behind gets all of them anew.
func serveFollow(c *route.Call, feed *subscribe.Feed, l List) (route.Answer, error) {
	a := &answer{List: l, Lines: beginFollow(c)}
	defer a.End()
	if c.Query().Get("gone") == "true" {
		a.seen = map[string]Gone{}
	}
	for a.round(feed) {
	}
	return route.Answer{}, nil
}

// round sends everything, and then what changes. False ends the answer; true says that something is missing.
func (a *answer) round(feed *subscribe.Feed) bool {
	cursor := feed.Now()
	all := a.All()
	if len(all) == 0 && a.Alone {
		return false
	}
	there := map[string]bool{}
	for _, line := range all {
		if there[line.Key] = true; !a.send(line) {
			return false
		}
	}
	for key := range a.seen {
		if !there[key] && !a.goes(key) { // meanwhile, where something was missed
			return false
		}
	}
	for {
		changes, after, _, more, ok := feed.Next(cursor)
		cursor = after
		if a.call.StillAdmitted() != nil || !a.changed(changes) || a.unseen() || !a.rights(changes) {
			return false
		}
		if !ok {
			return true
		}
		if len(changes) > 0 {
			if !a.flush() || !a.pause() {
				return false
			}
			continue
		}
		if !a.wait(more) {
			return false
		}
	}
}

// changed sends what changes are about, each thing once.
func (a *answer) changed(changes []subscribe.Change) bool {
	sent := map[string]bool{}
	for _, change := range changes {
		for _, key := range a.Of(change) {
			if sent[key] {
				continue
			}
			sent[key] = true
			line, exists := a.Now(key)
			if exists && !a.send(line) || !exists && (a.Alone || !a.goes(key)) {
				return false
			}
		}
	}
	return true
}

// rights sends what a user sees by changes of rights, and reports what they do not see any more by those.
func (a *answer) rights(changes []subscribe.Change) bool {
	if a.seen == nil || !slices.ContainsFunc(changes, func(c subscribe.Change) bool { return slices.Contains(subscribe.OfRights(), c.Collection) }) {
		return true
	}
	for _, line := range a.All() {
		_, has := a.seen[line.Key]
		if may := auth.May(a.call.Who, auth.Get, line.About); has != may && !a.send(line) {
			return false
		}
	}
	return a.flush()
}

func (a *answer) send(l Line) bool {
	if !auth.May(a.call.Who, auth.Get, l.About) {
		return a.goes(l.Key) // who follows one thing alone is sent away by unseen
	}
	shown := l.Show()
	if a.seen != nil && l.Key != "" {
		a.seen[l.Key] = named(shown)
	}
	return a.Send(shown)
}

// goes reports that a thing is gone, to a reader that has it and asked for that.
func (a *answer) goes(key string) bool {
	gone, has := a.seen[key]
	if !has {
		return true
	}
	delete(a.seen, key)
	return a.Send(gone)
}

// named is what names a thing that is shown.
func named(shown any) Gone {
	gone := Gone{}
	if text, err := json.Marshal(shown); err == nil {
		_ = json.Unmarshal(text, &gone) // what has other fields of these names has no name
	}
	gone.Gone = true
	return gone
}

// unseen says that the only thing that is followed is no longer the caller's to see.
func (a *answer) unseen() bool {
	if !a.Alone {
		return false
	}
	all := a.All()
	return len(all) == 1 && !auth.May(a.call.Who, auth.Get, all[0].About)
}

// pause leaves time between two rounds; false says that the caller is gone.
func (a *answer) pause() bool {
	if a.Pause == 0 {
		return true
	}
	select {
	case <-a.call.Ctx().Done():
		return false
	case <-time.After(a.Pause):
		return true
	}
}
