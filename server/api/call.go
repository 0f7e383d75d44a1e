// One request on its way through the API, and the errors that it may end in.

package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/strictyaml"
)

// call is one request.
type call struct {
	api    *API
	w      http.ResponseWriter
	r      *http.Request
	method string // after overrides
	who    auth.Identity
	urls   norman.URLs
	limit  int64 // of the body, in bytes

	// kind, id and object are set for requests to one type or resource of /v3. The object
	// is as it was when the request came.
	kind   *kind
	id     string
	object norman.Object
}

func (c *call) ctx() context.Context { return c.r.Context() }

func (c *call) query() url.Values { return c.r.URL.Query() }

// effectiveMethod lets a POST say that it means another method, for clients that can
// send no others. Nothing else can: a GET must never change anything.
func (c *call) effectiveMethod() string {
	if c.r.Method != http.MethodPost {
		return c.r.Method
	}
	switch m := strings.ToUpper(c.query().Get("_method")); m {
	case http.MethodPut, http.MethodDelete:
		return m
	}
	return http.MethodPost
}

// authenticate finds out who asks; it has answered when it returns false.
func (c *call) authenticate() bool {
	who, err := c.api.Auth.Authenticate(c.r)
	switch {
	case errors.Is(err, auth.ErrForged):
		c.fail(norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidCSRFToken, "%v", err))
		return false
	case errors.Is(err, auth.ErrOrigin):
		c.fail(norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "%v", err))
		return false
	case err != nil:
		c.fail(norman.Errorf(http.StatusUnauthorized, norman.Unauthorized, "%v", auth.ErrUnauthenticated))
		return false
	case who.ClusterID != "":
		c.fail(norman.Errorf(http.StatusUnauthorized, norman.Unauthorized,
			"this token is limited to cluster %s: it is good for /k8s/clusters/%s/ only", who.ClusterID, who.ClusterID))
		return false
	}
	c.who = who
	c.warnOfExpiry()
	return true
}

// expirySoon is when a token's end is worth a warning.
const expirySoon = 7 * 24 * time.Hour

func (c *call) warnOfExpiry() {
	if left := c.who.Expires.Sub(c.api.Now()); !c.who.Expires.IsZero() && !c.who.Session && left < expirySoon {
		c.warn("the token " + c.who.TokenName + " ends at " + c.who.Expires.UTC().Format(time.RFC3339))
	}
}

// warn adds a warning that people see in clients that show it.
func (c *call) warn(text string) {
	c.w.Header().Add("Warning", "299 drover "+strconv.Quote(text))
}

// input reads the body and names in a header the fields that the type does not have.
func (c *call) input(schema norman.Schema) (norman.Input, error) {
	in, err := norman.ReadInput(c.w, c.r, c.limit)
	if err != nil {
		return in, err
	}
	if ignored := schema.Ignored(in); len(ignored) > 0 {
		c.w.Header().Set("X-Drover-Ignored-Fields", headerSafe(strings.Join(ignored, ",")))
	}
	return in, nil
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

func (c *call) send(status int, value any) { c.api.reply.Send(c.w, c.r, status, value) }

// schemasAt says where the schemas of this answer are, which the client library needs.
func (c *call) schemasAt(path string) {
	c.w.Header().Set("X-API-Schemas", c.urls.Base+path+"/schemas")
}

// fail answers with an error.
func (c *call) fail(err error) {
	answer := envelope(err)
	if answer.Status >= http.StatusInternalServerError {
		say := c.api.Logger.Error
		if answer.Status == http.StatusServiceUnavailable {
			say = c.api.Logger.Warn // a host that is not connected is no fault of this server
		}
		say("request failed", "method", c.r.Method, "path", c.r.URL.EscapedPath(), "error", err)
	}
	c.api.reply.Fail(c.w, c.r, answer)
}

// envelope finds status and code of an error.
func envelope(err error) *norman.Error {
	if answer, ok := norman.AsError(err); ok {
		return answer
	}
	if bad, ok := errors.AsType[strictyaml.Errors](err); ok {
		return &norman.Error{
			Status: http.StatusUnprocessableEntity, Code: norman.InvalidBodyContent, Field: firstPath(bad),
			Message: bad.Error(), Details: map[string]any{"errors": bad},
		}
	}
	if _, ok := errors.AsType[*store.NotFoundError](err); ok {
		return norman.Errorf(http.StatusNotFound, norman.NotFound, "%v", err)
	}
	if _, ok := errors.AsType[*store.ExistsError](err); ok {
		return norman.Errorf(http.StatusConflict, norman.AlreadyExists, "%v", err)
	}
	if _, ok := errors.AsType[*store.ConflictError](err); ok {
		return norman.Errorf(http.StatusConflict, norman.Conflict, "%v", err)
	}
	if _, ok := errors.AsType[*clusters.RemovingError](err); ok {
		return norman.Errorf(http.StatusConflict, norman.Conflict, "%v", err)
	}
	if errors.Is(err, clusters.ErrNotUnique) {
		return norman.Invalid(norman.NotUnique, "name", "%v", err)
	}
	if e, ok := errors.AsType[*auth.TooManyError](err); ok {
		answer := norman.Errorf(http.StatusTooManyRequests, norman.TooManyRequests, "%v", err)
		answer.RetryAfter = e.RetryAfter
		return answer
	}
	if _, ok := errors.AsType[*settings.UnknownError](err); ok {
		return norman.Errorf(http.StatusNotFound, norman.NotFound, "%v", err)
	}
	if _, ok := errors.AsType[*settings.ReadOnlyError](err); ok {
		return norman.Errorf(http.StatusMethodNotAllowed, norman.MethodNotAllow, "%v", err)
	}
	if _, ok := errors.AsType[*settings.InvalidError](err); ok {
		return norman.Invalid(norman.InvalidFormat, "value", "%v", err)
	}
	return norman.Errorf(http.StatusInternalServerError, norman.ServerError, "the server failed: %v", err)
}

func firstPath(bad strictyaml.Errors) string {
	for _, e := range bad {
		if e.Path != "" {
			return e.Path
		}
	}
	return ""
}
