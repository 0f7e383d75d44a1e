// Package fetch reads a document from an http(s) address that a person gave: bounded in size and time, never from an
// encrypted place to one that is not, and with errors that do not repeat what may be a password in the address.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Request is a document to fetch.
type Request struct {
	// Address begins with http:// or https://.
	Address string
	// ETag is that of the document at hand; "" is for who has none.
	ETag string
	// Limit is how much is read.
	Limit Limit
	// Within bounds the whole of it, redirects included.
	Within time.Duration
	// Transport fetches; nil takes http.DefaultTransport.
	Transport http.RoundTripper
}

// Answer is what an address gave.
type Answer struct {
	Text []byte
	// ETag is that of Text.
	ETag string
	// Same says that the document of Request.ETag is still the current one; Text is empty then.
	Same bool
}

// Limit is a bound, and the words for what is over it.
type Limit struct {
	Bytes int64
	// Over is the error's whole text: it has more than 32 MiB.
	Over string
}

// Get fetches a document. Its errors say why not, without the address: Shown has that for people.
func Get(ctx context.Context, q Request) (Answer, error) {
	u, err := url.Parse(q.Address)
	if err != nil || u.Host == "" || !IsAddress(q.Address) {
		return Answer{}, errors.New("it is not an address such as https://example.com/file.yaml")
	}
	ctx, cancel := context.WithTimeout(ctx, q.Within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, q.Address, nil)
	if err != nil {
		return Answer{}, errors.New("it is not an address such as https://example.com/file.yaml")
	}
	if q.ETag != "" {
		r.Header.Set("If-None-Match", q.ETag)
	}
	answer, err := (&http.Client{Transport: q.Transport, CheckRedirect: Redirect}).Do(r)
	if err != nil {
		return Answer{}, failure(err, q.Within)
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusNotModified && q.ETag != "":
		return Answer{ETag: q.ETag, Same: true}, nil
	case answer.StatusCode != http.StatusOK:
		return Answer{}, fmt.Errorf("the server answers %s", Status(answer.StatusCode))
	}
	text, err := q.Limit.Read(answer.Body)
	if over, ok := errors.AsType[overError](err); ok {
		return Answer{}, over
	}
	if err != nil {
		return Answer{}, failure(err, q.Within)
	}
	return Answer{Text: text, ETag: answer.Header.Get("ETag")}, nil
}

// Read reads everything, which must not be more than the limit. More is an error that names the limit.
func (l Limit) Read(from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, l.Bytes+1))
	if err == nil && int64(len(text)) > l.Bytes {
		return nil, overError(l.Over)
	}
	return text, err
}

type overError string

func (e overError) Error() string { return string(e) }

// IsAddress says whether a location is an address, and not a path.
func IsAddress(location string) bool {
	return strings.HasPrefix(location, "https://") || strings.HasPrefix(location, "http://")
}

// Shown is a location for people: a path as it is, an address without what may be a password.
func Shown(location string) string {
	if !IsAddress(location) {
		return location
	}
	u, err := url.Parse(location)
	if err != nil {
		return "the address given"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// failure is why a request failed; the client's own words repeat the whole address.
func failure(err error, within time.Duration) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok && wrapped.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", within)
	}
	return errors.New(Reason(err, "it does not answer as a server of HTTP does"))
}
