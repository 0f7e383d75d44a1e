// How a connection is made: where a name leads to, who we say we are, and by which way.

package remote

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/test/skips"
)

// nameServer answers every question for an IPv4 address with the present one.
func nameServer(t *testing.T, address func() net.IP) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			conn.WriteTo(nameAnswer(b[:n], address()), from)
		}
	})
	t.Cleanup(func() {
		conn.Close()
		ended.Wait()
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// nameAnswer answers a question of one name: type A with the address, any other with nothing.
func nameAnswer(question []byte, address net.IP) []byte {
	end := 12
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	end += 5 // the root, type and class
	answer := append([]byte{}, question[:end]...)
	binary.BigEndian.PutUint16(answer[2:], 0x8180)
	for i := 6; i < 12; i++ {
		answer[i] = 0
	}
	if binary.BigEndian.Uint16(question[end-4:]) != 1 {
		return answer
	}
	answer[7] = 1
	answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 14, 16, 0, 4) // for an hour
	return append(answer, address.To4()...)
}

// on has a server listen at an address.
func on(t *testing.T, address string) func(*server) {
	return func(s *server) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			skips.Skipf(t, "cannot listen at %s: %v", address, err)
		}
		s.Listener.Close()
		s.Listener = l
	}
}

// TestServerMoves: the name is looked up anew for each connection, however long the answer
// said that it would hold.
func TestServerMoves(t *testing.T) {
	t.Parallel()
	ours := newAuthority("ours")
	certified := func(s *server) {
		cert := ours.issue(time.Now().Add(-time.Hour), "plans.example")
		s.config, s.ca = func() *tls.Config { return serve(cert) }, ours.pem
	}
	first := newServer(t, certified)
	_, port, err := net.SplitHostPort(first.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	second := newServer(t, certified, on(t, "127.0.0.2:"+port), func(s *server) { s.version = 1000 })
	var moved atomic.Bool
	access, err := ParseKubeconfig(kubeconfigText("https://plans.example:"+port+"/pfx", ours.pem, "token: tok-1"))
	if err != nil {
		t.Fatal(err)
	}
	access.resolver = nameServer(t, func() net.IP {
		if moved.Load() {
			return net.IPv4(127, 0, 0, 2)
		}
		return net.IPv4(127, 0, 0, 1)
	})
	first.set(map[string]string{"plan": planA, "plan-state": "pending"})
	second.set(map[string]string{"plan": planB, "plan-state": "pending", "plan-revision": "1"})
	e := &engine{}
	followBy(t, access, e)
	first.wantState(t, "succeeded")
	moved.Store(true)
	first.Listener.Close()
	first.CloseClientConnections()
	second.wantState(t, "succeeded")
	wantCalls(t, e, "apply a u1/1 attempt 1", "apply b u1/2 attempt 1")
}

// followBy runs a source with that access until the test ends.
func followBy(t *testing.T, access *Access, e *engine) *Source {
	t.Helper()
	src, err := New(Options{Access: access, Namespace: namespace, SecretName: secretName, Engine: e, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	src.pace = pace{retryMin: 2 * time.Millisecond, retryMax: 50 * time.Millisecond, mark: 100 * time.Millisecond, unanswered: 50 * time.Millisecond, report: 20 * time.Millisecond}
	src.client.http.Transport.(*http.Transport).Proxy = http.ProxyURL(access.Proxy)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		src.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return src
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestTokenFileIsReadAnew for each request, so that a token that is renewed in its place is used at once.
func TestTokenFileIsReadAnew(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "old\n")
	access, err := ParseKubeconfig(strings.Replace(kubeconfigText(s.URL+"/pfx", certPEM(s.TLS.Certificates[0]), "TOKEN"), "{TOKEN}", "{tokenFile: "+token+"}", 1))
	if err != nil {
		t.Fatal(err)
	}
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	e := &engine{}
	src := followBy(t, access, e)
	waitUntil(t, "the old token is refused", func() bool { return strings.Contains(src.Status().String(), "401") })
	write(t, token, "tok-1\n")
	s.wantState(t, "succeeded")
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	s.CloseClientConnections()
	waitUntil(t, "the missing file is reported", func() bool { return strings.Contains(src.Status().String(), "tokenFile") })
	write(t, token, "tok-1\n")
	waitUntil(t, "it is well again", func() bool { return src.Status().Connected })
}

// TestClientCertificateIsReadAnew for each connection.
func TestClientCertificateIsReadAnew(t *testing.T) {
	t.Parallel()
	clients := newAuthority("clients")
	pool := x509.NewCertPool()
	pool.AddCert(clients.cert)
	ours := newAuthority("ours")
	own := ours.issue(time.Now().Add(-time.Hour), "127.0.0.1")
	var seen sync.Map
	s := newServer(t, func(s *server) {
		s.ca = ours.pem
		s.config = func() *tls.Config {
			c := serve(own)
			c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, pool
			return c
		}
	})
	s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
		seen.Store(r.TLS.PeerCertificates[0].Subject.CommonName, true)
		if r.Header.Get("Authorization") != "" {
			t.Error("a header beside the certificate")
		}
		r.Header.Set("Authorization", "Bearer tok-1") // this server asks for one
		return false
	})
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	put := func(name string, from time.Time) {
		pair := clients.issue(from, name)
		write(t, key, keyPEM(pair))
		write(t, cert, certPEM(pair))
	}
	put("first", time.Now().Add(-time.Hour))
	access, err := ParseKubeconfig(kubeconfigText(s.URL+"/pfx", ours.pem, "client-certificate: "+cert+", client-key: "+key))
	if err != nil {
		t.Fatal(err)
	}
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	src := followBy(t, access, &engine{})
	s.wantState(t, "succeeded")
	put("expired", time.Now().AddDate(-1, 0, 0))
	s.CloseClientConnections()
	waitUntil(t, "the expired one is refused", func() bool { return src.Status().Cause != nil })
	put("second", time.Now().Add(-time.Hour))
	waitUntil(t, "the new one is shown", func() bool { _, ok := seen.Load("second"); return ok })
	if _, ok := seen.Load("first"); !ok {
		t.Error("the first one was never shown")
	}
}

// TestProxy goes by the proxy of the kubeconfig, with the certificate still that of the server.
func TestProxy(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var asked atomic.Pointer[http.Request]
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r)
		there, err := net.Dial("tcp", s.Listener.Addr().String())
		if r.Method != http.MethodConnect || err != nil {
			w.WriteHeader(502)
			return
		}
		here, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		join(here, buffered.Reader, there)
	}))
	t.Cleanup(proxy.Close)
	text := kubeconfigText("https://example.com:6443/pfx", certPEM(s.TLS.Certificates[0]), "token: tok-1")
	access, err := ParseKubeconfig(strings.Replace(text, "  cluster:\n", "  cluster:\n    proxy-url: http://me:pw@"+proxy.Listener.Addr().String()+"\n", 1))
	if err != nil {
		t.Fatal(err)
	}
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	followBy(t, access, &engine{})
	s.wantState(t, "succeeded")
	if r := asked.Load(); r.Host != "example.com:6443" || r.Header.Get("Proxy-Authorization") != "Basic bWU6cHc=" || r.Header.Get("Authorization") != "" {
		t.Errorf("the proxy was asked for %s with %v", r.Host, r.Header)
	}
}

