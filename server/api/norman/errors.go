// The one form in which errors are answered.

package norman

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"
)

// Codes of errors that clients know.
const (
	Unauthorized       = "Unauthorized"
	PermissionDenied   = "PermissionDenied"
	NotFound           = "NotFound"
	ActionNotAvailable = "ActionNotAvailable"
	MethodNotAllow     = "MethodNotAllow" // spelled so on the wire
	Conflict           = "Conflict"
	AlreadyExists      = "AlreadyExists"
	MissingRequired    = "MissingRequired"
	InvalidFormat      = "InvalidFormat"
	InvalidOption      = "InvalidOption"
	InvalidReference   = "InvalidReference"
	InvalidBodyContent = "InvalidBodyContent"
	InvalidCharacters  = "InvalidCharacters"
	NotUnique          = "NotUnique"
	InvalidType        = "InvalidType"
	MaxLengthExceeded  = "MaxLengthExceeded"
	InvalidState       = "InvalidState"
	InvalidAction      = "InvalidAction"
	InvalidCSRFToken   = "InvalidCSRFToken"
	MinLimitExceeded   = "MinLimitExceeded"
	MaxLimitExceeded   = "MaxLimitExceeded"
	TooLarge           = "RequestEntityTooLarge"
	TooManyRequests    = "TooManyRequests"
	ServerError        = "ServerError"
	ClusterUnavailable = "ClusterUnavailable"
)

// Error is an answer that is an error: status and code for programs, a sentence for people.
type Error struct {
	Status  int
	Code    string
	Field   string // the field that is wrong, or ""
	Message string
	// RetryAfter becomes the header of that name when it is not zero.
	RetryAfter time.Duration
	// Details are further top-level keys of the body, for drover's own requests.
	Details map[string]any
}

func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Message
	}
	return e.Message
}

// MarshalJSON writes the error's envelope.
func (e *Error) MarshalJSON() ([]byte, error) {
	body := map[string]any{"type": "error", "baseType": "error", "status": e.Status, "code": e.Code, "message": e.Message}
	if e.Field != "" {
		body["fieldName"] = e.Field
	}
	maps.Copy(body, e.Details)
	return json.Marshal(body)
}

// Errorf makes an error without a field.
func Errorf(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Missing is the error for something that does not exist, or that the caller cannot see.
func Missing(what, id string) *Error {
	return Errorf(http.StatusNotFound, NotFound, "there is no %s %.200q", what, id)
}

// Invalid is a 422 about one field.
func Invalid(code, field, format string, args ...any) *Error {
	return &Error{Status: http.StatusUnprocessableEntity, Code: code, Field: field, Message: fmt.Sprintf(format, args...)}
}
