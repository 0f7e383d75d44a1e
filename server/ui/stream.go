// The stream of a page: its <main> again, whenever something that it shows changed.

package ui

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/ui/live"
)

const (
	// leastGap is between two pictures of a page: five a second at most.
	leastGap = 200 * time.Millisecond
	// A server that takes long to make a picture rests longer before the next one: restFactor times as long, and mostGap at most,
	// so that a change is on the screen half a second after it was made.
	restFactor = 4
	mostGap    = 350 * time.Millisecond
	// heartbeat is how often something is sent that nobody sees, by which both ends know of each other.
	heartbeat = 10 * time.Second
	// patience is how long a client may take to accept what it is sent.
	patience = 30 * time.Second
)

// streams says whether a client wants the stream of a page.
func streams(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// begin sends the head of a stream.
func begin(c *route.Call) {
	h := c.W.Header()
	headers(h)
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies that collect answers hold streams back
	c.W.WriteHeader(http.StatusOK)
}

// tell sends one event. Its text may have lines.
func tell(c *route.Call, event, text string) error {
	return write(c, "event: "+event+"\ndata: "+strings.ReplaceAll(strings.ReplaceAll(text, "\r", ""), "\n", "\ndata: ")+"\n\n")
}

func write(c *route.Call, text string) error {
	control := http.NewResponseController(c.W)
	_ = control.SetWriteDeadline(time.Now().Add(patience)) // a connection without deadlines ends by itself
	if _, err := c.W.Write([]byte(text)); err != nil {
		return err
	}
	return control.Flush()
}

// follow sends a page's <main>, unless the client has seen it, and again with each change, until the client goes or its
// session is over. Changes that come close together are one.
func (u *UI) follow(c *route.Call, page Page) (route.Answer, error) {
	seen := c.Query().Get("seen")
	open := u.Changes.Open()
	defer open.Close()
	over := make(chan struct{})
	defer u.Auth.Until(c.Who, func(auth.Identity) bool { return true }, func() { close(over) })()
	begin(c)
	// The clock of the client may be wrong, so it is told the time.
	if tell(c, "hello", u.build+" "+strconv.FormatInt(u.Now().UnixMilli(), 10)) != nil {
		return route.Answer{}, nil
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	var rest <-chan time.Time // nil when the next picture may be made
	for due := true; ; {
		if due && rest == nil {
			began := time.Now()
			now, again := u.look(c, page, open, seen)
			if !again {
				return route.Answer{}, nil
			}
			seen, due = now, false
			rest = time.After(min(max(leastGap, restFactor*time.Since(began)), mostGap))
		}
		select {
		case <-c.Ctx().Done():
			return route.Answer{}, nil
		case <-over:
			u.end(c)
			return route.Answer{}, nil
		case <-open.Due():
			due = true
		case <-rest:
			rest = nil
		case <-beat.C:
			if tell(c, "beat", "") != nil {
				return route.Answer{}, nil
			}
		}
	}
}

// look sends what a page shows now, unless the client has seen it; again is false when the stream is over.
func (u *UI) look(c *route.Call, page Page, open *live.Page, seen string) (now string, again bool) {
	if err := route.Again(c); err != nil {
		u.end(c)
		return "", false
	}
	body, err := u.picture(c, page, open)
	if err != nil {
		return "", false
	}
	if now = seenOf(body); now == seen {
		return now, true
	}
	return now, write(c, event(now, body)) == nil
}

// picture is what an open page shows now, drawn when it is its turn.
func (u *UI) picture(c *route.Call, page Page, open *live.Page) ([]byte, error) {
	done, ok := u.turns.Take(c.Ctx())
	if !ok {
		return nil, context.Cause(c.Ctx())
	}
	defer done()
	r := request(c)
	r.Query.Del("seen")
	view, err := page(r)
	if err == nil {
		if open.Watch(append(view.Topics, TopicRights)) {
			view, err = page(r) // for what changed before the page was told of changes
		}
	}
	if err != nil {
		failure := route.Envelope(err)
		view = View{Title: titleOf(failure.Status), Template: "refusal", Data: failure.Message}
	}
	return u.body(c.Ctx(), view)
}

// event is a picture on its way.
func event(id string, body []byte) string {
	var out strings.Builder
	out.Grow(len(body) + len(body)/16)
	out.WriteString("event: main\nid: " + id + "\n")
	for line := range bytes.Lines(body) {
		out.WriteString("data: ")
		out.Write(bytes.TrimRight(line, "\r\n"))
		out.WriteByte('\n')
	}
	out.WriteByte('\n')
	return out.String()
}

// end says why a stream is over: the session, or something that may be different in a moment.
func (u *UI) end(c *route.Call) {
	switch err := route.Again(c); {
	case errors.Is(err, auth.ErrUnauthenticated):
		_ = tell(c, "over", loginURL(c.R))
	case err != nil && !errors.Is(err, auth.ErrCutOff): // the same address says why
		_ = tell(c, "over", Local(here(c.R)))
	case err != nil:
		_ = tell(c, "away", err.Error())
	default:
		_ = tell(c, "away", "the rights of your user have changed")
	}
}
