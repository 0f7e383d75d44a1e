// The errors that a request may end in.

package route

import (
	"errors"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/store"
)

// Envelope finds status and code of an error.
func Envelope(err error) *norman.Error {
	if answer, ok := norman.AsError(err); ok {
		return answer
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return norman.Errorf(int(status.ErrStatus.Code), string(status.ErrStatus.Reason), "%s", status.ErrStatus.Message)
	}
	if bad, ok := errors.AsType[strictyaml.Errors](err); ok {
		return &norman.Error{
			Status: http.StatusUnprocessableEntity, Code: norman.InvalidBodyContent, Field: firstPath(bad),
			Message: bad.Error(), Details: map[string]any{"errors": bad},
		}
	}
	for _, one := range spoken {
		if slices.ContainsFunc(one.are, func(is func(error) bool) bool { return is(err) }) {
			return norman.Errorf(one.status, one.code, "%v", err)
		}
	}
	if denied, ok := errors.AsType[*records.DeniedError](err); ok {
		return norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "%s", denied.Reason)
	}
	if bad, ok := errors.AsType[*records.UnkeepableError](err); ok {
		return norman.Invalid(norman.InvalidOption, bad.Field, "%s", bad.Reason)
	}
	if bad, ok := errors.AsType[*admission.InvalidError](err); ok {
		return norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidOption, "%s", bad.Reason)
	}
	if _, ok := errors.AsType[*records.NamespaceError](err); ok {
		return norman.Invalid(norman.InvalidOption, "namespace", "%v", err)
	}
	if errors.Is(err, records.ErrNotUnique) {
		return norman.Invalid(norman.NotUnique, "name", "%v", err)
	}
	if e, ok := errors.AsType[*auth.TooManyError](err); ok {
		answer := norman.Errorf(http.StatusTooManyRequests, norman.TooManyRequests, "%v", err)
		answer.RetryAfter = e.RetryAfter
		return answer
	}
	if e, ok := errors.AsType[*auth.BusyError](err); ok {
		answer := norman.Errorf(http.StatusServiceUnavailable, norman.TooManyRequests, "%v", err)
		answer.RetryAfter = e.RetryAfter
		return answer
	}
	if _, ok := errors.AsType[*settings.InvalidError](err); ok {
		return norman.Invalid(norman.InvalidFormat, "value", "%v", err)
	}
	return norman.Errorf(http.StatusInternalServerError, norman.ServerError, "the server failed: %v", err)
}

// spoken are errors that are answered by their own words. Those of a conflict say of a thing that it is not in a state for what was asked, or that
// another one is in the way of it.
var spoken = []struct {
	status int
	code   string
	are    []func(error) bool
}{
	{http.StatusNotFound, norman.NotFound, []func(error) bool{is[*store.NotFoundError], is[*settings.UnknownError]}},
	{http.StatusConflict, norman.AlreadyExists, []func(error) bool{is[*store.ExistsError]}},
	{http.StatusUnprocessableEntity, norman.InvalidOption, []func(error) bool{is[*records.LimitError]}},
	{http.StatusRequestEntityTooLarge, norman.InvalidOption, []func(error) bool{is[*store.TooLargeError]}},
	{http.StatusMethodNotAllowed, norman.MethodNotAllow, []func(error) bool{is[*settings.ReadOnlyError]}},
	{http.StatusConflict, norman.Conflict, []func(error) bool{
		is[*store.ConflictError], is[*records.ChangedError], is[*records.LastMemberError], is[*records.RemovingError], is[*records.InUseError],
		is[*records.ExportedError], is[*records.RefusedError],
		is[*operations.RefusedError], is[*operations.BusyError], is[*operations.QueueFullError], is[*operations.TransitionError],
	}},
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

func firstPath(bad strictyaml.Errors) string {
	for _, e := range bad {
		if e.Path != "" {
			return e.Path
		}
	}
	return ""
}

func nothingAt(r *http.Request) error {
	return norman.Errorf(http.StatusNotFound, norman.NotFound, "there is nothing at %.200s", r.URL.Path)
}