// join carries bytes both ways until one side ends.
func join(here net.Conn, more *bufio.Reader, there net.Conn) {
	go func() {
		io.Copy(there, more)
		there.Close()
	}()
	io.Copy(here, there)
	here.Close()
}

// TestServerName: tls-server-name is the name that the certificate has to have.
func TestServerName(t *testing.T) {
	t.Parallel()
	ours := newAuthority("ours")
	cert := ours.issue(time.Now().Add(-time.Hour), "plans.example")
	s := newServer(t, func(s *server) { s.config, s.ca = func() *tls.Config { return serve(cert) }, ours.pem })
	for name, trusted := range map[string]bool{"plans.example": true, "other.example": false} {
		text := kubeconfigText(s.URL+"/pfx", ours.pem, "token: tok-1")
		access, err := ParseKubeconfig(strings.Replace(text, "  cluster:\n", "  cluster:\n    tls-server-name: "+name+"\n", 1))
		if err != nil {
			t.Fatal(err)
		}
		c := newClient(access, namespace, secretName, "test", time.Now)
		err = c.version(t.Context())
		var wrong x509.HostnameError
		if (err == nil) != trusted || (!trusted && !errors.As(err, &wrong)) {
			t.Errorf("%s: %v", name, err)
		}
		c.close()
	}
}
