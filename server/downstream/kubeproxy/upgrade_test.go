package kubeproxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The protocols of kubectl: its own of today, and that of earlier versions.
var protocols = []struct{ name, headers, wants, chosen string }{
	{"websocket", "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: SGVsbG8sIHdvcmxkISEhIQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n", "Sec-Websocket-Protocol", "v5.channel.k8s.io"},
	{"SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io\r\nX-Stream-Protocol-Version: channel.k8s.io\r\n", "X-Stream-Protocol-Version", "v4.channel.k8s.io"},
}

const shell = "/k8s/clusters/c-m-abcd2345/api/v1/namespaces/default/pods/quay/exec?command=sh&stdin=true"

// forEachProtocol runs a test with the request for a shell.
func forEachProtocol(t *testing.T, run func(t *testing.T, name, request string)) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			run(t, p.name, "POST "+shell+" HTTP/1.1\r\nHost: drover\r\nConnection: Upgrade\r\nUpgrade: "+p.name+"\r\n"+p.headers+"Content-Length: 0\r\n\r\n")
		})
	}
}

// grant takes a request's connection over at the cluster and says something behind the answer, in one piece with it.
func grant(t *testing.T, w http.ResponseWriter, r *http.Request, behind string) net.Conn {
	t.Helper()
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return nil
	}
	chosen := ""
	for _, p := range protocols {
		if r.Header.Get("Upgrade") == p.name && strings.Contains(r.Header.Get(p.wants), p.chosen) {
			chosen = p.wants + ": " + p.chosen + "\r\n"
		}
	}
	if _, err := fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s\r\n%s", r.Header.Get("Upgrade"), chosen, behind); err != nil {
		t.Error(err)
	}
	if err := rw.Flush(); err != nil {
		t.Error(err)
	}
	return conn
}

func TestAnUpgradeCarriesBytesBothWays(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, name, request string) {
		s := overSockets(t, member, func(w http.ResponseWriter, r *http.Request) {
			conn := grant(t, w, r, "$ ")
			defer conn.Close()
			_, _ = io.Copy(conn, conn) // says again what it hears
		})
		conn, from := s.dial()
		s.say(conn, request+"early;")
		response, _ := s.answer(from)
		if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Upgrade") != name {
			t.Fatalf("%d %v", response.StatusCode, response.Header)
		}
		for _, p := range protocols {
			if p.name == name && response.Header.Get(p.wants) != p.chosen {
				t.Errorf("%s = %q", p.wants, response.Header.Get(p.wants))
			}
		}
		s.hear(from, "$ early;")
		long := strings.Repeat("0123456789abcdef", 1<<14) // a quarter of a MiB
		go func() { _, _ = io.WriteString(conn, long+"end") }()
		s.hear(from, long+"end")
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(from); err != nil || len(rest) > 0 {
			t.Errorf("after the end came %q, %v", rest, err)
		}
		_ = conn.Close()
		s.done()
		if came, _ := s.came(); came[0].URL.RequestURI() != strings.TrimPrefix(shell, "/k8s/clusters/c-m-abcd2345") || came[0].Header.Get("Impersonate-User") != member.UserID {
			t.Errorf("the cluster got %s of %q", came[0].URL, came[0].Header.Get("Impersonate-User"))
		}
	})
}

// TestARefusedUpgrade comes through as the cluster has it, and what is sent behind it is another request of the caller.
func TestARefusedUpgrade(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusNotFound} {
		status := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"message":"pods \"quay\" is what this is about"}`, code)
		forEachProtocol(t, func(t *testing.T, name, request string) {
			s := overSockets(t, member, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				_, _ = io.WriteString(w, status)
			})
			conn, from := s.dial()
			s.say(conn, request+"GET /k8s/clusters/c-m-abcd2345/version HTTP/1.1\r\nHost: drover\r\nImpersonate-User: user-abcde\r\n\r\n")
			response, body := s.answer(from)
			if response.StatusCode != code || body != status || response.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%d %v: %s", response.StatusCode, response.Header, body)
			}
			if response, body := s.answer(from); response.StatusCode != http.StatusForbidden || !strings.Contains(body, "only who owns the cluster") {
				t.Errorf("the request behind it: %d: %s", response.StatusCode, body)
			}
			if came, _ := s.came(); len(came) != 1 {
				t.Errorf("%d requests reached the cluster", len(came))
			}
		})
	}
}

func TestWhenTheCallerOfAnUpgradeGoesAway(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, _, request string) {
		ended := make(chan error, 1)
		s := overSockets(t, member, func(w http.ResponseWriter, r *http.Request) {
			conn := grant(t, w, r, "$ ")
			defer conn.Close()
			_, err := io.Copy(io.Discard, conn)
			ended <- err
		})
		conn, from := s.dial()
		s.say(conn, request)
		s.answer(from)
		s.hear(from, "$ ")
		_ = conn.NetConn().Close() // as of a kubectl that is killed
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("the cluster's connection stays open")
		}
		s.done()
	})
}

func TestWhenTheClusterOfAnUpgradeGoesAway(t *testing.T) {
	forEachProtocol(t, func(t *testing.T, _, request string) {
		s := overSockets(t, member, func(w http.ResponseWriter, r *http.Request) {
			_ = grant(t, w, r, "bye").Close()
		})
		conn, from := s.dial()
		s.say(conn, request)
		s.answer(from)
		s.hear(from, "bye")
		if rest, err := io.ReadAll(from); len(rest) > 0 || err != nil {
			t.Errorf("then came %q, %v", rest, err)
		}
		_ = conn.Close()
		s.done()
	})
}
