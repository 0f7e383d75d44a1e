package kubeproxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/records"
)

// TestAClusterThatHangs takes requests and answers none.
func TestAClusterThatHangs(t *testing.T) {
	p := newProxy(t, &upstream{})
	p.Way = func(records.ClusterKey, downstream.Credentials) http.RoundTripper { return blocked{} }
	p.Patience = 20 * time.Millisecond
	for _, headers := range []map[string]string{nil, {"Impersonate-User": "bob"}} {
		w := get(p, admin, "/k8s/clusters/c-m-abcd2345/api/v1/pods", headers)
		if w.Code != http.StatusGatewayTimeout || !strings.Contains(w.Body.String(), "cluster c-m-abcd2345 (harbour) has taken the request and not answered it for 20ms") {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	}
}

func TestLongRunning(t *testing.T) {
	for target, want := range map[string]bool{
		"/api/v1/pods": false, "/api/v1/pods?watch=true": true, "/api/v1/pods?watch=1": true, "/api/v1/pods?watch=false": false, "/api/v1/watch/pods": true,
		"/api/v1/namespaces/a/pods/b/log": true, "/api/v1/namespaces/a/pods/b/exec?command=x": true, "/api/v1/namespaces/a/services/b/proxy/x": true,
		"/api/v1/namespaces/proxy-config/pods": false, "/apis/apps/v1": false,
	} {
		if got := longRunning(httptest.NewRequest(http.MethodGet, target, nil)); got != want {
			t.Errorf("%s: %t", target, got)
		}
	}
	upgrade := httptest.NewRequest(http.MethodGet, "/anything", nil)
	upgrade.Header.Set("Upgrade", "SPDY/3.1")
	if !longRunning(upgrade) || downstream.IsWatch(upgrade) {
		t.Error("an upgrade")
	}
}

// TestTheBodyOfAnAnswerIsNotCut when patience is over: only its beginning was waited for.
func TestTheBodyOfAnAnswerIsNotCut(t *testing.T) {
	p := newProxy(t, &upstream{})
	p.Patience = 20 * time.Millisecond
	read, write := io.Pipe()
	p.Way = func(records.ClusterKey, downstream.Credentials) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			time.AfterFunc(100*time.Millisecond, func() {
				io.WriteString(write, "the end")
				write.CloseWithError(r.Context().Err())
			})
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: read, Request: r}, nil
		})
	}
	if w := get(p, admin, "/k8s/clusters/c-m-abcd2345/api/v1/pods", nil); w.Body.String() != "the end" {
		t.Errorf("%q", w.Body)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// torrent is the body of a watch in which something always happens; it tells when it is closed.
type torrent struct{ closed chan struct{} }

var event = bytes.Repeat([]byte("x"), 32<<10)

func (b *torrent) Read(p []byte) (int, error) {
	select {
	case <-b.closed:
		return 0, errors.New("closed")
	default:
		return copy(p, event), nil
	}
}

func (b *torrent) Close() error { close(b.closed); return nil }

// TestAWatcherThatNeverReads is left, and the cluster's connection with it; one that reads a log is not.
func TestAWatcherThatNeverReads(t *testing.T) {
	p := newProxy(t, &upstream{})
	p.Stalled = 50 * time.Millisecond
	body := &torrent{closed: make(chan struct{})}
	p.Way = func(records.ClusterKey, downstream.Credentials) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: r}, nil
		})
	}
	ended := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		p.Serve(w, r, admin)
	}))
	defer server.Close()
	conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.NetConn().(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "GET /k8s/clusters/c-m-abcd2345/api/v1/pods?watch=true HTTP/1.1\r\nHost: drover\r\n\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q %v", line, err)
	}
	for what, done := range map[string]chan struct{}{"the cluster's answer": body.closed, "the request": ended} {
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s goes on though nobody reads", what)
		}
	}
}
