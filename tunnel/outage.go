// What a client does when nothing it knows helps: follow the server to a new CA, start
// from scratch, give up so that a new process can try.

package tunnel

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/tunnel/trust"
)

// pingLimit bounds the question whether the server is there at all.
const pingLimit = 10 * time.Second

// Renewal lets a client follow the server to a new CA, which the server has to prove by the
// registration token.
type Renewal struct {
	// Token is the registration token.
	Token func() (string, error)
	// Checksum is that of the bundle which is trusted at the start, for the log.
	Checksum string
	// Pool makes the trust in a proven bundle; nil is trust.Pool, that bundle and nothing else.
	Pool func(bundle []byte) (*x509.CertPool, error)
	// Adopted is given a proven bundle, so that it is stored and used for every other
	// connection too. Its error is logged; the client uses the bundle all the same.
	Adopted func(bundle []byte) error
}

// renew fetches, verifies and adopts the server's CA.
func (c *Client) renew(ctx context.Context) error {
	r := c.o.Renewal
	token, err := r.Token()
	if err != nil {
		return fmt.Errorf("the server's CA is unknown, and the token to have a new one proven cannot be read: %w", err)
	}
	where := c.sibling("/cacerts")
	bundle, err := trust.Fetch(ctx, trust.Server{URL: where.String(), Token: token, Proxy: c.dialer.Proxy, Dial: c.connect, Spared: c.o.Spared, Now: c.now})
	if err != nil {
		return err
	}
	trusted := r.Pool
	if trusted == nil {
		trusted = trust.Pool
	}
	pool, err := trusted(bundle)
	if err != nil {
		return fmt.Errorf("read the server's CA: %w", err)
	}
	c.dialer.TLSClientConfig = c.dialer.TLSClientConfig.Clone()
	c.dialer.TLSClientConfig.RootCAs = pool
	sum := trust.Checksum(bundle)
	c.log.Warn("the server has a new CA, which it has proved to know this host's token for", "old", r.Checksum, "new", sum)
	r.Checksum = sum
	if r.Adopted == nil {
		return nil
	}
	if err := r.Adopted(bundle); err != nil {
		c.log.Error("the new CA could not be stored", "checksum", sum, "error", err)
	}
	return nil
}

// sibling is another path of the same server, over HTTPS.
func (c *Client) sibling(path string) *url.URL {
	return &url.URL{Scheme: "https", Host: c.url.Host, Path: path}
}

// request is one as the websocket library makes it, to ask which proxy is for it.
func (c *Client) request() *http.Request {
	return &http.Request{Method: http.MethodGet, URL: c.sibling(c.url.Path), Header: http.Header{}}
}

// StuckError says that a tunnel could not be opened for half an hour although the server
// answers. A program does best to end and be started again.
type StuckError struct {
	Since time.Time
	Cause error
}

// Error says for how long nothing has worked, and the last cause.
func (e *StuckError) Error() string {
	return fmt.Sprintf("no tunnel since %s although the server answers /ping: %v", e.Since.UTC().Format(time.RFC3339), e.Cause)
}

// Unwrap is the last cause.
func (e *StuckError) Unwrap() error { return e.Cause }

// outage is the time without a tunnel.
type outage struct {
	since     time.Time
	restarted bool
}

// despair starts from scratch after ten minutes without a tunnel, and gives up after half
// an hour, if meanwhile the server does answer.
func (c *Client) despair(ctx context.Context, o *outage, cause error) error {
	down := c.now().Sub(o.since)
	if down < c.times.restart || o.restarted && down < c.times.stuck || !c.ping(ctx) {
		return nil
	}
	if down >= c.times.stuck {
		return &StuckError{Since: o.since, Cause: cause}
	}
	o.restarted = true
	c.log.Warn("the tunnel starts from scratch: the server answers, but no tunnel opens", "since", o.since, "error", cause)
	c.reset(c.dialer.TLSClientConfig)
	c.backoff.Reset()
	return nil
}

// ping says whether the server answers over a connection that is trusted.
func (c *Client) ping(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	client := &http.Client{Transport: backoff.Sparing{Spared: c.o.Spared, Now: c.now, Next: &http.Transport{
		Proxy: c.dialer.Proxy, DialContext: c.connect, TLSClientConfig: c.dialer.TLSClientConfig.Clone(), DisableKeepAlives: true,
	}}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // such as to the page of a portal, which answers anything
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.sibling("/ping").String(), nil)
	if err != nil {
		return false
	}
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
