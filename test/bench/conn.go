// An HTTP/1.1 connection over TLS as drover's agent holds it, without the machinery of a
// client around it.

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// dialer makes connections to one server.
type dialer struct {
	address string
	tls     *tls.Config
}

// newDialer trusts the server's authority. Its certificate is verified once and recognised
// after that: real agents verify it each on a processor of its own. That the server holds
// the key is proved in every handshake.
func newDialer(s *server) *dialer {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
	var mu sync.Mutex
	var known []byte
	return &dialer{address: address, tls: &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: "127.0.0.1", NextProtos: []string{"http/1.1"}, InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			mu.Lock()
			defer mu.Unlock()
			leaf := state.PeerCertificates[0]
			if known != nil && bytes.Equal(leaf.Raw, known) {
				return nil
			}
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: s.roots, DNSName: "127.0.0.1"}); err != nil {
				return err
			}
			known = leaf.Raw
			return nil
		},
	}}
}

// conn is one connection.
type conn struct {
	tls *tls.Conn
	r   *bufio.Reader
}

// agent is the dialer of one agent, which resumes its own sessions.
func (d *dialer) agent() *dialer {
	config := d.tls.Clone()
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	return &dialer{address: d.address, tls: config}
}

func (d *dialer) dial(ctx context.Context) (*conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", d.address)
	if err != nil {
		return nil, err
	}
	c := tls.Client(raw, d.tls)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return &conn{tls: c, r: bufio.NewReaderSize(c, 2<<10)}, nil
}

func (c *conn) close() {
	if c != nil {
		_ = c.tls.Close()
	}
}

// request is a request with the headers that drover's agent sends.
func request(b []byte, method, path, token, contentType string, body []byte) []byte {
	b = append(append(append(append(b, method...), ' '), path...), " HTTP/1.1\r\nHost: 127.0.0.1\r\n"...)
	b = append(b, "User-Agent: rancher-system-agent/bench\r\nAccept: application/json, */*\r\nAuthorization: Bearer "...)
	b = append(append(b, token...), "\r\n"...)
	if body != nil {
		b = append(append(append(b, "Content-Type: "...), contentType...), "\r\nContent-Length: "...)
		b = append(strconv.AppendInt(b, int64(len(body)), 10), "\r\n"...)
	}
	return append(append(b, "\r\n"...), body...)
}

// open sends a request and reads the answer's head; the body is the caller's.
func (c *conn) open(request []byte) (*http.Response, error) {
	if _, err := c.tls.Write(request); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.r, nil)
}

// statusError is an answer that is not a success.
type statusError struct {
	status int
	body   []byte
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the server answered %d: %.500s", e.status, e.body)
}

// ask sends a request and reads the whole answer into a buffer that it may use again.
func (c *conn) ask(request, buffer []byte) ([]byte, error) {
	response, err := c.open(request)
	if err != nil {
		return nil, err
	}
	body := bytes.NewBuffer(buffer[:0])
	if _, err := io.Copy(body, response.Body); err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, &statusError{status: response.StatusCode, body: body.Bytes()}
	}
	return body.Bytes(), nil
}
