// The few requests that the plan protocol needs. To a server that offers HTTP/2 all of them share
// the connection of the watch, so that a claim takes one round trip however long the way is. To one
// that offers HTTP/1.1 alone, as drover's does, an idle agent holds one connection, for its watch.

package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/backoff"
)

const (
	// maxBody bounds an answer and one event of a watch, in bytes. A Secret is below 1 MiB, and base64 adds a third.
	maxBody = 4 << 20
	// requestLimit bounds every request but a watch.
	requestLimit = 30 * time.Second
	// versionLimit bounds the first, small request.
	versionLimit = 15 * time.Second
	// dialLimit bounds name look-up and connect, the TLS handshake has as much again.
	dialLimit = 15 * time.Second
	// pingAfter is how long a shared connection may be silent before the server is asked for a sign
	// of life, which it has pingLimit to give: a request that times out does not end the connection.
	pingAfter = 30 * time.Second
	pingLimit = 15 * time.Second
	// slowAnswer is from when on a server counts as one with much to do.
	slowAnswer = 50 * time.Millisecond
	// idleLimit is how long the connection of the last request is kept for the next: a little
	// more than the distance between two rounds of probes. To a server with thousands of
	// agents an idle connection is four times as dear as a watch.
	idleLimit = plans.DefaultProbePeriod + time.Second
)

// StatusError is an answer of the server that is not a success.
type StatusError struct {
	Code       int
	Message    string        // what the server said, shortened to one line
	RetryAfter time.Duration // 0 when the server did not say
}

func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the server answered %d %s", e.Code, http.StatusText(e.Code))
	}
	return fmt.Sprintf("the server answered %d %s: %s", e.Code, http.StatusText(e.Code), e.Message)
}

// code is the HTTP status of an error from the server; 0 when it is another.
func code(err error) int {
	var status *StatusError
	if errors.As(err, &status) {
		return status.Code
	}
	return 0
}

// client speaks for one plan Secret.
type client struct {
	access    *Access
	namespace string
	name      string
	agent     string // User-Agent
	http      *http.Client
	way       atomic.Int64 // how long the last connect took, a time.Duration
	took      atomic.Int64 // how long the last answer took on its connection, a time.Duration
	now       func() time.Time
	plan      atomic.Pointer[parsedPlan] // of the Secret that came last
}

func newClient(access *Access, namespace, name, agent string, now func() time.Time) *client {
	// The name is looked up anew for each connection: a server may move.
	dialer := &net.Dialer{Timeout: dialLimit, Resolver: access.resolver, KeepAliveConfig: net.KeepAliveConfig{
		// A server without power is noticed after 20 s. A server that closed the connection meanwhile resets it when its kernel is asked.
		Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
	proxy := http.ProxyFromEnvironment
	if access.Proxy != nil {
		proxy = http.ProxyURL(access.Proxy)
	}
	config := access.TLS.Clone()
	renewed := config.GetClientCertificate != nil // it has to be shown anew, which a connection that stays would not
	if !renewed {
		// A connection for a report then begins without certificates and signatures.
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	c := &client{access: access, namespace: namespace, name: name, agent: agent, now: now}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy: proxy,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				began := time.Now()
				defer func() { c.way.Store(int64(time.Since(began))) }()
				return dialer.DialContext(ctx, network, address)
			},
			TLSClientConfig:     config,
			ForceAttemptHTTP2:   !renewed,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingLimit, MaxReceiveBufferPerConnection: maxBody, MaxReceiveBufferPerStream: maxBody / 4},
			TLSHandshakeTimeout: dialLimit,
			MaxIdleConnsPerHost: 1,
			IdleConnTimeout:     idleLimit,
			DisableCompression:  true, // a bound on the body is then a bound on memory
		},
		// A redirect would carry the credentials elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// release gives a connection that is not shared up after a report when the server is slow: one that
// serves thousands of agents has better uses for it, as the next report is seconds away at best. To
// a server that has time, however far away, it is kept for idleLimit, so that the next plan is
// claimed at once.
func (c *client) release() {
	if time.Duration(c.took.Load()-c.way.Load()) > slowAnswer {
		c.close()
	}
}

// close gives up connections that nothing is under way on.
func (c *client) close() { c.http.CloseIdleConnections() }

// version asks for the server's version, the cheapest question that needs trust and credentials.
func (c *client) version(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	answer, err := c.send(ctx, http.MethodGet, "/version", nil, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, maxBody))
	return err
}

// get reads the Secret.
func (c *client) get(ctx context.Context) (*Secret, error) {
	b, err := c.read(ctx, http.MethodGet, c.secrets()+"/"+c.name, nil, nil)
	if err != nil {
		return nil, err
	}
	return c.secret(b)
}

// secret reads the Secret. The plan in it is the one of the version before where its text is.
func (c *client) secret(b []byte) (*Secret, error) {
	s, err := parseSecret(b, c.namespace, c.name)
	if err != nil {
		return nil, err
	}
	if s.parsed = c.plan.Load(); s.parsed == nil || !bytes.Equal(s.parsed.text, s.Data[plans.KeyPlan]) {
		s.parsed = s.delivered()
		c.plan.Store(s.parsed)
	}
	if len(s.parsed.text) > 0 {
		s.Data[plans.KeyPlan] = s.parsed.text // once in memory
	}
	return s, nil
}

