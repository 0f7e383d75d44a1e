package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/drover-project/drover/tunnel"
)

// newToken is a token of the administrator's, and what deletes it.
func (s *whole) newToken(admin, body string) (token string, revoke func()) {
	s.Helper()
	status, text := s.ask(admin, http.MethodPost, "/v3/tokens", body)
	var made struct{ Token, ID string }
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusCreated {
		s.Fatal(status, text, err)
	}
	return made.Token, func() {
		s.Helper()
		if status, text := s.ask(admin, http.MethodDelete, "/v3/tokens/"+made.ID, ""); status >= 300 {
			s.Fatal(status, text)
		}
	}
}

// endsSoon wants a stream to go on now, and to have ended two seconds after an act.
func endsSoon(t *testing.T, what string, ended <-chan struct{}, act func()) {
	t.Helper()
	select {
	case <-ended:
		t.Fatalf("%s: it ended by itself", what)
	case <-time.After(100 * time.Millisecond):
	}
	act()
	select {
	case <-ended:
	case <-time.After(2 * time.Second):
		t.Errorf("%s: it goes on after two seconds", what)
	}
}

// subscribe opens /v3/subscribe. ended is closed when the server ends it.
func (s *whole) subscribe(token string) (ended <-chan struct{}) {
	s.Helper()
	dialer := websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: s.roots()}}
	conn, answer, err := dialer.DialContext(s.Context(), "wss"+strings.TrimPrefix(s.url, "https")+"/v3/subscribe", http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		s.Fatal(answer, err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			if _, _, err := conn.ReadMessage(); err != nil {
				return
			}
		}
	}()
	s.Cleanup(func() { conn.Close(); <-over })
	return over
}

// tunnelOf opens the tunnel of a system agent. ended is closed when the server ends it.
func (s *whole) tunnelOf(token string) (ended <-chan struct{}) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	opened, over, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	client := tunnel.NewClient(tunnel.ClientOptions{
		URL:    "wss" + strings.TrimPrefix(s.url, "https") + "/v3/connect/machine",
		Header: func() http.Header { return http.Header{"Authorization": {"Bearer " + token}} },
		TLS:    &tls.Config{RootCAs: s.roots()},
		Dial:   func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed },
		Changed: func(status tunnel.Status) {
			switch {
			case status.State == tunnel.Connected:
				close(opened)
			case status.Cause != nil && ctx.Err() == nil:
				close(over)
				cancel()
			}
		},
	})
	go func() {
		defer close(gone)
		_ = client.Run(ctx)
	}()
	s.Cleanup(func() { cancel(); <-gone })
	<-opened
	return over
}

func TestStreamsEndWithTheirToken(t *testing.T) {
	tunnel.LogTo(slog.New(slog.DiscardHandler))
	s := startWhole(t, "", "")
	admin := s.administrator()
	s.apply(admin, harbour)

	token, revoke := s.newToken(admin, `{"type":"token"}`)
	_, ended := s.follow(token, "/api/v1/secrets?watch=true")
	subscribed := s.subscribe(token)
	endsSoon(t, "an administrator's watch, token deleted", ended, revoke)
	alsoEnds(t, "a subscription, token deleted", subscribed)

	token, _ = s.newToken(admin, `{"type":"token","ttl":3000}`)
	expires := time.Now().Add(3 * time.Second)
	_, ended = s.follow(token, "/api/v1/secrets?watch=true")
	subscribed = s.subscribe(token)
	untilThen := func() { time.Sleep(time.Until(expires)) }
	endsSoon(t, "an administrator's watch, token expired", ended, untilThen)
	alsoEnds(t, "a subscription, token expired", subscribed)

	old, namespace, secret := s.register(admin)
	_, ended = s.watch(old, namespace, secret)
	through := s.tunnelOf(old)
	token, _, _ = s.register(admin, old)
	var successor <-chan struct{}
	endsSoon(t, "an agent's watch, token replaced", ended, func() { _, successor = s.watch(token, namespace, secret) })
	alsoEnds(t, "a system agent's tunnel, token replaced", through)

	through = s.tunnelOf(token)
	machine := strings.TrimSuffix(secret, "-machine-plan")
	_, text := s.ask(admin, http.MethodGet, "/v1-drover/machines/"+namespace+"/"+machine, "")
	var shown struct{ NodeID string }
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		t.Fatal(err, text)
	}
	endsSoon(t, "an agent's watch, machine removed", successor, func() {
		if status, text := s.ask(admin, http.MethodDelete, "/v3/nodes/"+shown.NodeID+"?force=true", ""); status >= 300 {
			t.Fatal(status, text)
		}
	})
	alsoEnds(t, "a system agent's tunnel, machine removed", through)
	// Its successor has the same name, and no tunnel.
	s.register(admin)
	if _, text := s.ask(admin, http.MethodGet, "/v1-drover/tunnels", ""); strings.Contains(text, machine) {
		t.Errorf("the tunnel of the removed machine counts as its successor's: %s", text)
	}
}

// alsoEnds wants a stream to have ended by what another one ended by.
func alsoEnds(t *testing.T, what string, ended <-chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(2 * time.Second):
		t.Errorf("%s: it goes on after two seconds", what)
	}
}
