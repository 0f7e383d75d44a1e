// Package route holds what a table of routes is made of: a row is a path with its
// methods, the access that it needs and its handler. Table serves requests by it. A
// handler is reached only by a caller whom the row lets in, and what has no row is not
// served.
//
// It also holds the request on its way through a handler (Call) and the form in which
// errors are answered, so that all surfaces of the API have the same.
package route

import (
	"net/http"
	"strings"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/traces"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Row is one route.
type Row struct {
	// Method is one HTTP method, or "*" for all of them. GET serves HEAD, too.
	Method string
	// Pattern is a path. "{name}" matches one segment, "{name...}" at the end all that
	// follow, at least one; fixed segments match in any case, and the name of a type, which
	// is a plural, also without its last s. "?action=NAME" narrows a POST to that action.
	Pattern string
	Access  Access
	Serve   Handler
}

// Handler does what a request asks for. An Answer without a status has been sent by the
// handler itself; errors are answered as Call.Fail says.
type Handler func(*Call) (Answer, error)

// Of serves requests about what the path names, which find finds for those who may do with it what the row is for.
func Of[T any](find func(*Call) (T, error), serve func(*Call, T) (Answer, error)) Handler {
	return func(c *Call) (Answer, error) {
		one, err := find(c)
		if err != nil {
			return Answer{}, err
		}
		return serve(c, one)
	}
}

// Answer is what a handler gives back: a body, sent as it is, or nil for none.
type Answer struct {
	Status int
	Body   any
}

// rule says how a row finds out who asks and whether they may.
type rule int

const (
	open rule = iota
	own
	leaving
	login
	anyone
	may
	hidden
	object
	scoped
	kubernetes
)

// Access is what a row needs.
type Access struct {
	rule rule
	// Verb and Kind are what auth.May is asked, where it is asked.
	Verb auth.Verb
	Kind auth.Kind
	// Credential is what the handler itself asks for; see Own.
	Credential string

	use  use // for the audit log
	page bool
}

// Open is for everybody; no credential is looked at.
func Open() Access { return Access{rule: open} }

// NoCredential is the credential of protocols that ask for none.
const NoCredential = "none"

// Own is for protocols with a credential of their own, which the handler checks and
// refuses in the protocol's own words; credential names it.
func Own(credential string) Access { return Access{rule: own, Credential: credential} }

// Login is for everybody who is logged in.
func Login() Access { return Access{rule: login} }

// Leaving is Login, but a client that asks by the cookie of a session that is over gets the answer that
// all is well: to log out again is not an error.
func Leaving() Access { return Access{rule: leaving} }

// For names what the access is to, for the schemas that are made of the table.
func (a Access) For(verb auth.Verb, kind auth.Kind) Access {
	a.Verb, a.Kind = verb, kind
	return a
}

// Anyone asks May about the object that the path's {id} names, also for callers who are not
// logged in.
func Anyone(verb auth.Verb, kind auth.Kind) Access {
	return Access{rule: anyone, Verb: verb, Kind: kind}
}

// May asks whether a user may do it to an object of the kind at any place; others get 403. Of
// objects that are in clusters the handler asks May about each.
func May(verb auth.Verb, kind auth.Kind) Access { return Access{rule: may, Verb: verb, Kind: kind} }

// Hidden is May, but others get 404, as if the path did not exist.
func Hidden(verb auth.Verb, kind auth.Kind) Access {
	return Access{rule: hidden, Verb: verb, Kind: kind}
}

// Object is for everybody who is logged in; the handler asks May about the object.
func Object(verb auth.Verb, kind auth.Kind) Access {
	return Access{rule: object, Verb: verb, Kind: kind}
}

// Scoped is Object, and tokens that are limited to a cluster are let in, too. Refusals
// have the form of Kubernetes.
func Scoped(verb auth.Verb, kind auth.Kind) Access {
	return Access{rule: scoped, Verb: verb, Kind: kind}
}

// Kubernetes is Object whose refusals have the form of Kubernetes.
func Kubernetes(verb auth.Verb, kind auth.Kind) Access {
	return Access{rule: kubernetes, Verb: verb, Kind: kind}
}

// KubernetesLogin is Login whose refusals have the form of Kubernetes.
func KubernetesLogin() Access { return Access{rule: kubernetes} }

// Checks marks a row that looks at what it is sent, and changes nothing.
func (a Access) Checks() Access { a.use = checks; return a }

// Page says that refusals are pages for people, by Env.Refuse.
func (a Access) Page() Access { a.page = true; return a }

// asStatus says that refusals have the form of Kubernetes.
func (a Access) asStatus() bool { return a.rule == scoped || a.rule == kubernetes }

// String names the access in documentation.
func (a Access) String() string {
	what := string(a.Verb) + " " + string(a.Kind)
	if a == KubernetesLogin() {
		return "any user"
	}
	switch a.rule {
	case open:
		return "open"
	case own:
		return a.Credential
	case login, leaving:
		return "any user"
	case anyone:
		return what + ", also without login where it is open"
	case may, hidden:
		return what
	case object, kubernetes:
		return what + ", by object"
	case scoped:
		return what + ", by object; also tokens of one cluster"
	}
	return "unknown"
}

// pattern is a compiled Row.Pattern.
type pattern struct {
	segments []string // fixed ones in lower case, names in braces
	rest     bool     // the last one matches all that follow
	action   string
}

func compile(text string) pattern {
	path, action, _ := strings.Cut(text, "?action=")
	var p pattern
	p.action = action
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" {
			continue
		}
		if name, ok := strings.CutSuffix(segment, "...}"); ok {
			segment, p.rest = name+"}", true
		}
		if segment[0] != '{' {
			segment = strings.ToLower(segment)
		}
		p.segments = append(p.segments, segment)
	}
	return p
}

