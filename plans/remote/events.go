// The watch stream, event by event.

package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/drover-project/drover/plans"
)

const (
	// watchSeconds is how long the server is asked to keep a watch open; up to as much again is added by chance.
	watchSeconds = 300
	// silentLimit is how long a stream may be silent beyond what is normal for it.
	silentLimit = 90 * time.Second
	// largeEvent is from which size on the decoder's buffer is given back after an event, in bytes.
	largeEvent = 64 << 10
)

// event is one message of a watch: a version of the Secret, its deletion, or a mark.
type event struct {
	secret  *Secret // of ADDED and MODIFIED
	deleted bool
	// version is where a later watch can go on.
	version string
	// synced marks the end of the initial events.
	synced bool
}

// stream is an open watch.
type stream struct {
	c      *client
	body   io.ReadCloser
	in     *meter
	dec    *json.Decoder
	cancel context.CancelCauseFunc
	ctx    context.Context //nolint:containedctx // of the stream, which lives beyond the call
	pulse  pulse
	timer  *time.Timer
}

// errSilent ends a stream whose server says nothing for too long.
var errSilent = errors.New("the server was silent for too long")

// watch opens a watch from a version; with initial, the events begin with what exists now.
// The context ends the stream.
func (c *client) watch(ctx context.Context, version string, initial bool, seconds int) (*stream, error) {
	query := url.Values{
		"watch":               {"true"},
		"allowWatchBookmarks": {"true"},
		"fieldSelector":       {"metadata.name=" + c.name},
		"timeoutSeconds":      {strconv.Itoa(seconds)},
	}
	if version != "" {
		query.Set("resourceVersion", version)
	}
	if initial {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	// Until the header is there the limit is that of any request.
	timer := time.AfterFunc(requestLimit, func() { cancel(errSilent) })
	answer, err := c.send(ctx, http.MethodGet, c.secrets(), query, nil)
	if err == nil {
		if err = wantJSON(answer); err != nil {
			answer.Body.Close()
		}
	}
	if err != nil {
		timer.Stop()
		cancel(nil)
		if errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		return nil, err
	}
	s := &stream{c: c, body: answer.Body, ctx: ctx, cancel: cancel, timer: timer, pulse: pulse{open: time.Duration(seconds) * time.Second}}
	s.in = &meter{r: answer.Body, came: s.heard}
	s.dec = json.NewDecoder(s.in)
	s.heard()
	return s, nil
}

// heard is called when bytes came.
func (s *stream) heard() { s.timer.Reset(s.pulse.limit()) }

func (s *stream) close() {
	s.timer.Stop()
	s.cancel(nil)
	s.body.Close()
}

// next waits for an event. io.EOF is the ordinary end of the stream.
func (s *stream) next() (event, error) {
	s.in.left = maxBody
	var wire struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := s.dec.Decode(&wire); err != nil {
		switch {
		case s.ctx.Err() != nil:
			return event{}, context.Cause(s.ctx)
		case errors.Is(err, io.EOF):
			return event{}, io.EOF
		case errors.Is(err, errTooLong):
			return event{}, fmt.Errorf("a watch event is longer than %d bytes", maxBody)
		}
		return event{}, fmt.Errorf("read the watch: %w", err)
	}
	if len(wire.Object) > largeEvent {
		s.dec = json.NewDecoder(io.MultiReader(s.dec.Buffered(), s.in))
	}
	return s.event(wire.Type, wire.Object)
}

func (s *stream) event(kind string, object json.RawMessage) (event, error) {
	switch kind {
	case "ADDED", "MODIFIED", "DELETED":
		secret, err := s.c.secret(object)
		var foreign *foreignError
		switch {
		case errors.As(err, &foreign):
			return event{}, nil
		case err != nil:
			return event{}, err
		case kind == "DELETED":
			return event{deleted: true, version: secret.ResourceVersion}, nil
		}
		return event{secret: secret, version: secret.ResourceVersion}, nil
	case "BOOKMARK":
		var o struct {
			Metadata objectMeta `json:"metadata"`
		}
		if err := json.Unmarshal(object, &o); err != nil {
			return event{}, fmt.Errorf("read a bookmark: %w", err)
		}
		s.pulse.bookmark(time.Now())
		return event{version: o.Metadata.ResourceVersion, synced: o.Metadata.Annotations["k8s.io/initial-events-end"] == "true"}, nil
	case "ERROR":
		return event{}, eventError(s.c, object)
	}
	return event{}, nil // types of later servers
}

func eventError(c *client, object json.RawMessage) error {
	var s status
	if err := json.Unmarshal(object, &s); err != nil {
		return fmt.Errorf("read an error event: %w", err)
	}
	return c.noted(&StatusError{Code: s.Code, Message: plans.OneLine(s.Message), RetryAfter: seconds(s.Details.RetryAfterSeconds)})
}

// pulse knows how long silence is normal on a stream: until the server's own end of the
// watch, or, once the server has shown that it sends bookmarks, three of their distances.
type pulse struct {
	open    time.Duration // what the server was asked for
	last    time.Time     // bookmark
	longest time.Duration // distance between two
}

func (p *pulse) bookmark(now time.Time) {
	if !p.last.IsZero() {
		p.longest = max(p.longest, now.Sub(p.last))
	}
	p.last = now
}

func (p *pulse) limit() time.Duration {
	if p.longest < time.Second { // none yet, or several at once
		return p.open + silentLimit
	}
	return min(3*p.longest, p.open) + silentLimit
}

var errTooLong = errors.New("too long")

// meter bounds how much is read for one event.
type meter struct {
	r    io.Reader
	came func()
	left int
}

func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, errTooLong
	}
	n, err := m.r.Read(p[:min(len(p), m.left)])
	m.left -= n
	if n > 0 {
		m.came()
	}
	return n, err
}
