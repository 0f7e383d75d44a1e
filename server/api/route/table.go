// Serving by the table: finding the row, and the order of the checks, which is
// authenticated, route and method, allowed; what is visible and whether the body is
// valid is the handler's part.

package route

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/quotas"
)

// Env is what all requests share.
type Env struct {
	Auth *auth.Auth
	// Origin finds the URL under which clients see the server.
	Origin norman.Origin
	Now    func() time.Time
	Logger *slog.Logger
	// Audit is the audit log; nil records nothing.
	Audit *audit.Log
	// CatchUp waits until this server knows all that was changed through others; nil where there are none.
	CatchUp func(context.Context) error
	// Tracer follows requests; nil follows none.
	Tracer trace.Tracer
	// Refuse answers for rows of pages with what is wrong; nil answers as all other rows do.
	Refuse func(*Call, *norman.Error)
	reply  norman.Replier
	table  *Table // for what pages ask
}

// Table serves requests by its rows.
type Table struct {
	rows  []compiled
	first map[string][]int // rows by their first segment in lower case, "" for any
	env   *Env
}

type compiled struct {
	Row
	pattern pattern
}

// NewTable makes a table. Of two rows that match the same path the first one serves it.
func NewTable(env *Env, rows []Row) *Table {
	t := &Table{env: env, first: map[string][]int{}}
	env.table = t
	for i, row := range rows {
		c := compiled{row, compile(row.Pattern)}
		t.rows = append(t.rows, c)
		first := ""
		if len(c.pattern.segments) > 0 && c.pattern.segments[0][0] != '{' {
			first = c.pattern.segments[0]
		}
		t.first[first] = append(t.first[first], i)
	}
	return t
}

// ServeHTTP serves a request by the row that it matches. It must not stand behind a
// http.ServeMux pattern, whose cleaning of paths destroys ids that hold an escaped slash.
func (t *Table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	c := &Call{W: w, R: r, URLs: t.env.Origin.URLs(r), Limit: norman.MaxBody, env: t.env}
	c.Method = c.effectiveMethod()
	path, err := norman.SplitPath(r.URL.EscapedPath())
	if err != nil {
		c.Fail(nothingAt(r))
		return
	}
	group := t.find(path.Segments, c)
	if len(group) == 0 {
		c.Fail(nothingAt(r))
		return
	}
	row := pick(group, c)
	recorder := record(w, r)
	c.W = recorder
	if row != nil && row.Access.rule == own {
		t.serveOwn(c, row, recorder)
		return
	}
	w.Header().Set(authHeader, "false")
	if isBrowser(r) {
		auth.EnsureForgeryCookie(c.W, r)
	}
	audited := row
	if row == nil {
		other := *group[0]
		other.Access.Verb = "" // the method says what was tried
		audited = &other
	}
	c.trail = t.follow(c, audited)
	defer func() { c.trail.end(recorder) }() // also of what panics, as a proxy does that loses its cluster
	if row == nil {
		t.refuse(c, group)
	} else {
		c.Row = &row.Row
		defer traced(c, recorder)()
		c.serve()
	}
	if c.Method != http.MethodGet && c.Method != http.MethodHead {
		t.env.Logger.Info("request", "method", c.Method, "path", r.URL.EscapedPath(), "status", recorder.status,
			"user", c.Who.UserID, "token", c.Who.TokenName, "source", c.Source())
	}
}

// protect has browsers take an answer for what its Content-Type says, and come back over TLS alone for a year.
func protect(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Strict-Transport-Security", "max-age=31536000")
}

// serveOwn serves a row that answers for itself. People come that way, too, as who they are.
func (t *Table) serveOwn(c *Call, row *compiled, w *statusRecorder) {
	if t.env.Audit != nil {
		if who, err := t.env.Auth.Authenticate(c.R); err == nil {
			asks(c, who)
		}
		trail := t.follow(c, row)
		defer func() { trail.end(w) }()
	}
	_, _ = row.Serve(c)
}

// authHeader says to dashboards whether the caller is logged in, so that they need not guess
// from a status. Wire source: rancher/rancher pkg/auth/requests.
const authHeader = "X-API-Cattle-Auth"

// NotFound is the handler of paths that only their surface is known of.
func NotFound(c *Call) (Answer, error) { return Answer{}, nothingAt(c.R) }