// put replaces the Secret and returns it as stored.
func (c *client) put(ctx context.Context, s *Secret) (*Secret, error) {
	body, err := s.encode()
	if err != nil {
		return nil, err
	}
	b, err := c.read(ctx, http.MethodPut, c.secrets()+"/"+c.name, nil, body)
	if err != nil {
		return nil, err
	}
	return c.secret(b)
}

// list reads the list that holds the Secret or nothing. The version is where a watch can begin.
func (c *client) list(ctx context.Context) (s *Secret, version string, err error) {
	b, err := c.read(ctx, http.MethodGet, c.secrets(), url.Values{"fieldSelector": {"metadata.name=" + c.name}, "limit": {"500"}}, nil)
	if err != nil {
		return nil, "", err
	}
	var list struct {
		Kind     string            `json:"kind"`
		Metadata objectMeta        `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, "", fmt.Errorf("read the list of Secrets: %w", err)
	}
	if list.Kind != "SecretList" {
		return nil, "", &foreignError{what: fmt.Sprintf("a %.40q", list.Kind)}
	}
	for _, item := range list.Items {
		s, err := c.secret(item)
		var foreign *foreignError
		if errors.As(err, &foreign) {
			continue
		}
		return s, list.Metadata.ResourceVersion, err
	}
	return nil, list.Metadata.ResourceVersion, nil
}

func (c *client) secrets() string {
	return "/api/v1/namespaces/" + c.namespace + "/secrets"
}

// read does a request and returns the whole answer.
func (c *client) read(ctx context.Context, method, path string, query url.Values, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	began := time.Now()
	// The making of a connection is the way's affair, not the server's.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { began = time.Now() }})
	defer func() { c.took.Store(int64(time.Since(began))) }()
	answer, err := c.send(ctx, method, path, query, body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if err := wantJSON(answer); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	if len(b) > maxBody {
		return nil, fmt.Errorf("the answer to %s %s is longer than %d bytes", method, path, maxBody)
	}
	return b, nil
}

// send does a request and turns every answer but 2xx into a *StatusError.
func (c *client) send(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, error) {
	if left := c.access.Spared.Left(c.now()); left > 0 {
		return nil, &StatusError{Code: http.StatusTooManyRequests, Message: "it asked to be left alone for a while", RetryAfter: left}
	}
	u := *c.access.Server
	u.Path += path
	u.RawQuery = query.Encode()
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), reader)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	authorization, err := c.access.Authorization()
	if err != nil {
		return nil, err
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	r.Header.Set("Accept", "application/json, */*")
	r.Header.Set("User-Agent", c.agent)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, plainError(err)
	}
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, c.noted(statusError(answer, c.now()))
}

// noted has no request of this agent leave before the time that a server with too much to do names.
func (c *client) noted(e *StatusError) *StatusError {
	if e.Code == http.StatusTooManyRequests || e.Code == http.StatusServiceUnavailable {
		e.RetryAfter = c.access.Spared.Note(e.RetryAfter, c.now())
	}
	return e
}

// plainError leaves out the URL that net/http puts in front, as the path is always the
// same, and says what a person can do about it.
func plainError(err error) error {
	var request *url.Error
	if !errors.As(err, &request) {
		return err
	}
	method := strings.ToUpper(request.Op)
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		return fmt.Errorf("%s: %w; %s", method, request.Err, distrusted(certificate.Err))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: the server did not answer in time: %w", method, request.Err)
	}
	return fmt.Errorf("%s: %w", method, request.Err)
}

// distrusted says what can be done about a certificate that is not trusted.
func distrusted(err error) string {
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "look whether this host's clock is right, or give the server a new certificate"
	case errors.As(err, &name):
		return "give the server a certificate with the name that the kubeconfig has, or set tls-server-name there"
	}
	return "no other CA than the kubeconfig's is ever trusted: mend the server's certificate, or register this host again if the server has a new CA"
}

// status is Kubernetes' answer to what did not work.
type status struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Code    int    `json:"code"`
	Details struct {
		RetryAfterSeconds int `json:"retryAfterSeconds"`
	} `json:"details"`
}

func statusError(answer *http.Response, now time.Time) *StatusError {
	e := &StatusError{Code: answer.StatusCode}
	if to := answer.Header.Get("Location"); to != "" && answer.StatusCode < 400 {
		e.Message = plans.OneLine("it redirects to " + to + ", which is not followed, since the credentials would go there too: is the server's address right?")
		return e
	}
	b, _ := io.ReadAll(io.LimitReader(answer.Body, 16<<10)) // what came is what there is to show
	var s status
	if err := json.Unmarshal(b, &s); err == nil && s.Kind == "Status" {
		e.Message = plans.OneLine(s.Message)
		e.RetryAfter = seconds(s.Details.RetryAfterSeconds)
	} else if wantJSON(answer) == nil {
		e.Message = plans.OneLine(string(b))
	}
	if pause := backoff.Asked(answer, now); pause > 0 {
		e.RetryAfter = pause
	}
	return e
}

// seconds bounds what a server may make us wait.
func seconds(n int) time.Duration {
	return time.Duration(min(max(n, 0), 300)) * time.Second
}

// wantJSON refuses a web page. Other content types are left to the JSON parser, since
// small servers do not always name theirs.
func wantJSON(answer *http.Response) error {
	kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil || kind != "text/html" {
		return nil
	}
	return &StatusError{Code: answer.StatusCode, Message: "a web page came where JSON belongs: is there a proxy or a login page in between?"}
}
