package client

import (
	"bytes"
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
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

// Client asks one server.
type Client struct {
	context Context
	http    *http.Client
	tls     *tls.Config
}

// New makes a client that trusts only what the context says.
func New(c Context) (*Client, error) {
	u, err := url.Parse(c.Server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("server %q is not of the form https://host[:port]", c.Server)
	}
	c.Server = strings.TrimRight(c.Server, "/")
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(c.CA)) {
			return nil, errors.New("the authority to trust is not a PEM certificate")
		}
	}
	transport := &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	return &Client{context: c, http: &http.Client{Transport: transport, CheckRedirect: refuseRedirect}, tls: config}, nil
}

// refuseRedirect is for http.Client.CheckRedirect: the token goes to the server alone, over the connection that was asked for.
func refuseRedirect(next *http.Request, _ []*http.Request) error {
	return fmt.Errorf("it redirects to %.200q, and no redirect is followed with a token; if that is the server, name it with --server or `drover login`",
		next.URL.Redacted())
}

// Server is the server's URL.
func (c *Client) Server() string { return c.context.Server }

// CA is the PEM of the authority that is trusted; empty trusts the system's.
func (c *Client) CA() string { return c.context.CA }

// TokenName is the name of the token, which is no secret.
func (c *Client) TokenName() string {
	name, _, _ := strings.Cut(c.context.Token, ":")
	return name
}

// Error is an answer that says no.
type Error struct {
	Status  int             `json:"status"`
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Details json.RawMessage `json:"errors,omitempty"`
	// Findings are what was found before an upgrade; see server/upgrades.
	Findings json.RawMessage `json:"findings,omitempty"`
	// Server is the URL of who says it.
	Server string `json:"-"`
}

func (e *Error) Error() string {
	if e.Status == http.StatusUnauthorized && e.Code != "" {
		return e.Message + "; type: drover login " + e.Server + " --username NAME"
	}
	if e.Message == "" {
		return fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return e.Message
}

// NotFound says whether an error is the server's "there is none".
func NotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

// Do sends a request and reads a JSON answer into into, which may be nil.
func (c *Client) Do(ctx context.Context, method, path, contentType string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	response, err := c.send(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", c.context.Server, err)
	}
	if response.StatusCode >= 300 {
		return c.refusal(response.StatusCode, answer)
	}
	if into == nil || len(answer) == 0 {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("read the answer of %s to %s: %w", c.context.Server, path, err)
	}
	return nil
}

// send sends a request.
func (c *Client) send(ctx context.Context, method, path, contentType string, body []byte) (*http.Response, error) {
	request, err := c.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.explain(err)
	}
	return response, nil
}

// request is one that says who asks.
func (c *Client) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.context.Server+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.context.Server, err)
	}
	request.Header.Set("Authorization", "Bearer "+c.context.Token)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "drover")
	return request, nil
}

// refusal is what an answer that says no says.
func (c *Client) refusal(status int, answer []byte) error {
	e := &Error{}
	if json.Unmarshal(answer, e) != nil {
		e = &Error{Message: strings.TrimSpace(string(answer[:min(len(answer), 300)]))}
	}
	e.Status, e.Server = status, c.context.Server
	if status == http.StatusUnauthorized && e.Message == "must authenticate" {
		e.Message = "the server does not know this token"
	}
	return e
}

// Stream asks for an answer that comes bit by bit and may have no end. The caller closes it.
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

// Rest asks for a file from a byte on, if the tag is that of the file still; 206 answers that, and 200 with the whole file. The caller
// closes the answer.
func (c *Client) Rest(ctx context.Context, path string, from int64, tag string) (*http.Response, error) {
	request, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		request.Header.Set("If-Range", tag)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.explain(err)
	}
	return c.accepted(response, http.StatusOK, http.StatusPartialContent)
}

// accepted is an answer of one of the statuses; another one is closed and an error.
func (c *Client) accepted(response *http.Response, statuses ...int) (*http.Response, error) {
	if slices.Contains(statuses, response.StatusCode) {
		return response, nil
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.context.Server, err)
	}
	return nil, c.refusal(response.StatusCode, answer)
}

// Fetch sends JSON and gets an answer that is not: its content and its header.
func (c *Client) Fetch(ctx context.Context, method, path string, body any) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
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
		return nil, nil, fmt.Errorf("read the answer of %s: %w", c.context.Server, err)
	case response.StatusCode >= 300:
		return nil, nil, c.refusal(response.StatusCode, answer)
	case len(answer) > maxAnswer:
		return nil, nil, fmt.Errorf("read the answer of %s to %s: it has more than %d bytes", c.context.Server, path, maxAnswer)
	}
	return answer, response.Header, nil
}

// Get asks for JSON.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.Do(ctx, http.MethodGet, path, "", nil, into)
}

// Send sends JSON.
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

// explain says what a person can do about a connection that failed.
func (c *Client) explain(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var unknown x509.UnknownAuthorityError
	var verification *tls.CertificateVerificationError
	if errors.As(err, &unknown) || errors.As(err, &verification) {
		return fmt.Errorf("the certificate of %s is not trusted (%w); give its authority with --ca-file or DROVER_CA_FILE, or log in with --ca-checksum", c.context.Server, err)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("reach %s: %w: no server listens there; start one (drover server), or name another with --server or `drover login`", c.context.Server, err)
	}
	return fmt.Errorf("reach %s: %w", c.context.Server, err)
}

// FetchCA gets the authority of a server and returns it only if it has the checksum. The one
// request that fetches it cannot verify the server; the checksum does.
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
		return "", fmt.Errorf("the authority of %s has the checksum %s, not %s; somebody else may answer in its place, so nothing was sent", server, got, checksum)
	}
	return string(pem), nil
}
