// Errors in the form of Kubernetes, which its clients act on.

package route

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/api/norman"
)

// SendStatus answers with an error in the form of Kubernetes.
func SendStatus(w http.ResponseWriter, status metav1.Status) {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache, private")
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	w.WriteHeader(int(status.Code))
	// The status line is out; a client that is gone is its own business.
	_ = json.NewEncoder(w).Encode(status)
}

// StatusOf is an error for clients of Kubernetes; answer is the same in the words of the other surfaces.
func StatusOf(err error, answer *norman.Error) metav1.Status {
	if known, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return known.ErrStatus
	}
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: int32(answer.Status), Reason: reasonOf(answer.Status), Message: answer.Message, // #nosec G115 -- an HTTP status
	}
	if answer.Field != "" {
		status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: answer.Field, Message: answer.Message}}}
	}
	return status
}

// reasonOf is the word for programs that belongs to a status.
func reasonOf(status int) metav1.StatusReason {
	switch status {
	case http.StatusUnauthorized:
		return metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusMethodNotAllowed:
		return metav1.StatusReasonMethodNotAllowed
	case http.StatusConflict:
		return metav1.StatusReasonConflict
	case http.StatusGone:
		return metav1.StatusReasonExpired
	case http.StatusRequestEntityTooLarge:
		return metav1.StatusReasonRequestEntityTooLarge
	case http.StatusUnsupportedMediaType:
		return metav1.StatusReasonUnsupportedMediaType
	case http.StatusUnprocessableEntity:
		return metav1.StatusReasonInvalid
	case http.StatusTooManyRequests:
		return metav1.StatusReasonTooManyRequests
	case http.StatusInternalServerError:
		return metav1.StatusReasonInternalError
	case http.StatusServiceUnavailable:
		return metav1.StatusReasonServiceUnavailable
	}
	return metav1.StatusReasonBadRequest
}