// match finds the path's parameters.
func (p *pattern) match(path []string) (parameters, bool) {
	if len(path) < len(p.segments) || len(path) > len(p.segments) && !p.rest {
		return nil, false
	}
	var found parameters
	for i, segment := range p.segments {
		switch {
		case segment[0] == '{' && p.rest && i == len(p.segments)-1:
			found = append(found, parameter{segment[1 : len(segment)-1], path[i:]})
		case segment[0] == '{':
			found = append(found, parameter{segment[1 : len(segment)-1], path[i : i+1]})
		case !matches(segment, path[i], i):
			return nil, false
		}
	}
	return found, true
}

// matches compares a fixed segment; the second of a path may be the singular of its type.
func matches(fixed, given string, at int) bool {
	return strings.EqualFold(fixed, given) || at > 0 && strings.EqualFold(strings.TrimSuffix(fixed, "s"), given)
}

// parameter is a part of the path that a pattern names.
type parameter struct {
	name     string
	segments []string
}

type parameters []parameter

// methodOf is the method that a row is looked for by.
func methodOf(method string) string {
	if method == http.MethodHead {
		return http.MethodGet
	}
	return method
}

// traced follows the request until its answer is sent, in the trace that the client began or in one of its own; requests that last are not
// followed. A span has the row, never the path, which may hold a token.
func traced(c *Call, w *statusRecorder) (end func()) {
	if c.env.Tracer == nil || lasts(c.R) {
		return func() {}
	}
	ctx, span := c.env.Tracer.Start(traces.In(c.R.Context(), c.R.Header.Get("traceparent")), c.Row.Method+" "+c.Row.Pattern, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", c.Method), attribute.String("http.route", c.Row.Pattern),
	))
	c.R = c.R.WithContext(ctx)
	return func() {
		span.SetAttributes(attribute.Int("http.response.status_code", w.status), attribute.String("user.id", c.Who.UserID))
		if w.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
