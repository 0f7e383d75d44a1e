// A stream is one open watch. While nothing happens it is only memory and one timer:
// a goroutine runs while there is something to send, and one waits for the client to
// leave.

package fanout

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel/peer"
)

// The types of watch events.
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
	bookmark = "BOOKMARK"
	failed   = "ERROR"
)

// frame is one event to send: a change, or something of this stream only.
type frame struct {
	kind   string
	change *change // of added, modified and deleted
	object []byte  // of bookmark and failed
}

// send gives the frame to a client.
func (f frame) send(to sink, h *Hub) error {
	switch {
	case f.change == nil:
		return to.send(f.kind, f.object)
	case f.change.shared:
		return to.send(f.kind, f.change.object(h.options.Encode))
	}
	object := h.options.Encode(h.buffers.take(usualObject), f.change.Document)
	defer h.buffers.give(object)
	return to.send(f.kind, object)
}

// maxQueue is how many events a client may be behind before it has to list again. One
// Secret never comes near it, as newer states of it replace older ones.
const maxQueue = 4096

// sink carries events to one client. Its calls come one at a time, but for cut.
type sink interface {
	// begin sends the header, before everything else.
	begin() error
	// send writes one event; it does not block for much longer than sendTimeout.
	send(kind string, object []byte) error
	// end notifies the client that the stream is complete, and lets it go.
	end()
	// cut lets the client go at once; a send that is under way fails.
	cut()
	// silence is how long nothing has come of the client's host, not even a confirmation; zero when that is not known.
	silence() time.Duration
}

// stream is one watch of one client.
type stream struct {
	hub       *Hub
	scope     *Scope
	sink      sink
	bookmarks bool
	machine   bool
	until     time.Time // when the client asked it to end
	begun     bool      // the header is sent; only run knows

	mu      sync.Mutex
	queue   []frame
	last    int64         // changes up to this revision are reported or not wanted
	sending bool          // a goroutine sends what is in the queue
	closing bool          // nothing is added any more; the stream ends when the queue is empty
	ended   bool          // the client has gone; nothing is sent any more
	silent  time.Duration // how long its host had left probes unanswered then
	timer   *time.Timer
	unbind  func()        // ends what bind began
	done    chan struct{} // closed when nothing of the stream runs any more
}

