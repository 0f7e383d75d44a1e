// Package web is the client by which directories are asked over HTTPS: it trusts what the configuration says, gives up after
// a time, and reads no endless answer.
package web

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/drover-project/drover/server/directories"
)

// MaxAnswer bounds an answer, in bytes.
const MaxAnswer = 1 << 20

// ErrTooLong says that an answer is longer than MaxAnswer.
var ErrTooLong = fmt.Errorf("the answer is longer than %d bytes", MaxAnswer)

// New makes a client that trusts the authorities of a PEM, or those of the system where it is empty. It follows no redirects
// to other than https.
func New(ca string) (*http.Client, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("the authority to trust is not a certificate in PEM")
		}
	}
	return &http.Client{
		Timeout: directories.Timeout,
		Transport: bounded{&http.Transport{
			TLSClientConfig: trust, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		}},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Scheme != "https" || len(via) > 5 {
				return errors.New("the directory redirects to other than https, or too often")
			}
			return nil
		},
	}, nil
}

// bounded cuts answers.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = &body{response.Body, MaxAnswer}
	return response, nil
}

type body struct {
	io.ReadCloser
	left int
}

// Read fails after the bound instead of ending there: half an answer is not one.
func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLong
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, ErrTooLong
	}
	return n, err
}
