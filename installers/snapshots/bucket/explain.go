// What went wrong with a bucket, as a sentence with the way out.

package bucket

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/minio/minio-go/v7"

	"github.com/drover-project/drover/plans/fetch"
)

// code and region are the forms of what is quoted of an endpoint: nothing else that it says is shown. Wire source: Amazon S3 API
// reference, "Error responses", and the names of Amazon's regions, which others imitate.
var (
	code   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`) })
	region = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`) })
)

// explain is the sentence for what failed while something was done.
func (b *Bucket) explain(err error, doing string) error {
	return &Error{Place: b.String(), Doing: doing, Why: b.masked(b.why(err)), cause: err}
}

// Error is that a bucket could not do something.
type Error struct {
	// Place is the bucket, Doing what was tried, Why the reason and the way out.
	Place, Doing, Why string
	cause             error
}

func (e *Error) Error() string { return e.Place + ": " + e.Doing + ": " + e.Why }

// Missing says that an object is not there. That of a bucket which is not there is another error.
func Missing(err error) bool {
	e := new(Error)
	return errors.As(err, &e) && minio.ToErrorResponse(e.cause).Code == minio.NoSuchKey
}

// why is the reason. Keys are not in it yet masked.
func (b *Bucket) why(err error) string {
	var (
		unknown  x509.UnknownAuthorityError
		name     x509.HostnameError
		invalid  x509.CertificateInvalidError
		dns      *net.DNSError
		timeout  net.Error
		answered minio.ErrorResponse
		record   tls.RecordHeaderError
		here     sourceError
	)
	switch {
	case errors.As(err, &here):
		return here.Error()
	case errors.Is(err, context.Canceled):
		return "it was stopped"
	case errors.As(err, &answered):
		return b.answer(answered)
	case errors.As(err, &unknown):
		return "its certificate is not of an authority that is known here: give the authority's certificate as the endpoint's CA"
	case errors.As(err, &name):
		return fmt.Sprintf("its certificate is not for %.253s: name the endpoint as the certificate does", name.Host)
	case errors.As(err, &invalid):
		return "its certificate is not valid now: renew it there, or set the clock here"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return "it answers without TLS, and keys are not sent that way: give the port that has TLS"
	case errors.As(err, &dns):
		return fmt.Sprintf("the name of the endpoint is not known here (%s)", fetch.Reason(dns, dns.Name))
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: see whether the endpoint runs, and its port"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("nothing came or went for %s, or the time for all of it is over: see whether the endpoint is overloaded, and whether a firewall stands between", b.config.Stall)
	case errors.Is(err, errEnded), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return fmt.Sprintf("it ended the connection (%s): see its log; what was sent does not count", fetch.Reason(err, "while it was asked"))
	case errors.Is(err, errEndless):
		return errEndless.Error()
	}
	return fetch.Reason(err, "its answer is not one of S3: see whether the endpoint is one, and its port")
}

// answer is the reason that the endpoint gave.
func (b *Bucket) answer(is minio.ErrorResponse) string {
	said := fmt.Sprintf("it answers %s", is.Code)
	if !code().MatchString(is.Code) {
		said = fmt.Sprintf("it answers %s", fetch.Status(is.StatusCode))
	}
	switch is.Code {
	case minio.NoSuchBucket:
		return "there is no bucket of this name: make it there, or correct the name"
	case minio.NoSuchKey:
		return "it is not there"
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "XAdminUserNotFound":
		return said + ": correct the access key and the secret key"
	case minio.AccessDenied:
		return said + ": let the keys list the bucket, and read, write and delete objects"
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "InvalidRegion":
		if region().MatchString(is.Region) {
			return said + ": set the region to " + is.Region
		}
		return said + ": set the bucket's region"
	case "RequestTimeTooSkewed":
		return said + ": set the clock here, or there"
	case "XMinioStorageFull", "InsufficientStorage", "QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "XAdminBucketQuotaExceeded":
		return said + ": it is full: make room there, or keep fewer snapshots"
	}
	if is.StatusCode == http.StatusInsufficientStorage {
		return said + ": it is full: make room there, or keep fewer snapshots"
	}
	if is.StatusCode >= http.StatusInternalServerError {
		return said + ": it cannot do it now, or is full: see its log, and try again"
	}
	return said
}

// masked takes the keys out of what others wrote.
func (b *Bucket) masked(text string) string {
	for _, key := range []string{b.config.SecretKey, b.config.AccessKey} {
		if key != "" {
			text = strings.ReplaceAll(text, key, "***")
		}
	}
	return text
}
