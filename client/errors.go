// What can go wrong with a request.

package client

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// What errors.Is finds in an *Error.
var (
	// ErrUnauthorized is a token that is missing, unknown, expired or revoked; ErrForbidden is a right that its user does not have.
	ErrUnauthorized = errors.New("unauthorized")
	ErrForbidden    = errors.New("forbidden")
	// ErrNotFound is also what the caller may not see.
	ErrNotFound = errors.New("not found")
	// ErrConflict is a thing that has changed meanwhile, or work that excludes what was asked for.
	ErrConflict = errors.New("conflict")
)

// Error is a refusal of the server.
type Error struct {
	// Status is that of HTTP, and Code a word for programs, such as InvalidOption.
	Status int    `json:"status"`
	Code   string `json:"code"`
	// Message is for people, and Field the field of the request that it is about; empty where it is about none.
	Message string `json:"message"`
	Field   string `json:"fieldName,omitempty"`
	// Details are the complaints about a document that was applied, a list of path, line and message each; empty without any.
	Details json.RawMessage `json:"errors,omitempty"`
	// Findings are what was found before an upgrade, a list of apitypes.UpgradeFinding; empty where there is none.
	Findings json.RawMessage `json:"findings,omitempty"`
	// RetryAfter is how long the server asks to be left alone; zero where it does not.
	RetryAfter time.Duration `json:"-"`
	// Server is the URL of the server.
	Server string `json:"-"`
}

// Error is the server's message.
func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return e.Message
}

// Is implements errors.Is.
func (e *Error) Is(target error) bool {
	switch e.Status {
	case http.StatusUnauthorized:
		return target == ErrUnauthorized
	case http.StatusForbidden:
		return target == ErrForbidden
	case http.StatusNotFound:
		return target == ErrNotFound
	case http.StatusConflict:
		return target == ErrConflict
	}
	return false
}

// ReachError is a server that cannot be reached.
type ReachError struct {
	Server string
	Err    error
}

// Error names the server and the reason.
func (e *ReachError) Error() string { return fmt.Sprintf("reach %s: %v", e.Server, e.Err) }

// Unwrap is the reason.
func (e *ReachError) Unwrap() error { return e.Err }

// TrustError is a server whose certificate is not trusted. Nothing was sent to it.
type TrustError struct {
	Server string
	Err    error
}

// Error names the server and the reason.
func (e *TrustError) Error() string {
	return fmt.Sprintf("the certificate of %s is not trusted (%v)", e.Server, e.Err)
}

// Unwrap is the reason.
func (e *TrustError) Unwrap() error { return e.Err }

// RedirectError is a server that answers with another address. The token is not sent there.
type RedirectError struct{ To string }

// Error names the address.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("it redirects to %.200q, and no redirect is followed with a token", e.To)
}

// failure is why a request got no answer.
func (c *sender) failure(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if trustFailed(err) {
		return &TrustError{c.config.Server, err}
	}
	return &ReachError{c.config.Server, err}
}

// trustFailed says that a request failed since the server's certificate is not trusted.
func trustFailed(err error) bool {
	var unknown x509.UnknownAuthorityError
	var verification *tls.CertificateVerificationError
	return errors.As(err, &unknown) || errors.As(err, &verification)
}

// refusal is what an answer that says no says.
func (c *sender) refusal(response *http.Response, answer []byte) error {
	e := &Error{}
	if json.Unmarshal(answer, e) != nil {
		e = &Error{Message: strings.TrimSpace(string(answer[:min(len(answer), 300)]))}
	}
	e.Status, e.Server, e.RetryAfter = response.StatusCode, c.config.Server, retryAfter(response)
	if e.Status == http.StatusUnauthorized && e.Message == "must authenticate" {
		e.Message = "the server does not know this token"
	}
	return e
}