// offer is a change in the hub. Only changes of the stream's scope and after its start
// go on.
func (s *stream) offer(c *change, old *records.PlanSecret, gone bool) {
	if !s.scope.Covers(c.Key) {
		return
	}
	was := old != nil && s.scope.Matches(old.Object)
	is := !gone && s.scope.Matches(c.Value.Object)
	f := frame{change: c}
	switch {
	case is && was:
		f.kind = modified
	case is:
		f.kind = added
	case was:
		f.kind = deleted
	default:
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Revision > s.last && !s.closing && !s.ended {
		s.push(f)
	}
}

// push queues an event and sees that a goroutine sends it. s.mu is held.
func (s *stream) push(f frame) {
	if n := len(s.queue); n > 0 && f.kind == modified {
		if tail := s.queue[n-1]; tail.change != nil && tail.kind != deleted && tail.change.Key == f.change.Key {
			f.kind = tail.kind // an ADDED that was not sent yet stays one
			s.queue = s.queue[:n-1]
		}
	}
	if len(s.queue) >= maxQueue {
		f = expiredFrame(fmt.Sprintf("this watch is more than %d events behind: list again", maxQueue))
		s.queue, s.closing = s.queue[:0], true
	}
	s.queue = append(s.queue, f)
	s.wake()
}

// wake starts a goroutine that sends, unless there is one. s.mu is held.
func (s *stream) wake() {
	if !s.sending && !s.ended {
		s.sending = true
		s.hub.running.Go(s.run)
	}
}

// run sends until the queue is empty.
func (s *stream) run() {
	if !s.begun {
		s.begun = true
		if err := s.sink.begin(); err != nil {
			s.abort()
		}
	}
	for {
		s.mu.Lock()
		if s.ended || len(s.queue) == 0 {
			s.sending = false
			over, inOrder := s.ended || s.closing, !s.ended
			s.ended = over
			s.mu.Unlock()
			if over {
				s.leave(inOrder)
			}
			return
		}
		frames := s.queue
		s.queue = nil
		s.mu.Unlock()
		peer.AfterSending(s.sink.silence(), s.sink.silence, s.abort)
		for _, f := range frames {
			if err := f.send(s.sink, s.hub); err != nil {
				s.abort()
				break
			}
		}
	}
}

// endLimit is how long a stream whose credential is over may take to end in order.
const endLimit = time.Second

// bind ends the stream when its credential ends.
func (s *stream) bind(until func(end func()) (stop func())) {
	unbind := until(func() {
		s.finish()
		time.AfterFunc(endLimit, s.abort)
	})
	s.mu.Lock()
	s.unbind = unbind
	over := s.ended
	s.mu.Unlock()
	if over {
		unbind() // leave may have come before
	}
}

// leave is the last act of a stream; it runs once.
func (s *stream) leave(inOrder bool) {
	s.release()
	s.hub.remove(s)
	if inOrder {
		s.sink.end()
	} else {
		s.sink.cut()
	}
	close(s.done)
	s.hub.running.Done()
}

// abort ends the stream at once: the client has gone.
func (s *stream) abort() {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended, s.queue = true, nil
	if d := s.sink.silence(); d >= peer.LateAnswer {
		s.silent = d
	}
	sending := s.sending
	s.mu.Unlock()
	if sending {
		s.sink.cut() // wakes the goroutine that sends, which then leaves
		return
	}
	s.leave(false)
}

// finish ends the stream in order, after these events.
func (s *stream) finish(last ...frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.ended {
		return
	}
	s.closing = true
	s.queue = append(s.queue, last...)
	s.wake()
}

// release gives back what a stream holds beside its connection.
func (s *stream) release() {
	s.mu.Lock()
	timer, unbind := s.timer, s.unbind
	s.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	if unbind != nil {
		unbind()
	}
}

// tick is the stream's timer: a heartbeat, or the end that the client asked for.
func (s *stream) tick() {
	if left := s.left(); left <= 0 {
		s.finish()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.ended {
		return
	}
	if s.bookmarks && !s.sending {
		// Everything up to this revision went through offer before it could be read here.
		s.push(bookmarkFrame(s.hub.options.Store.Revision(), false))
	}
	s.timer.Reset(s.pause())
}

// left is how long the stream may still run. A deadline that a client set counts in
// real time, with any clock that the server's records have.
func (s *stream) left() time.Duration { return time.Until(s.until) }

// pause is the time to the next tick. Ticks are spread, but some of them fall together: of thousands of streams in which nothing
// happens each would wake a processor that sleeps.
func (s *stream) pause() time.Duration {
	if !s.bookmarks {
		return s.left()
	}
	third := s.hub.options.Heartbeat / 3
	next := time.Now().Add(2*third + rand.N(2*third+1)) // #nosec G404 -- spreads load, nothing secret
	return min(s.left(), time.Until(next.Truncate(third/60)))
}

// bookmarkFrame says up to where the stream is complete; end marks the end of the
// events that a streamed list begins with.
func bookmarkFrame(revision int64, end bool) frame {
	const mark = `,"annotations":{"k8s.io/initial-events-end":"true"}`
	var b strings.Builder
	b.WriteString(`{"kind":"Secret","apiVersion":"v1","metadata":{"resourceVersion":"` + strconv.FormatInt(revision, 10) + `"`)
	if end {
		b.WriteString(mark)
	}
	b.WriteString(`}}`)
	return frame{kind: bookmark, object: []byte(b.String())}
}

// expiredFrame makes a client list again.
func expiredFrame(sentence string) frame {
	object, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: http.StatusGone, Message: sentence,
	})
	if err != nil {
		object = []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
	}
	return frame{kind: failed, object: object}
}

// appendEvent appends one event of a watch, with its newline.
func appendEvent(b []byte, kind string, object []byte) []byte {
	b = append(append(append(b, `{"type":"`...), kind...), `","object":`...)
	return append(append(b, object...), '}', '\n')
}

// Scope is which Secrets a list or watch is about.
type Scope struct {
	// Key is the one Secret, "<namespace>/<name>"; "" for many.
	Key string
	// Prefix is "<namespace>/", or "" for all namespaces; unused with Key.
	Prefix string
	// Fields and Labels narrow it further; nil for all.
	Fields fields.Selector
	Labels labels.Selector
}

// Covers says whether a key is in the scope; what is stored under it may still not match.
func (s *Scope) Covers(key string) bool {
	if s.Key != "" {
		return s.Key == key
	}
	return strings.HasPrefix(key, s.Prefix)
}

// Matches says whether a Secret that the scope covers is in it.
func (s *Scope) Matches(o records.Object) bool {
	if s.Labels != nil && !s.Labels.Matches(labels.Set(o.Labels)) {
		return false
	}
	return s.Fields == nil || s.Fields.Matches(fields.Set{"metadata.name": o.Name, "metadata.namespace": o.Namespace, "type": plans.SecretType})
}
