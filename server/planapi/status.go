// Refusals, in the form that Kubernetes clients act on.

package planapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/auth"
)

// failure is an answer that is a Kubernetes Status: code and reason for programs, a
// sentence for people.
type failure struct {
	code    int
	reason  metav1.StatusReason
	message string
	// retryAfter in seconds becomes the header of that name when it is not zero.
	retryAfter int32
	// name is the Secret that is meant, when it is one.
	name string
}

func (e *failure) Error() string { return e.message }

func fail(code int, reason metav1.StatusReason, format string, args ...any) *failure {
	return &failure{code: code, reason: reason, message: fmt.Sprintf(format, args...)}
}

func (e *failure) about(name string) *failure {
	e.name = name
	return e
}

func (e *failure) status() metav1.Status {
	s := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Message:  e.message,
		Reason:   e.reason,
		Code:     int32(e.code), // #nosec G115 -- an HTTP status
	}
	if e.name != "" || e.retryAfter > 0 {
		s.Details = &metav1.StatusDetails{Name: e.name, RetryAfterSeconds: e.retryAfter}
		if e.name != "" {
			s.Details.Kind = "secrets"
		}
	}
	return s
}

// refuse answers with the error; what is not a failure is the server's own fault.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var f *failure
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		sendJSON(w, int(status.ErrStatus.Code), status.ErrStatus)
		return
	}
	if !errors.As(err, &f) {
		if !errors.Is(err, context.Canceled) {
			a.log.Error("plan API request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		}
		f = fail(http.StatusInternalServerError, metav1.StatusReasonInternalError, "the server could not do this; its log says why")
		if errors.Is(err, context.DeadlineExceeded) {
			f = fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the server's store does not answer; try again")
			f.retryAfter = 5
		}
	}
	if f.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.retryAfter)))
	}
	sendJSON(w, f.code, f.status())
}

// sendJSON answers with a value.
func sendJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		code, body = http.StatusInternalServerError, []byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"InternalError","code":500}`)
	}
	sendBytes(w, code, append(body, '\n'))
}

// sendBytes answers with JSON. No client is left to notify when the client has gone.
func sendBytes(w http.ResponseWriter, code int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache, private")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

func unauthorized() *failure {
	return fail(http.StatusUnauthorized, metav1.StatusReasonUnauthorized,
		"Unauthorized: this token is neither a machine's nor an administrator's; a host gets a new one by running its join command again")
}

func refused(format string, args ...any) *failure {
	return fail(http.StatusForbidden, metav1.StatusReasonForbidden, format, args...)
}

func forbidden(what string) *failure {
	return fail(http.StatusForbidden, metav1.StatusReasonForbidden, "a machine's token reads, watches and updates the machine's own plan Secret only, not %s", what)
}

func notFound(name string) *failure {
	return fail(http.StatusNotFound, metav1.StatusReasonNotFound, "secrets %q not found", name).about(name)
}

func expired(format string, args ...any) *failure {
	return fail(http.StatusGone, metav1.StatusReasonExpired, format, args...)
}

func conflict(name string, sent string, current int64) *failure {
	return fail(http.StatusConflict, metav1.StatusReasonConflict,
		"Operation cannot be fulfilled on secrets %q: it is at resourceVersion %d and not at %s; read it again and apply your changes to that", name, current, sent).about(name)
}

func badRequest(format string, args ...any) *failure {
	return fail(http.StatusBadRequest, metav1.StatusReasonBadRequest, format, args...)
}

func invalid(name, format string, args ...any) *failure {
	return fail(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "Secret %q is invalid: %s", name, fmt.Sprintf(format, args...)).about(name)
}

func methodNotAllowed(r *http.Request, instead string) *failure {
	return fail(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "%s is not possible here: %s", r.Method, instead)
}

// unknown answers for all of /api/v1 that is not served.
func (a *API) unknown(_ http.ResponseWriter, r *http.Request) error {
	who, err := a.caller(r)
	switch {
	case err != nil:
		return err
	case !may(who, auth.List, ""):
		return forbidden(r.URL.Path)
	}
	return fail(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource: this is drover and not Kubernetes, it serves Secrets only")
}
