// Why a request failed, in words that the other side has not written: who names an address learns nothing more of what answers
// there than that it does.

package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
)

// Reason is why a request got no answer. Texts of Go's client are shown where they are about the connection; others may repeat
// what was answered, and are what otherwise says.
func Reason(err error, otherwise string) string {
	var (
		redirect  redirectError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		name      *net.DNSError
		op        *net.OpError
		number    syscall.Errno
		timeout   net.Error
	)
	switch {
	case errors.Is(err, context.Canceled):
		return "it was stopped"
	case errors.Is(err, context.DeadlineExceeded):
		return "there was no answer in time"
	case errors.As(err, &redirect):
		return redirect.Error()
	case errors.As(err, &authority):
		return "its certificate is not of an authority that is known here"
	case errors.As(err, &host):
		return fmt.Sprintf("its certificate is not for %.253s", host.Host)
	case errors.As(err, &invalid):
		return "its certificate is not valid now, or not for a server"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return "it answers without TLS"
	case errors.As(err, &name) && name.IsNotFound:
		return fmt.Sprintf("lookup %.253s: no such host", name.Name)
	case errors.As(err, &name):
		return fmt.Sprintf("lookup %.253s: the name could not be resolved", name.Name)
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return "there was no answer in time"
	case errors.As(err, &op) && !errors.As(op.Err, &number) && op.Op == "dial":
		return op.Err.Error()
	case errors.As(err, &op):
		return op.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it ended the connection"
	}
	return otherwise
}

// Status is a status of HTTP as its number says it; the words of an answer are the other side's.
func Status(code int) string {
	if text := http.StatusText(code); text != "" {
		return fmt.Sprintf("%d %s", code, text)
	}
	return fmt.Sprintf("status %d", code)
}

type redirectError string

func (e redirectError) Error() string { return string(e) }

// Redirect is for http.Client.CheckRedirect, which returns its error: it follows redirects, but not without end, not from https to http, and without what
// was meant for the first host alone.
func Redirect(r *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return redirectError("it redirects ten times")
	}
	if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
		return redirectError("it redirects to an address without encryption")
	}
	if r.URL.Scheme != via[0].URL.Scheme || r.URL.Host != via[0].URL.Host {
		for _, name := range []string{"Authorization", "Cookie", "Referer"} {
			r.Header.Del(name)
		}
	}
	return nil
}
