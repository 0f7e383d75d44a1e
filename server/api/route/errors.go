// The errors that a request may end in.

package route

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/references"
	"github.com/drover-project/drover/server/rke"
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
	if _, ok := errors.AsType[*store.NotFoundError](err); ok {
		return norman.Errorf(http.StatusNotFound, norman.NotFound, "%v", err)
	}
	if _, ok := errors.AsType[*store.ExistsError](err); ok {
		return norman.Errorf(http.StatusConflict, norman.AlreadyExists, "%v", err)
	}
	if _, ok := errors.AsType[*store.ConflictError](err); ok {
		return norman.Errorf(http.StatusConflict, norman.Conflict, "%v", err)
	}
	if _, ok := errors.AsType[*clusters.ChangedError](err); ok {
		return norman.Errorf(http.StatusConflict, norman.Conflict, "%v", err)
	}
	if _, ok := errors.AsType[*clusters.LimitError](err); ok {
		return norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidOption, "%v", err)
	}
	if _, ok := errors.AsType[*clusters.LastMemberError](err); ok {
		return norman.Errorf(http.StatusConflict, norman.Conflict, "%v", err)
	}
	if _, ok := errors.AsType[*clusters.RemovingError](err); ok {
		return norman.Errorf(http.StatusConflict, norman.Conflict, "%v", err)
	}
	if _, ok := errors.AsType[*references.InUseError](err); ok {
		return norman.Errorf(http.StatusConflict, norman.Conflict, "%v", err)
	}
	if denied, ok := errors.AsType[*references.DeniedError](err); ok {
		return norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "%s", denied.Reason)
	}
	if bad, ok := errors.AsType[*references.InvalidError](err); ok {
		return norman.Invalid(norman.InvalidOption, bad.Field, "%s", bad.Reason)
	}
	if _, ok := errors.AsType[*records.ExportedError](err); ok {
		return norman.Errorf(http.StatusConflict, norman.Conflict, "%v", err)
	}
	if _, ok := errors.AsType[*rke.RefusedError](err); ok {
		return norman.Errorf(http.StatusConflict, norman.Conflict, "%v", err)
	}
	if operationRefused(err) {
		return norman.Errorf(http.StatusConflict, norman.Conflict, "%v", err)
	}
	if _, ok := errors.AsType[*clusters.NamespaceError](err); ok {
		return norman.Invalid(norman.InvalidOption, "namespace", "%v", err)
	}
	if errors.Is(err, clusters.ErrNotUnique) {
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

// operationRefused says that an operation is not in a state for what was asked, or in the way of it.
func operationRefused(err error) bool {
	_, refused := errors.AsType[*operations.RefusedError](err)
	_, busy := errors.AsType[*operations.BusyError](err)
	_, full := errors.AsType[*operations.QueueFullError](err)
	_, transition := errors.AsType[*operations.TransitionError](err)
	return refused || busy || full || transition
}

func firstPath(bad strictyaml.Errors) string {
	for _, e := range bad {
		if e.Path != "" {
			return e.Path
		}
	}
	return ""
}
