// What is reported of a place that did not give an image: a sentence for the cases that people
// meet, and for the others what the library says, without anything that could be a credential.

package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/drover-project/drover/installers/image/credentials"
	"github.com/drover-project/drover/plans/backoff"
)

// placeError is why a place did not give an image.
type placeError struct {
	text    string
	cause   error
	passing bool // it may work the next time
}

// Error is the sentence.
func (e *placeError) Error() string { return e.text }

// Unwrap is the cause.
func (e *placeError) Unwrap() error { return e.cause }

// said makes the sentence. The secrets are left out wherever they come up.
func said(p *place, err error, secrets []string) *placeError {
	return &placeError{text: p.String() + ": " + credentials.Redact(reasonOf(p, err), secrets), cause: err, passing: passing(err)}
}

func reasonOf(p *place, err error) string {
	var quiet *silence
	if errors.As(err, &quiet) {
		return quiet.Error()
	}
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return err.Error()
	}
	where := fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	if r := answer.Request; r != nil {
		where += " for " + r.URL.Path
		if p.MirrorOf != "" {
			where += ", ns=" + p.MirrorOf
		}
	}
	var words string
	for _, d := range answer.Errors {
		words += "; " + string(d.Code) + " " + d.Message
	}
	var note *credentials.Note
	if errors.As(err, &note) {
		words += "; " + note.Text
	}
	switch answer.StatusCode {
	case http.StatusNotFound:
		return "it has no such image (" + where + ")" + words
	case http.StatusUnauthorized, http.StatusForbidden:
		return "it does not give the image out (" + where + ")" + words
	}
	return "it answered " + where + words
}

// passing says whether the fault may be gone the next time.
func passing(err error) bool {
	var answer *transport.Error
	if errors.As(err, &answer) {
		return answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusRequestTimeout
	}
	var quiet *silence
	var spared *backoff.SparedError
	var network net.Error
	var names *net.DNSError
	if errors.As(err, &names) {
		return names.IsTemporary || names.IsTimeout
	}
	return errors.As(err, &quiet) || errors.As(err, &spared) || errors.As(err, &network) && network.Timeout() ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, context.DeadlineExceeded)
}
