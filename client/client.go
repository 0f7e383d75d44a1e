package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 20

// Config is a server and what it takes to ask it.
type Config struct {
	// Server is https://host[:port].
	Server string
	// Token is an API token, NAME:KEY; empty asks without one, as before a login.
	Token string
	// CA is the PEM of the authority to trust; empty trusts those of the system.
	CA string
	// Agent is what the server's logs call the program; empty for "drover".
	Agent string
	// Retry is for how long a request is made again while the server cannot be reached or answers 429 or 503; zero makes each once.
	Retry time.Duration
}

// Client asks one server. It may be used by many goroutines.
type Client struct {
	sender
	tls *tls.Config
}

// New makes a client, which asks nothing yet. The error says what is wrong with the configuration.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.Server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("server %q is not of the form https://host[:port]", c.Server)
	}
	c.Server, c.Agent = strings.TrimRight(c.Server, "/"), cmp.Or(c.Agent, "drover")
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(c.CA)) {
			return nil, errors.New("the authority to trust is not a PEM certificate")
		}
	}
	transport := &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	return &Client{sender{c, &http.Client{Transport: transport, CheckRedirect: refuseRedirect}}, config}, nil
}

// WithRetry is a client of the same server whose requests are made again for so long; see Config.Retry.
func (c *Client) WithRetry(retry time.Duration) *Client {
	again := *c
	again.config.Retry = retry
	return &again
}

// refuseRedirect is for http.Client.CheckRedirect: the token goes to the server alone, over the connection that was asked for.
func refuseRedirect(next *http.Request, _ []*http.Request) error {
	return &RedirectError{To: next.URL.Redacted()}
}

// Server is the server's URL.
func (c *Client) Server() string { return c.config.Server }

// CA is the PEM of the authority that is trusted; empty trusts the system's.
func (c *Client) CA() string { return c.config.CA }

// TokenName is the name of the token, the part before the colon. The name is no secret.
func (c *Client) TokenName() string {
	name, _, _ := strings.Cut(c.config.Token, ":")
	return name
}

// Do sends a body of a content type, which may be empty, and reads the JSON of the answer into into, which may be nil. A refusal is an
// *Error.
func (c *Client) Do(ctx context.Context, method, path, contentType string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	response, err := c.send(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", c.config.Server, err)
	}
	if response.StatusCode >= 300 {
		return c.refusal(response, answer)
	}
	if into == nil || len(answer) == 0 {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("read the answer of %s to %s: %w", c.config.Server, path, err)
	}
	return nil
}

// Stream asks for an answer that comes bit by bit and may have no end; Watch reads those of lists. The caller closes it. Its errors are those of Get.
func (c *Client) Stream(ctx context.Context, path string) (io.ReadCloser, error) {
	response, err := c.send(ctx, http.MethodGet, path, "", nil)
	if err == nil {
		response, err = c.accepted(response, http.StatusOK)
	}
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// Rest asks for a file from a byte on, if its ETag is still tag: the status of the answer is 206 then, and 200 for the whole file. The
// caller closes the answer. Its errors are those of Get; another status than 200 and 206 is an *Error.
func (c *Client) Rest(ctx context.Context, path string, from int64, tag string) (*http.Response, error) {
	request, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		request.Header.Set("If-Range", tag)
	}
	response, err := c.do(request, nil)
	if err != nil {
		return nil, err
	}
	return c.accepted(response, http.StatusOK, http.StatusPartialContent)
}

// Fetch sends JSON and returns an answer that is not JSON, such as an archive: its content and its header. Its errors are those of Get.
func (c *Client) Fetch(ctx context.Context, method, path string, body any) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	b, err := json.Marshal(body)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the request to %s: %w", path, err)
	}
	response, err := c.send(ctx, method, path, "application/json", b)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("read the answer of %s: %w", c.config.Server, err)
	case response.StatusCode >= 300:
		return nil, nil, c.refusal(response, answer)
	case len(answer) > maxAnswer:
		return nil, nil, fmt.Errorf("read the answer of %s to %s: it has more than %d bytes", c.config.Server, path, maxAnswer)
	}
	return answer, response.Header, nil
}

// Get reads the JSON at a path, such as /v1-drover/clusters/fleet-default/prod, into into. The errors are those of Do.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.Do(ctx, http.MethodGet, path, "", nil, into)
}

// Send sends a body as JSON, nil for none, and reads the JSON of the answer into into, which may be nil.
// Its errors are those of Get, with ErrConflict where the document has changed meanwhile.
func (c *Client) Send(ctx context.Context, method, path string, body, into any) error {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode the request to %s: %w", path, err)
		}
	}
	return c.Do(ctx, method, path, "application/json", b, into)
}

// FetchCA asks a server for its authority and returns the PEM if it has the checksum, the SHA-256 in hex. The request that
// fetches it cannot verify the server; the checksum does.
func FetchCA(ctx context.Context, server, checksum string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(server, "/")+"/cacerts", nil)
	if err != nil {
		return "", fmt.Errorf("fetch the authority of %s: %w", server, err)
	}
	blind := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}} // #nosec G402 -- what comes is compared with a checksum
	response, err := blind.Do(request)
	if err != nil {
		return "", fmt.Errorf("fetch the authority of %s: %w", server, err)
	}
	defer response.Body.Close()
	pem, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", fmt.Errorf("fetch the authority of %s: %w", server, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("fetch the authority of %s: it answered %s", server, response.Status)
	}
	sum := sha256.Sum256(pem)
	if got := hex.EncodeToString(sum[:]); got != strings.ToLower(checksum) {
		return "", fmt.Errorf("the authority of %s has the checksum %s, not %s; another server may answer in its place, so nothing was sent", server, got, checksum)
	}
	return string(pem), nil
}
