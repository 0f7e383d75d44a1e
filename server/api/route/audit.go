// What of a request goes into the audit log: made here for every row of the table, by what the row,
// the caller and the answer are. Handlers add what only they know.

package route

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/auth"
)

// use says what the use of a row means for the audit log.
type use int

const (
	// plain is a change or a read, by the row's method.
	plain use = iota
	// reveals reads what opens a host or a cluster.
	reveals
	// opens is a way in that lasts, with an entry at its begin and one at its end.
	opens
	// passes hands a request on: it lasts where it is a watch or becomes a connection.
	passes
	// checks reads, with any method.
	checks
)

// Reveals marks a row that only reads and gives away what opens a host or a cluster.
func (a Access) Reveals() Access { a.use = reveals; return a }

// Opens marks a row that is a way into a host or a cluster for as long as the request lasts.
func (a Access) Opens() Access { a.use = opens; return a }

// Passes marks a row that hands requests on to a cluster.
func (a Access) Passes() Access { a.use = passes; return a }

// WayIn says whether each use of a row is recorded as one of a way into a host or a cluster, though it may only read.
func (a Access) WayIn() bool { return a.use != plain && a.use != checks }

// Concern names what a request is about where its path does not: the objects of a body, or what was made.
func (c *Call) Concern(objects ...string) { c.objects = append(c.objects, objects...) }

// Concerned says whether something was named.
func Concerned(c *Call) bool { return len(c.objects) > 0 }

// Carried reports how much a connection has carried that the request has become, in bytes from and to the client.
func (c *Call) Carried(in, out int64) { c.in, c.out = in, out }

// trail is the entry of one request on its way.
type trail struct {
	log   *audit.Log
	call  *Call
	row   Row
	class audit.Class
	began time.Time
	id    string
	body  *copied
	lasts bool
	// handedOn says that the API was asked for the same, which is recorded as what it is.
	handedOn bool
}

// follow begins the entry of a request whose row is found. c.W records the status from then on.
func (t *Table) follow(c *Call, row *compiled) *trail {
	log := t.env.Audit
	if log == nil || row.Access.rule == open && isRead(c.Method) || row.Access.Credential == NoCredential {
		return nil // what is public says nothing of a user
	}
	f := &trail{log: log, call: c, row: row.Row, began: t.env.Now(), class: classOf(c, row)}
	if log.Level() >= audit.Bodies && f.class == audit.Change && row.Access.use != passes && c.R.Body != nil {
		f.body = &copied{ReadCloser: c.R.Body}
		c.R.Body = f.body
	}
	f.lasts = row.Access.use == opens || row.Access.use != plain && lasts(c.R)
	return f
}

func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// classOf is what sort of a request it is. Agents ask by a credential of their own; so do people with a
// token who use what is the agents'.
func classOf(c *Call, row *compiled) audit.Class {
	switch {
	case row.Access.rule == own && c.Who.UserID == "":
		return audit.Agent
	case row.Access.use == checks:
		return audit.Read
	case row.Access.WayIn():
		return audit.WayIn
	case !isRead(c.Method):
		return audit.Change
	}
	return audit.Read
}

// lasts says whether a request goes on for as long as its client likes.
func lasts(r *http.Request) bool {
	q := r.URL.Query()
	on := func(name string) bool { v := q.Get(name); return v == "true" || v == "1" }
	return r.Header.Get("Upgrade") != "" || strings.Contains(r.Header.Get("Accept"), "text/event-stream") || on("watch") || on("follow")
}

// begin writes the entry at the begin of a request that lasts, once the caller is let in.
func (f *trail) begin() {
	if f == nil || !f.lasts {
		return
	}
	f.id = f.log.NewID()
	e := f.entry()
	e.Stage = audit.Begin
	f.log.Record(f.class, e)
}

