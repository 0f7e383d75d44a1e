package hosts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel"
)

// hosts are tunnels without websockets: subjects, and what their dials give.
type hosts map[string]func(network, address string) (net.Conn, error)

func (h hosts) Dial(_ context.Context, subject string, to tunnel.Target) (net.Conn, error) {
	if h[subject] == nil {
		return nil, &tunnel.NoSessionError{Subject: subject}
	}
	return h[subject](to.Network, to.Address)
}

func (h hosts) Sessions() []tunnel.SessionInfo {
	var all []tunnel.SessionInfo
	for subject := range h {
		all = append(all, tunnel.SessionInfo{Subject: subject, Connections: 3})
	}
	return all
}

func (h hosts) Connected(subject string) (time.Time, bool) { return time.Time{}, h[subject] != nil }

// held is a presence that never changes.
type held map[string][]records.Replica

func (h held) Holders(subject string) []records.Replica   { return h[subject] }
func (h held) Connected(subject string) (time.Time, bool) { return time.Time{}, len(h[subject]) > 0 }

const secret = "shared-secret"

// holder is a server with tunnels, behind real TLS.
func holder(t *testing.T, local hosts) (*httptest.Server, *tls.Config) {
	t.Helper()
	web := httptest.NewTLSServer(newRelay(relayOptions{Local: local, Presence: held{}, Secret: secret, Logger: slog.New(slog.DiscardHandler)}))
	t.Cleanup(web.Close)
	pool := x509.NewCertPool()
	pool.AddCert(web.Certificate())
	return web, &tls.Config{RootCAs: pool}
}

func echo(network, address string) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		fmt.Fprintf(there, "%s %s\n", network, address)
		_, _ = io.Copy(there, there)
	}()
	return here, nil
}

func TestDialThroughAnotherServer(t *testing.T) {
	t.Parallel()
	web, trust := holder(t, hosts{
		"c:m-1": echo,
		"c:m-refused": func(n, a string) (net.Conn, error) {
			return nil, &tunnel.RefusedError{Network: n, Address: a, Reason: "not offered"}
		},
		"c:m-broken": func(string, string) (net.Conn, error) { return nil, errors.New("disk on fire") },
	})
	elsewhere := []records.Replica{{ID: "b", URL: web.URL}}
	r := newRelay(relayOptions{
		Local: hosts{"c:m-here": echo}, Secret: secret, TLS: trust, Logger: slog.New(slog.DiscardHandler),
		Presence: held{"c:m-1": elsewhere, "c:m-refused": elsewhere, "c:m-broken": elsewhere, "c:m-gone": elsewhere},
	})
	for _, subject := range []string{"c:m-1", "c:m-here"} {
		c, err := r.Dial(t.Context(), subject, tunnel.Target{Network: "unix", Address: "/var/run/docker.sock"})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"unix /var/run/docker.sock\n", "ping"} {
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
				t.Errorf("%s: got %q, %v", subject, got, err)
			}
			go fmt.Fprint(c, "ping") // a pipe has no buffer
		}
		c.Close()
	}
	if _, err := r.Dial(t.Context(), "c:m-refused", tunnel.Target{Network: "tcp", Address: "10.0.0.1:22"}); !is[*tunnel.RefusedError](err) || !strings.Contains(err.Error(), "not offered") {
		t.Errorf("refused: %v", err)
	}
	for _, subject := range []string{"c:m-gone", "c:m-unknown"} {
		if _, err := r.Dial(t.Context(), subject, tunnel.Target{Network: "tcp", Address: "x:1"}); !is[*tunnel.NoSessionError](err) {
			t.Errorf("%s: %v", subject, err)
		}
	}
	if _, err := r.Dial(t.Context(), "c:m-broken", tunnel.Target{Network: "tcp", Address: "x:1"}); err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("broken: %v", err)
	}
}

func is[T error](err error) bool { _, ok := errors.AsType[T](err); return ok }

// The end of either side ends the other.
func TestEnds(t *testing.T) {
	t.Parallel()
	ends := make(chan net.Conn, 1)
	web, trust := holder(t, hosts{"c:m-1": func(string, string) (net.Conn, error) {
		here, there := net.Pipe()
		ends <- there
		return here, nil
	}})
	r := newRelay(relayOptions{
		Local: hosts{}, Secret: secret, TLS: trust, Logger: slog.New(slog.DiscardHandler),
		Presence: held{"c:m-1": {{ID: "b", URL: web.URL}}},
	})
	for _, first := range []string{"asker", "host"} {
		c, err := r.Dial(t.Context(), "c:m-1", tunnel.Target{Network: "tcp", Address: "x:1"})
		if err != nil {
			t.Fatal(err)
		}
		host := <-ends
		closing, waiting := c, host
		if first == "host" {
			closing, waiting = host, c
		}
		closing.Close()
		// A pipe that has ended already takes no deadline and needs none.
		if err := waiting.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Fatal(err)
		}
		if _, err := waiting.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("when the %s closed, the other side saw %v", first, err)
		}
		waiting.Close()
	}
}