// find are the rows of the first pattern that the path matches.
func (t *Table) find(path []string, c *Call) []*compiled {
	first := ""
	if len(path) > 0 {
		first = strings.ToLower(path[0])
	}
	var group []*compiled
	for _, key := range []string{first, ""} {
		for _, i := range t.first[key] {
			row := &t.rows[i]
			if len(group) > 0 {
				if slices.Equal(row.pattern.segments, group[0].pattern.segments) && row.pattern.rest == group[0].pattern.rest {
					group = append(group, row)
				}
				continue
			}
			if found, ok := row.pattern.match(path); ok {
				c.parameters, group = found, append(group, row)
			}
		}
		if len(group) > 0 || key == "" {
			break
		}
	}
	return group
}

// pick is the row of the request's method and action; nil when there is none.
func pick(group []*compiled, c *Call) *compiled {
	action := ""
	if c.Method == http.MethodPost {
		action = c.Query().Get("action")
	}
	method := methodOf(c.Method)
	if action == "remove" {
		method, action = http.MethodDelete, ""
	}
	i := slices.IndexFunc(group, func(row *compiled) bool {
		return row.Method == "*" || row.Method == method && row.pattern.action == action
	})
	if i < 0 {
		return nil
	}
	return group[i]
}

// refuse answers for a path without the request's method or action, to those whom the path
// is for.
func (t *Table) refuse(c *Call, group []*compiled) {
	if group[0].Access.asStatus() || group[0].Access.page {
		c.Row = &group[0].Row
	}
	if rule := group[0].Access.rule; rule != open && rule != own && !c.authenticate(false) {
		return
	}
	seen := slices.ContainsFunc(group, func(row *compiled) bool {
		return row.Access.rule != hidden || auth.Somewhere(c.Who, row.Access.Verb, row.Access.Kind)
	})
	kind := cmp.Or(string(group[0].Access.Kind), "this path")
	switch action := c.Query().Get("action"); {
	case !seen:
		c.Fail(nothingAt(c.R))
	case c.Method == http.MethodPost && action != "":
		c.Fail(norman.Errorf(http.StatusNotFound, norman.ActionNotAvailable, "%s has no action %.80q", kind, action))
	default:
		c.Fail(norman.Errorf(http.StatusMethodNotAllowed, norman.MethodNotAllow, "%s is not possible here", c.Method))
	}
}

// serve checks the row's access and runs its handler.
func (c *Call) serve() {
	if c.Row.Access.page {
		auth.TakeProof(c.R)
	}
	if !c.admitted() {
		return
	}
	c.trail.begin()
	answer, err := c.Row.Serve(c)
	switch {
	case err != nil:
		c.Fail(err)
	case answer.Status == 0:
	case answer.Body != nil:
		c.Send(answer.Status, answer.Body)
	default:
		norman.Uncached(c.W.Header())
		c.W.WriteHeader(answer.Status)
	}
}

// admitted says whether the row lets the caller in; it has answered when it does not.
func (c *Call) admitted() bool {
	a := c.Row.Access
	switch a.rule {
	case open, own:
		return true
	case anyone:
		return c.admitAnyone()
	case leaving:
		return !c.loggedOutAlready() && c.authenticate(false)
	case login, object, kubernetes:
		return c.authenticate(false)
	case scoped:
		return c.authenticate(true)
	case may, hidden:
	}
	if !c.authenticate(false) {
		return false
	}
	if auth.Somewhere(c.Who, a.Verb, a.Kind) {
		return true
	}
	if a.rule == hidden {
		c.Fail(nothingAt(c.R))
		c.code = string(norman.PermissionDenied) // for the audit log, which knows better
	} else {
		c.Fail(c.Denied())
	}
	return false
}

// admitAnyone asks for a login only where there has to be one. A user who logs in sees what
// they may do with the object.
func (c *Call) admitAnyone() bool {
	o := auth.Object{Kind: c.Row.Access.Kind, Key: c.Param("id")}
	if auth.May(auth.Identity{}, c.Row.Access.Verb, o) {
		if who, err := c.env.Auth.Authenticate(c.R); err == nil && who.ClusterID == "" {
			asks(c, who)
			c.W.Header().Set(authHeader, "true")
		}
		return true
	}
	if !c.authenticate(false) {
		return false
	}
	if auth.May(c.Who, c.Row.Access.Verb, o) {
		return true
	}
	c.Fail(c.Denied())
	return false
}

// Denied is the error for a user who may not do what the row is for.
func (c *Call) Denied() error {
	if why := auth.Reserved(c.Row.Access.Verb, auth.Object{Kind: c.Row.Access.Kind, Key: c.Param("id")}); why != "" {
		return norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "user %s is not an administrator: %s", c.Who.Username, why)
	}
	return norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "user %s may not do %q with type %s", c.Who.Username, c.Row.Access.Verb, c.Row.Access.Kind)
}

