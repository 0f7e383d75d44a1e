package kubeproxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/records"
)

// sockets is a proxy between a caller and a cluster, all of which have real connections.
type sockets struct {
	*testing.T
	front *httptest.Server
	// served has something for each request that the proxy is through with.
	served chan struct{}

	mu sync.Mutex
	// reached are the requests that came to the cluster, with what their bodies had.
	reached []*http.Request
	bodies  []string
}

// overSockets has the cluster answer with answer, and the proxy serve caller.
func overSockets(t *testing.T, caller auth.Identity, answer http.HandlerFunc) *sockets {
	t.Helper()
	s := &sockets{T: t, served: make(chan struct{}, 10)}
	cluster := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body []byte
		if r.Header.Get("Upgrade") == "" {
			body, _ = io.ReadAll(r.Body)
		}
		s.mu.Lock()
		s.reached, s.bodies = append(s.reached, r), append(s.bodies, string(body))
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(cluster.Close)
	way := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
		return tls.Dial("tcp", cluster.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	}}
	t.Cleanup(way.CloseIdleConnections)
	p := newProxy(t, &upstream{})
	p.Way = func(records.ClusterKey, downstream.Credentials) http.RoundTripper { return way }
	s.front = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { s.served <- struct{}{} }()
		p.Serve(w, r, caller)
	}))
	t.Cleanup(s.front.Close)
	return s
}

// dial is a connection of the caller.
func (s *sockets) dial() (*tls.Conn, *bufio.Reader) {
	s.Helper()
	conn, err := tls.Dial("tcp", s.front.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		s.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// say sends text.
func (s *sockets) say(to io.Writer, text string) {
	s.Helper()
	if _, err := io.WriteString(to, text); err != nil {
		s.Fatal(err)
	}
}

// hear reads as much as text has, which it has to be.
func (s *sockets) hear(from io.Reader, text string) {
	s.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(from, got); err != nil || string(got) != text {
		s.Fatalf("came %d bytes %.40q, %v; want %d bytes %.40q", n, got[:n], err, len(text), text)
	}
}

// answer reads an answer with its body.
func (s *sockets) answer(from *bufio.Reader) (*http.Response, string) {
	s.Helper()
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		s.Fatal(err)
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		return response, ""
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return response, string(body)
}

// done waits until the proxy is through with a request.
func (s *sockets) done() {
	s.Helper()
	select {
	case <-s.served:
	case <-time.After(20 * time.Second):
		s.Fatal("the proxy still serves the request")
	}
}

// came are the requests that the cluster got so far.
func (s *sockets) came() ([]*http.Request, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reached, s.bodies
}