// end writes the entry of a request that is over.
func (f *trail) end(w *statusRecorder) {
	if f == nil || f.handedOn {
		return
	}
	e := f.entry()
	e.Status, e.Millis, e.BytesIn, e.BytesOut = w.status, f.call.env.Now().Sub(f.began).Milliseconds(), f.call.in, max(f.call.out, w.sent)
	if e.Stage = ""; f.id != "" {
		e.Stage = audit.End
	}
	if f.body != nil && f.log.Level() >= audit.Bodies {
		e.Body = audit.Masked(f.body.kept.Bytes(), e.Kind)
	}
	f.log.Record(f.class, e)
}

// entry is what is known of a request now.
func (f *trail) entry() audit.Entry {
	c := f.call
	e := audit.Entry{
		ID: f.id, Time: f.began, User: c.Who.UserID, Username: c.Who.Username, Token: c.Who.TokenName, Source: c.Source(),
		Verb: string(f.row.Access.Verb), Kind: string(f.row.Access.Kind), Object: c.object(), Method: c.Method, Path: pathOf(c.R, f.row), Query: shown(c.R), Code: c.code,
	}
	if e.Verb == "" {
		e.Verb = strings.ToLower(c.Method)
		if verb, ok := verbs[c.Method]; ok {
			e.Verb = string(verb)
		}
	}
	if e.Kind == "" && f.row.Access.rule == own {
		e.Kind = "agent"
	}
	if f.row.Access.use == passes {
		e.As = short(c.R.Header.Get("Impersonate-User"))
	}
	if e.User == "" {
		e.Token = c.env.Auth.Named(c.R)
	}
	return e
}

// verbs of rows that name none.
var verbs = map[string]auth.Verb{http.MethodPost: auth.Create, http.MethodPut: auth.Update, http.MethodPatch: auth.Patch, http.MethodDelete: auth.Remove}

// object is what the path names, or what the handler does.
func (c *Call) object() string {
	if len(c.objects) > 0 {
		return short(strings.Join(c.objects, ","))
	}
	var names []string
	for _, p := range c.parameters {
		if !slices.Contains([]string{"rest", "link", "schema"}, p.name) {
			names = append(names, p.segments...)
		}
	}
	return short(strings.Join(names, "/"))
}

// pathOf is the path of a request. One in which a token can be is that of the row.
func pathOf(r *http.Request, row Row) string {
	if strings.HasPrefix(row.Pattern, "/v3/import/") {
		return row.Pattern
	}
	return short(r.URL.EscapedPath())
}

// short bounds what clients choose freely.
func short(s string) string {
	const most = 512
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// harmless are the parameters that are recorded. What is run in a container is none of them: command lines have
// passwords in them.
var harmless = []string{
	"action", "agent", "cluster", "container", "dryRun", "follow", "force", "limit", "machine", "now", "noSnapshot",
	"queue", "replace", "rotate", "tail", "target", "uninstall", "unit", "watch",
}

func shown(r *http.Request) map[string]string {
	var found map[string]string
	for name, values := range r.URL.Query() {
		if slices.Contains(harmless, name) && len(values) > 0 && values[0] != "" {
			if found == nil {
				found = map[string]string{}
			}
			found[name] = values[0][:min(len(values[0]), 128)]
		}
	}
	return found
}

// copied keeps the begin of a body while it is read.
type copied struct {
	io.ReadCloser
	kept bytes.Buffer
}

func (b *copied) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	// One byte more than is recorded shows that there is more.
	b.kept.Write(p[:min(n, max(0, audit.MaxBody+1-b.kept.Len()))])
	return n, err
}

// statusRecorder remembers the status for the log of changes, and what was sent.
type statusRecorder struct {
	http.ResponseWriter
	status  int
	sent    int64
	upgrade bool // the request asks to become a connection
}

func record(w http.ResponseWriter, r *http.Request) *statusRecorder {
	return &statusRecorder{ResponseWriter: w, status: http.StatusOK, upgrade: r.Header.Get("Upgrade") != ""}
}

func (w *statusRecorder) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusRecorder) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.sent += int64(n)
	return n, err
}

// Hijack gives the connection away, which is an answer, too.
func (w *statusRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil && w.upgrade {
		w.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// Unwrap lets http.ResponseController reach what is below: websockets, watches.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
