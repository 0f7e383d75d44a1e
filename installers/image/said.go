// What is told of a place that did not give an image: a sentence for the cases that people
// meet, and for the others what the library says, without whatever could be a credential.

package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

const (
	// maxSaid bounds what is told of one place, in bytes.
	maxSaid = 400
	// minSecret is the shortest secret that is looked for; a shorter one is in any text.
	minSecret = 3
)

// placeError is why a place did not give an image.
type placeError struct {
	text    string
	cause   error
	passing bool // it may work the next time
}

func (e *placeError) Error() string { return e.text }
func (e *placeError) Unwrap() error { return e.cause }

// said makes the sentence. The secrets are left out wherever they come up.
func said(p *place, err error, secrets []string) *placeError {
	return &placeError{text: p.String() + ": " + clean(sentence(p, err), secrets), cause: err, passing: passing(err)}
}

func sentence(p *place, err error) string {
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
		if p.mirrorOf != "" {
			where += ", ns=" + p.mirrorOf
		}
	}
	var words string
	for _, d := range answer.Errors {
		words += "; " + string(d.Code) + " " + d.Message
	}
	var note *credentialNote
	if errors.As(err, &note) {
		words += "; " + note.text
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
	var network net.Error
	var names *net.DNSError
	if errors.As(err, &names) {
		return names.IsTemporary || names.IsTimeout
	}
	return errors.As(err, &quiet) || errors.As(err, &network) && network.Timeout() ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, context.DeadlineExceeded)
}

var (
	// queries of URLs hold signatures when a registry redirects to where its blobs are.
	queries  = regexp.MustCompile(`(https?://[^\s"'?]*)\?[^\s"']*`)
	userInfo = regexp.MustCompile(`(https?://)[^\s"'/@]*@`)
	control  = regexp.MustCompile(`[[:cntrl:]]+`)
)

// clean makes one line of a text, without credentials and not too long.
func clean(text string, secrets []string) string {
	longest := slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return len(b) - len(a) })
	for _, secret := range longest {
		if len(secret) >= minSecret {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	text = userInfo.ReplaceAllString(text, "$1")
	text = queries.ReplaceAllString(text, "$1")
	text = strings.TrimSpace(control.ReplaceAllString(text, " "))
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return text
}