// authenticate finds out who asks; it has answered when it returns false. A token that is
// limited to a cluster is let in where scoped is true.
func (c *Call) authenticate(scoped bool) bool {
	who, err := c.authenticated()
	switch {
	case errors.Is(err, auth.ErrForged):
		c.Fail(norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidCSRFToken, "%v", err))
	case errors.Is(err, auth.ErrOrigin):
		c.Fail(norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "%v", err))
	case errors.Is(err, auth.ErrCutOff):
		c.Fail(norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "%v", err))
	case err != nil:
		c.Fail(norman.Errorf(http.StatusUnauthorized, norman.Unauthorized, "%v", err))
	case auth.ActsAs(c.R) && c.Row.Access.use != passes:
		c.Fail(norman.Errorf(http.StatusForbidden, norman.PermissionDenied, auth.ActsAsRefusal))
	case who.ClusterID != "" && !scoped:
		c.Fail(norman.Errorf(http.StatusUnauthorized, norman.Unauthorized,
			"this token is limited to cluster %s: it is good for /k8s/clusters/%s/ only", who.ClusterID, who.ClusterID))
	default:
		asks(c, who)
		c.W.Header().Set(authHeader, "true")
		c.warnOfExpiry()
		noteUse(c)
		return true
	}
	return false
}

// noteUse notes the use of a token. A page that is open and asks for its stream again is not a use.
func noteUse(c *Call) {
	if c.Who.TokenName != "" && !strings.Contains(c.R.Header.Get("Accept"), "text/event-stream") {
		c.env.Auth.Uses.Note(c.Who.TokenName)
	}
}

// authenticated finds out who asks. A request that changes something is decided on all that other servers
// have changed, the caller's rights among it.
func (c *Call) authenticated() (auth.Identity, error) {
	who, err := c.env.Auth.Authenticate(c.R)
	if err != nil || c.Method == http.MethodGet || c.Method == http.MethodHead || c.env.CatchUp == nil {
		return who, err
	}
	if err := c.env.CatchUp(c.R.Context()); err != nil {
		c.env.Logger.Warn("a change is refused, since this server may be behind others", "path", c.R.URL.EscapedPath(), "error", err)
		return auth.Identity{}, auth.ErrCutOff
	}
	return c.env.Auth.Authenticate(c.R)
}

// StillAdmitted says whether the caller of a long answer may go on: the token is still good and no kind is lost. From then on Who is what the caller
// may do now, by which each thing that is shown is asked about. The errors are those of Authenticate, and auth.ErrUnauthenticated.
func (c *Call) StillAdmitted() error {
	who, err := c.env.Auth.Authenticate(c.R)
	if err != nil {
		return err
	}
	if auth.Lost(c.Who, who) {
		return auth.ErrUnauthenticated
	}
	c.Who = who
	return nil
}

// asks has a call come from a caller, whom the context of its request names to quotas from then on.
func asks(c *Call, who auth.Identity) {
	c.Who = who
	c.R = c.R.WithContext(quotas.By(c.R.Context(), who.UserID))
}

// Again asks for the caller and the access of the row once more, for answers that go on for as long as the client likes; unlike StillAdmitted it lets
// callers stay whose rights have changed. What Handlers ask May about they ask again. The errors are those of Authenticate, and a refusal of 403.
func Again(c *Call) error {
	who, err := c.env.Auth.Authenticate(c.R)
	if err != nil {
		return err
	}
	c.Who = who
	if a := c.Row.Access; (a.rule == may || a.rule == hidden) && !auth.Somewhere(who, a.Verb, a.Kind) {
		return c.Denied()
	}
	return nil
}

// loggedOutAlready answers a browser that logs out of a session that is over.
func (c *Call) loggedOutAlready() bool {
	cookie, err := c.R.Cookie(auth.SessionCookie)
	if err != nil || c.R.Header.Get("Authorization") != "" {
		return false
	}
	if _, err := c.env.Auth.Check(cookie.Value); err == nil {
		return false
	}
	auth.EndSession(c.W)
	norman.Uncached(c.W.Header())
	c.W.WriteHeader(http.StatusOK)
	return true
}

// isBrowser is how the peers distinguish pages from programs.
func isBrowser(r *http.Request) bool {
	return strings.Contains(strings.ToLower(r.UserAgent()), "mozilla") && strings.Contains(r.Header.Get("Accept"), "*/*")
}
