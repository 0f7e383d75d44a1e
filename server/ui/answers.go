// What pages ask of hosts and of other servers, which may be slow or silent, and answers that come bit by bit.

package ui

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/drover-project/drover/server/api/route"
)

// slowServers is how long a page waits for what other servers say.
const slowServers = 10 * time.Second

// Who was asked is left in peace for restAnswers times as long as the answers took, and mostRestAnswers at most.
const (
	restAnswers     = 4
	mostRestAnswers = 10 * time.Second
)

// answers are what a page that is open has asked for, by what was asked. The page is drawn with those that have come; those
// that are missing or may be old are waited for beside, after which it is drawn again.
type answers struct {
	// ask asks, until ctx ends at the latest; nil is for pages that ask nothing.
	ask func(time.Duration, route.Asked) (route.Reply, error)
	ctx context.Context //nolint:containedctx // that of the request which is answered for as long as it lasts

	mu  sync.Mutex
	got map[string]*answer
	// old says that what was got may be so, lacks that the drawing had to do without something.
	old, lacks bool
	next       time.Time // not before this is asked again
}

type answer struct {
	asked route.Asked
	limit time.Duration
	reply route.Reply
	err   error
	come  bool
	used  bool // by the drawing that is made
}

// begin begins a drawing.
func (a *answers) begin(changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.old, a.lacks = a.old || changed, false
	for _, one := range a.got {
		one.used = false
	}
}

// of is an answer that has come, or an empty one.
func (a *answers) of(limit time.Duration, asked route.Asked) (route.Reply, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := asked.Method + " " + asked.Target
	if a.got == nil {
		a.got = map[string]*answer{}
	}
	one := a.got[key]
	if one == nil {
		one = &answer{asked: asked, limit: limit}
		a.got[key] = one
	}
	one.used = true
	a.lacks = a.lacks || !one.come
	return one.reply, one.err
}

// end ends a drawing: ready says that it lacks nothing, and fetch gets, after a rest, what it lacks or what may be old; nil for
// nothing.
func (a *answers) end() (fetch func(), rest time.Duration, ready bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, one := range a.got {
		if !one.used {
			delete(a.got, key)
		}
	}
	if len(a.got) == 0 || !a.old && !a.lacks {
		return nil, 0, !a.lacks
	}
	return a.fetch, max(0, time.Until(a.next)), !a.lacks
}

// fetch asks all again.
func (a *answers) fetch() {
	a.mu.Lock()
	a.old = false
	var wanted []*answer
	for _, one := range a.got {
		wanted = append(wanted, one)
	}
	a.mu.Unlock()
	began := time.Now()
	for _, one := range wanted {
		reply, err := a.ask(one.limit, one.asked)
		if a.ctx.Err() != nil {
			break // the page is closed, and another one of the same session asks for itself
		}
		a.mu.Lock()
		one.reply, one.err, one.come = reply, err, true
		a.mu.Unlock()
	}
	a.mu.Lock()
	a.next = time.Now().Add(min(restAnswers*time.Since(began), mostRestAnswers))
	a.mu.Unlock()
}

// Plain begins an answer of plain text that comes bit by bit: what is written to it is sent at once.
func Plain(c *route.Call, status int) io.Writer {
	h := c.W.Header()
	headers(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // proxies that collect answers hold it back
	c.W.WriteHeader(status)
	_ = write(c, nil) // the client has gone when this fails
	return written(func(b []byte) error {
		if err := write(c, b); err != nil {
			return err
		}
		// Nothing may come for long, and there is no hurry between two writes.
		_ = http.NewResponseController(c.W).SetWriteDeadline(time.Time{}) // what has no deadlines has none to take back
		return nil
	})
}

// written is an io.Writer that is a function.
type written func([]byte) error

// Write implements io.Writer.
func (w written) Write(b []byte) (int, error) {
	if err := w(b); err != nil {
		return 0, err
	}
	return len(b), nil
}