// A direction ends alone: who sends no more still hears the host.
func TestHalfClose(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	web, trust := holder(t, hosts{"c:m-1": func(string, string) (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }})
	r := newRelay(relayOptions{
		Local: hosts{}, Secret: secret, TLS: trust, Logger: slog.New(slog.DiscardHandler),
		Presence: held{"c:m-1": {{ID: "b", URL: web.URL}}},
	})
	c, err := r.Dial(t.Context(), "c:m-1", tunnel.Target{Network: "tcp", Address: "x:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	host, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	if _, err := io.WriteString(c, "question"); err != nil {
		t.Fatal(err)
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(host); string(got) != "question" || err != nil {
		t.Errorf("the host got %q, %v", got, err)
	}
	if _, err := io.WriteString(host, "answer"); err != nil {
		t.Error(err)
	}
	host.Close()
	if got, err := io.ReadAll(c); string(got) != "answer" || err != nil {
		t.Errorf("the asker got %q, %v", got, err)
	}
}

func TestWhoIsRefused(t *testing.T) {
	t.Parallel()
	web, trust := holder(t, hosts{"c:m-1": echo})
	for _, bad := range []struct {
		name     string
		header   http.Header
		status   int
		sentence string
	}{
		{"no secret", http.Header{"Upgrade": {"drover-relay"}, "Connection": {"Upgrade"}}, 401, "same etcd"},
		{"another secret", http.Header{"Authorization": {"Bearer x"}, "Upgrade": {"drover-relay"}, "Connection": {"Upgrade"}}, 401, "same etcd"},
		{"no upgrade", http.Header{"Authorization": {"Bearer " + secret}}, 426, "Upgrade"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+relayPath+"?subject=c:m-1&network=tcp&address=x:1", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = bad.header
		answer, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: trust}}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != bad.status || !strings.Contains(string(body), bad.sentence) {
			t.Errorf("%s: %d %s", bad.name, answer.StatusCode, body)
		}
	}
	other := newRelay(relayOptions{
		Local: hosts{}, Secret: "other", TLS: trust, Logger: slog.New(slog.DiscardHandler),
		Presence: held{"c:m-1": {{ID: "b", URL: web.URL}}, "c:m-2": {{ID: "b", URL: "http://x"}}},
	})
	if _, err := other.Dial(t.Context(), "c:m-1", tunnel.Target{Network: "tcp", Address: "x:1"}); err == nil || strings.Contains(err.Error(), "other") {
		t.Errorf("a server with another secret: %v", err)
	}
	if _, err := other.Dial(t.Context(), "c:m-2", tunnel.Target{Network: "tcp", Address: "x:1"}); err == nil || !strings.Contains(err.Error(), "https://") {
		t.Errorf("a server with a strange address: %v", err)
	}
	unknown := newRelay(relayOptions{
		Local: hosts{}, Secret: secret, TLS: &tls.Config{RootCAs: x509.NewCertPool()}, Logger: slog.New(slog.DiscardHandler),
		Presence: held{"c:m-1": {{ID: "b", URL: web.URL}}},
	})
	if _, err := unknown.Dial(t.Context(), "c:m-1", tunnel.Target{Network: "tcp", Address: "x:1"}); err == nil {
		t.Error("a server of an unknown authority was trusted")
	}
}

func TestTunnelsOfAllServers(t *testing.T) {
	t.Parallel()
	web, trust := holder(t, hosts{"c:m-2": echo})
	mux := http.NewServeMux()
	there := newRelay(relayOptions{Local: hosts{"c:m-2": echo}, Presence: held{}, Secret: secret, Logger: slog.New(slog.DiscardHandler)})
	mux.HandleFunc(sessionsPath, there.Serve(func() any { return hosts{"c:m-2": echo}.Sessions() }))
	web.Config.Handler = mux
	here := relayOptions{Local: hosts{"c:m-1": echo}, Presence: held{}, Secret: secret, TLS: trust, Logger: slog.New(slog.DiscardHandler)}
	own := HeldTunnels{Server: "https://here", Value: hosts{"c:m-1": echo}.Sessions()}
	ask := func(others ...string) []HeldTunnels {
		var all []records.Replica
		for _, url := range others {
			all = append(all, records.Replica{URL: url})
		}
		return askServers(t.Context(), newRelay(here), sessionsPath, own, all)
	}
	all := ask(web.URL, "https://127.0.0.1:1")
	if len(all) != 3 || all[0].Server != "https://here" || all[0].Value[0].Subject != "c:m-1" {
		t.Fatalf("%+v", all)
	}
	if s := all[1]; s.Fault != "" || len(s.Value) != 1 || s.Value[0].Subject != "c:m-2" || s.Value[0].Connections != 3 {
		t.Errorf("the other server: %+v", s)
	}
	if s := all[2]; !strings.Contains(s.Fault, "ask server https://127.0.0.1:1") {
		t.Errorf("a server that is gone: %+v", s)
	}
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the secret was sent without TLS") }))
	defer plain.Close()
	if all = ask(plain.URL); !strings.Contains(all[1].Fault, "not of the form https://") {
		t.Errorf("a server without TLS: %+v", all[1])
	}
	here.Secret = "wrong"
	if all = ask(web.URL); !strings.Contains(all[1].Fault, "401") {
		t.Errorf("with a wrong secret: %+v", all[1])
	}
}
