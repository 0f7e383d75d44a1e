// Package web has the directories that are asked over HTTPS, GitHub and OpenID Connect, and their client: it trusts what the configuration says, gives up after
// a time, and reads no endless answer.
package web

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"

	"golang.org/x/oauth2"

	"github.com/drover-project/drover/plans/fetch"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/outgoing"
)

// MaxAnswer bounds an answer, in bytes.
const MaxAnswer = 1 << 20

// ErrTooLong says that an answer is longer than MaxAnswer.
var ErrTooLong = fmt.Errorf("the answer is longer than %d bytes", MaxAnswer)

// StatusError is that a directory answers a question with other than success.
type StatusError struct{ Code int }

func (e *StatusError) Error() string { return "it answers " + fetch.Status(e.Code) }

var errRedirect = errors.New("it redirects to other than https, too often, or what is for it alone")

// New makes a client that goes a way and trusts the authorities of a PEM, or those of the system where it is empty. It follows no
// redirects to other than https, and none of what it sends. A GET that has no success is a *StatusError, so that no caller shows
// what else is in the answer.
func New(ca string, way *outgoing.Way) (*http.Client, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("the authority to trust is not a certificate in PEM")
		}
	}
	return &http.Client{
		Timeout:   directories.Timeout,
		Transport: bounded{way.Transport(trust)},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Scheme != "https" || len(via) > 5 || via[0].Method != http.MethodGet {
				return errRedirect
			}
			return fetch.Redirect(r, via)
		},
	}, nil
}

// code is the form of the codes of OAuth 2.0 (RFC 6749, 5.2) and of those that GitHub has beside them.
var code = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z_]{0,39}$`) })

// Reason is why a directory could not be asked, in words of this server alone; otherwise is for an answer that is none.
func Reason(err error, otherwise string) string {
	var (
		status  *StatusError
		refused *oauth2.RetrieveError
	)
	switch {
	case errors.As(err, &status):
		return status.Error()
	case errors.Is(err, ErrTooLong):
		return ErrTooLong.Error()
	case errors.Is(err, errRedirect):
		return errRedirect.Error()
	case errors.As(err, &refused) && code().MatchString(refused.ErrorCode):
		return fmt.Sprintf("it answers %s, %s", fetch.Status(refused.Response.StatusCode), refused.ErrorCode)
	case errors.As(err, &refused):
		return "it answers " + fetch.Status(refused.Response.StatusCode)
	}
	return fetch.Reason(err, otherwise)
}

// bounded reads answers whole, so that one which is too long fails as one that is cut off does, and half of it is not taken.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	redirect := answer.StatusCode >= 300 && answer.StatusCode < 400 && answer.Header.Get("Location") != ""
	if r.Method == http.MethodGet && (answer.StatusCode < 200 || answer.StatusCode >= 300) && !redirect {
		return nil, &StatusError{answer.StatusCode}
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > MaxAnswer:
		return nil, ErrTooLong
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	return answer, nil
}
