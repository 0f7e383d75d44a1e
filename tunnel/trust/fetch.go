// Asking a server for its CA and the proof of it, over a connection that is not trusted yet.

package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/drover-project/drover/plans/backoff"
)

// fetchLimit bounds the whole request.
const fetchLimit = 20 * time.Second

// NotProvenError says that a server offered a CA that it could not vouch for.
type NotProvenError struct{ Reason string }

// Error says why the offered authority is not trusted.
func (e *NotProvenError) Error() string {
	return "the server's CA is not the one that is trusted, and the new one is not proven: " + e.Reason +
		"; if the server was given a new CA on purpose, register this host again"
}

// Outdated says of a connection that failed whether the server may have another CA than
// the one that is trusted: no known authority signed its certificate, or an authority whose
// own certificate has ended (then the clock may be wrong as well).
func Outdated(err error) bool {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &unknown) || errors.As(err, &invalid) && invalid.Reason == x509.Expired
}

// Server is where to ask.
type Server struct {
	// URL of /cacerts, https.
	URL string
	// Token is the registration token. Only its hash leaves this host.
	Token string
	// Proxy and Dial are the way to the server, as in http.Transport; nil is the direct one.
	Proxy func(*http.Request) (*url.URL, error)
	Dial  func(ctx context.Context, network, address string) (net.Conn, error)
	// Spared is the server's request to be left alone, which is heeded; nil is none.
	Spared *backoff.Spared
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Fetch returns the server's bundle after the server has proved that it knows the token
// and that its own certificate is by that CA. The connection is not verified beforehand:
// an eavesdropper learns a hash of the token, and a forged answer fails the proof.
// *NotProvenError when it does.
func Fetch(ctx context.Context, s Server) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	if s.Spared == nil {
		s.Spared = new(backoff.Spared)
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	transport := &http.Transport{
		Proxy: s.Proxy, DialContext: s.Dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, // #nosec G402 -- verified below, by the proof
	}
	client := &http.Client{Transport: backoff.Sparing{Spared: s.Spared, Next: transport, Now: s.Now}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the server for its CA: %w", err)
	}
	nonce := Nonce()
	request.Header.Set("X-Cattle-Nonce", nonce)
	request.Header.Set("Authorization", "Bearer "+Credential(s.Token))
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the server for its CA: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBundle+1))
	if err != nil {
		return nil, fmt.Errorf("ask the server for its CA: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask the server for its CA: it answered %s", answer.Status)
	}
	hash := answer.Header.Get("X-Cattle-Hash")
	switch {
	case hash == "":
		return nil, &NotProvenError{"the server does not know this host's token"}
	case !Proven(s.Token, nonce, body, hash):
		return nil, &NotProvenError{"its proof is wrong, so that another server may be answering"}
	}
	return body, s.signs(body, answer.TLS)
}

// signs checks that the server uses a certificate of the CA that it has proved.
func (s Server) signs(bundle []byte, state *tls.ConnectionState) error {
	pool, err := Pool(bundle)
	if err != nil {
		return fmt.Errorf("read the server's CA: %w", err)
	}
	u, err := url.Parse(s.URL)
	if err != nil || state == nil || len(state.PeerCertificates) == 0 {
		return errors.New("ask the server for its CA: not over TLS")
	}
	options := x509.VerifyOptions{Roots: pool, DNSName: u.Hostname(), Intermediates: x509.NewCertPool(), CurrentTime: s.Now()}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err = state.PeerCertificates[0].Verify(options)
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return fmt.Errorf("the server's certificate, or this host's clock: %w", err)
	}
	if err != nil {
		return fmt.Errorf("the server has proved a CA that did not sign its certificate: %v", err) //nolint:errorlint // an agent that found the x509 error would fetch the CA again
	}
	return nil
}
