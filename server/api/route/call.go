// One request on its way through a handler.

package route

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
)

// Call is one request.
type Call struct {
	W http.ResponseWriter
	R *http.Request
	// Method is the request's, after overrides.
	Method string
	// Who asks; the zero Identity where no login is needed.
	Who auth.Identity
	// Before is who they were when they were last shown something, in an answer that goes on.
	Before auth.Identity
	URLs   norman.URLs
	// Limit of the body, in bytes.
	Limit int64
	// Row is the route that serves the request.
	Row *Row

	env        *Env
	parameters parameters

	// For the audit log.
	trail   *trail
	code    string   // of the error that was answered
	objects []string // see Concern
	in, out int64    // see Carried
}

// Params are the segments of a part of the path that the pattern names.
func (c *Call) Params(name string) []string {
	i := slices.IndexFunc(c.parameters, func(p parameter) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return c.parameters[i].segments
}

// Param is Params joined by slashes, "" for none.
func (c *Call) Param(name string) string { return strings.Join(c.Params(name), "/") }

// Source is the address of the client.
func (c *Call) Source() string { return c.env.Origin.Source(c.R) }

// Ctx is the context of the request, which names the caller to quotas.
func (c *Call) Ctx() context.Context { return c.R.Context() }

// Bind ends the request's context when the caller's token ends, or the caller may no longer do
// to the object what the row is for, until stop is called; for requests that go on for as long as
// the caller likes.
func (c *Call) Bind(o auth.Object) (stop func()) {
	ctx, cancel := context.WithCancel(c.Ctx())
	release := c.env.Auth.Until(c.Who, func(now auth.Identity) bool { return auth.May(now, c.Row.Access.Verb, o) }, cancel)
	c.R = c.R.WithContext(ctx)
	return func() { release(); cancel() }
}

// Query is what follows the path.
func (c *Call) Query() url.Values { return c.R.URL.Query() }

// effectiveMethod lets a POST say that it means another method, for clients that can
// send no others. Nothing else can: a GET must never change anything.
func (c *Call) effectiveMethod() string {
	if c.R.Method != http.MethodPost {
		return c.R.Method
	}
	switch m := strings.ToUpper(c.Query().Get("_method")); m {
	case http.MethodPut, http.MethodDelete:
		return m
	}
	return http.MethodPost
}

// expirySoon is when a token's end is worth a warning.
const expirySoon = 7 * 24 * time.Hour

func (c *Call) warnOfExpiry() {
	if left := c.Who.Expires.Sub(c.env.Now()); !c.Who.Expires.IsZero() && !c.Who.Session && left < expirySoon {
		c.Warn("the token " + c.Who.TokenName + " ends at " + c.Who.Expires.UTC().Format(time.RFC3339))
	}
}

// Warn adds a warning that people see in clients that show it.
func (c *Call) Warn(text string) {
	c.W.Header().Add("Warning", "299 drover "+strconv.Quote(text))
}

// Input reads the body and names in a header the fields that the type does not have. The errors are those of norman.ReadInput.
func (c *Call) Input(schema norman.Schema) (norman.Input, error) {
	in, err := norman.ReadInput(c.W, c.R, c.Limit)
	if err != nil {
		return in, err
	}
	if ignored := schema.Ignored(in, c.Method == http.MethodPost); len(ignored) > 0 {
		c.W.Header().Set("X-Drover-Ignored-Fields", headerSafe(strings.Join(ignored, ",")))
	}
	return in, nil
}

// JSON is Input for routes that are open to everybody: the body is JSON with any content type
// says, and YAML and forms are refused, which take more to read.
func (c *Call) JSON(schema norman.Schema) (norman.Input, error) {
	kind, _, _ := strings.Cut(c.R.Header.Get("Content-Type"), ";")
	if kind = strings.ToLower(strings.TrimSpace(kind)); strings.Contains(kind, "yaml") || strings.HasPrefix(kind, "multipart/") {
		return norman.Input{}, norman.Errorf(http.StatusUnsupportedMediaType, norman.InvalidType, "the body is %.80q, but must be application/json", kind)
	}
	c.R.Header.Set("Content-Type", "application/json")
	return c.Input(schema)
}

// headerSafe is a short text without what a header cannot hold.
func headerSafe(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), 512)]
}

// Send answers with a value.
func (c *Call) Send(status int, value any) { c.env.reply.Send(c.W, c.R, status, value) }

// SchemasAt says where the schemas of this answer are, which the client library needs.
func (c *Call) SchemasAt(path string) {
	c.W.Header().Set("X-API-Schemas", c.URLs.Base+path+"/schemas")
}

// Fail answers with an error.
func (c *Call) Fail(err error) {
	answer := Envelope(err)
	c.code = string(answer.Code)
	if answer.Status >= http.StatusInternalServerError {
		say := c.env.Logger.Error
		if answer.Status == http.StatusServiceUnavailable {
			say = c.env.Logger.Warn // a host that is not connected is not a fault of this server
		}
		say("request failed", "method", c.R.Method, "path", c.R.URL.EscapedPath(), "error", err)
	}
	if c.Row != nil && c.Row.Access.asStatus() {
		SendStatus(c.W, StatusOf(err, answer))
		return
	}
	if c.Row != nil && c.Row.Access.page && c.env.Refuse != nil {
		c.env.Refuse(c, answer)
		return
	}
	c.env.reply.Fail(c.W, c.R, answer)
}

// SendTagged answers with a value that seldom changes.
func (c *Call) SendTagged(value any) { c.env.reply.SendTagged(c.W, c.R, value) }

// SendPlain answers with JSON as it is, for clients of Kubernetes.
func (c *Call) SendPlain(status int, value any) {
	h := c.W.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache, private")
	c.W.WriteHeader(status)
	_ = json.NewEncoder(c.W).Encode(value) // a client that is gone is its own business
}
