// The stream of a page: its <main> again, whenever something that it shows changed.

package ui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/ui/live"
)

const (
	// heartbeat is how often something is sent that no user sees, by which both ends know of each other.
	heartbeat = 10 * time.Second
	// patience is how long a client may take to accept what it is sent.
	patience = 30 * time.Second
)

// streams says whether a client wants the stream of a page.
func streams(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// outlet is where the events of one stream go.
type outlet struct {
	call   *route.Call
	packed bool
}

// begin sends the head of a stream.
func begin(c *route.Call) outlet {
	to := outlet{c, norman.AcceptsGzip(c.R)}
	h := c.W.Header()
	headers(h)
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies that collect answers hold streams back
	h.Add("Vary", "Accept, Accept-Encoding")
	if to.packed {
		h.Set("Content-Encoding", "gzip")
	}
	c.W.WriteHeader(http.StatusOK)
	if to.packed {
		_, _ = c.W.Write(live.Head()) // the client has gone when this fails
	}
	return to
}

// tell sends a short event. Its text may have lines.
func (o outlet) tell(event, text string) error { return o.send(live.Short(event, text)) }

// send sends an event.
func (o outlet) send(e live.Event) error {
	if o.packed {
		return write(o.call, e.Packed)
	}
	return write(o.call, e.Plain)
}

func write(c *route.Call, text []byte) error {
	control := http.NewResponseController(c.W)
	_ = control.SetWriteDeadline(time.Now().Add(patience)) // a connection without deadlines ends by itself
	if _, err := c.W.Write(text); err != nil {
		return err
	}
	return control.Flush()
}

// follow sends a page's <main>, unless the client has seen it, and again with each change, until the client goes or its
// session is over. Changes that come close together are one.
func (u *UI) follow(c *route.Call, page Page, common bool) (route.Answer, error) {
	// A browser that comes back by itself says what it got last; a script what it shows.
	seen := cmp.Or(c.R.Header.Get("Last-Event-ID"), c.Query().Get("seen"))
	open := u.board.Open(TopicRights)
	defer open.Close()
	over := make(chan struct{})
	defer u.Auth.Until(c.Who, func(auth.Identity) bool { return true }, func() { close(over) })()
	to := begin(c)
	// The clock of the client may be wrong, so it is told the time.
	if to.tell("hello", u.build+" "+strconv.FormatInt(u.Now().UnixMilli(), 10)) != nil {
		return route.Answer{}, nil
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		now, again := u.look(c, to, page, common, open, seen)
		if !again {
			return route.Answer{}, nil
		}
		if seen = now; !u.wait(c, to, open, over, beat.C) {
			return route.Answer{}, nil
		}
	}
}

// wait waits until there may be something new; again is false when the stream is over.
func (u *UI) wait(c *route.Call, to outlet, open *live.Viewer, over <-chan struct{}, beat <-chan time.Time) (again bool) {
	for {
		select {
		case <-c.Ctx().Done():
			return false
		case <-over:
			end(c, to)
			return false
		case <-open.Due():
			return true
		case <-beat:
			if to.tell("beat", "") != nil {
				return false
			}
		}
	}
}

// look sends what a page shows now to a caller who may see it now, unless the client has seen it; again is false when the stream is over.
func (u *UI) look(c *route.Call, to outlet, page Page, common bool, open *live.Viewer, seen string) (now string, again bool) {
	if err := route.Again(c); err != nil {
		end(c, to)
		return "", false
	}
	if c.Who.MustChangePassword {
		_ = to.tell("over", Home+"password")
		return "", false
	}
	open.Show(keyOf(c, common), u.drawn(requestOf(c, common), page, common))
	d, ok := open.Now()
	switch {
	case !ok || d.Err == nil && d.ID == seen:
		return seen, true
	case d.Err != nil:
		_ = to.tell("away", "the page cannot be shown")
		return "", false
	}
	return d.ID, to.send(d.Event) == nil
}

// keyOf names what a page shows to a user. A drawing goes to all pages of its key and to no other, so there is everything in it
// that decides what is drawn: the address, what may be seen, and, unless the page is common to all who may see the same,
// the session. Rights that change make another key.
func keyOf(c *route.Call, common bool) string {
	whose := "all"
	if !common {
		whose = "token " + strconv.Quote(c.Who.TokenName)
	}
	q := c.Query()
	q.Del("seen")
	return whose + " " + c.Who.Rights() + " " + c.R.URL.EscapedPath() + "?" + q.Encode()
}

// drawn draws a page. It makes no requests while it does.
func (u *UI) drawn(r Request, page Page, common bool) live.Draw {
	var others answers
	if !common {
		others.ask, others.ctx = r.AskWithin, r.Ctx
		r.Ask = func(a route.Asked) (route.Reply, error) { return others.of(slowServers, a) }
		r.AskWithin = others.of
	}
	r.Ctx = context.WithoutCancel(r.Ctx) // one page that is closed does not end the drawing for others
	return func(changed bool) live.Drawing {
		others.begin(changed)
		view, err := page(r)
		d, ready := live.Drawing{}, false
		if d.Ask, d.Rest, ready = others.end(); !ready {
			return d
		}
		if err == nil {
			d.Topics = append([]string{}, view.Topics...)
		} else {
			failure := route.Envelope(err)
			view = View{Title: titleOf(failure.Status), Template: "refusal", Data: failure.Message}
		}
		body, err := u.body(view)
		if err != nil {
			return live.Drawing{Err: err}
		}
		d.ID = seenOf(body)
		d.Event = live.Long("main", d.ID, body)
		return d
	}
}

// end says why a stream is over: the session, or something that may be different in a moment.
func end(c *route.Call, to outlet) {
	switch err := route.Again(c); {
	case errors.Is(err, auth.ErrUnauthenticated):
		_ = to.tell("over", loginURL(c.R))
	case err != nil && !errors.Is(err, auth.ErrCutOff): // the same address says why
		_ = to.tell("over", Local(here(c.R)))
	case err != nil:
		_ = to.tell("away", err.Error())
	default:
		_ = to.tell("away", "the rights of your user have changed")
	}
}

// requestOf is what a user wants to see. A page that is common to all with the same rights is asked for by no user: what is drawn
// for them is drawn without a name, a session, and anything that is theirs alone.
func requestOf(c *route.Call, common bool) Request {
	q := c.Query()
	q.Del("seen")
	r := Request{Ctx: c.Ctx(), Who: c.Who, Param: c.Param, Query: Query{c.R.URL.Path, q}, Ask: c.Ask, AskWithin: c.AskWithin, Form: auth.FormToken(c.R)}
	if common {
		r.Who, r.Form = c.Who.Anybody(), ""
		r.Ask = func(route.Asked) (route.Reply, error) { return route.Reply{}, errNoUser }
		r.AskWithin = func(time.Duration, route.Asked) (route.Reply, error) { return route.Reply{}, errNoUser }
	}
	return r
}

// errNoUser is a mistake in a page.
var errNoUser = errors.New("a page that is common to all with the same rights asks the API in no user's name")
