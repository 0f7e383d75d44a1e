package client_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

// serve is a client of a server that answers by a handler.
func serve(t *testing.T, retry time.Duration, h http.Handler) *client.Client {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	return clientOf(t, server, retry)
}

func clientOf(t *testing.T, server *httptest.Server, retry time.Duration) *client.Client {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c, err := client.New(client.Config{Server: server.URL + "/", Token: "t:k", CA: string(ca), Agent: "test", Retry: retry})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A redirect, also one to the same host, gets no request with the token.
func TestNoRedirectIsFollowed(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/", http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect))
	mux.HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	c := serve(t, time.Minute, mux) // it is not asked again either
	for name, ask := range map[string]func() error{
		"get":  func() error { return c.Get(t.Context(), "/v1-drover/clusters", nil) },
		"dial": func() error { _, err := c.Dial(t.Context(), "fleet-default/m", "docker"); return err },
	} {
		err := ask()
		if redirected, ok := errors.AsType[*client.RedirectError](err); !ok || !strings.HasSuffix(redirected.To, "/elsewhere") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []client.Config{{Server: "http://drover"}, {Server: "drover:443"}, {Server: ""}, {Server: "https://drover", CA: "no PEM"}} {
		if _, err := client.New(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

func TestRefusalsAreTyped(t *testing.T) {
	status, body := 0, ""
	c := serve(t, 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t:k" || r.Header.Get("User-Agent") != "test" {
			t.Errorf("a request has the header %v", r.Header)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	for _, tc := range []struct {
		status int
		body   string
		is     error
		text   string
	}{
		{401, `{"code":"Unauthorized","message":"the token has expired"}`, client.ErrUnauthorized, "the token has expired"},
		{401, `{"message":"must authenticate"}`, client.ErrUnauthorized, "the server does not know this token"},
		{403, `{"message":"you may not"}`, client.ErrForbidden, "you may not"},
		{404, ``, client.ErrNotFound, "the server answered 404 Not Found"},
		{409, `{"message":"it has changed"}`, client.ErrConflict, "it has changed"},
		{422, `{"code":"InvalidOption","fieldName":"version","message":"unknown"}`, nil, "unknown"},
		{502, "<html>bad gateway</html>", nil, "<html>bad gateway</html>"},
	} {
		status, body = tc.status, tc.body
		_, err := c.Clusters().Get(t.Context(), "fleet-default/prod")
		refused, ok := errors.AsType[*client.Error](err)
		if !ok || refused.Status != tc.status || err.Error() != tc.text || refused.Server != c.Server() {
			t.Errorf("%d: %v", tc.status, err)
		}
		for _, kind := range []error{client.ErrUnauthorized, client.ErrForbidden, client.ErrNotFound, client.ErrConflict} {
			if errors.Is(err, kind) != (errors.Is(tc.is, kind)) {
				t.Errorf("%d is %v: %v", tc.status, kind, errors.Is(err, kind))
			}
		}
		if tc.status == 422 && (refused.Field != "version" || refused.Code != "InvalidOption") {
			t.Errorf("%+v", refused)
		}
	}
}

func TestWhoIsNotReachedOrTrusted(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	strange, err := client.New(client.Config{Server: server.URL, Retry: time.Minute}) // nor is it asked again
	if err != nil {
		t.Fatal(err)
	}
	if _, err := strange.Clusters().List(t.Context()); !isType[*client.TrustError](err) {
		t.Errorf("a server that is not trusted: %v", err)
	}
	// Nor does the authority of another server make this one trusted.
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(nil, authority, authority, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	other, err := client.New(client.Config{Server: server.URL, CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Clusters().List(t.Context()); !isType[*client.TrustError](err) {
		t.Errorf("a server of another authority: %v", err)
	}
	c := clientOf(t, server, 0)
	server.Close()
	if _, err := c.Clusters().List(t.Context()); !isType[*client.ReachError](err) {
		t.Errorf("a server that is gone: %v", err)
	}
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// What may be done twice is asked again, and nothing else.
func TestRetries(t *testing.T) {
	for _, tc := range []struct {
		name   string
		method string
		status int
		want   int32 // requests
	}{
		{"a request that reads, of a server that is busy", "GET", 503, 3},
		{"a request that reads, of a server that is asked too often", "GET", 429, 3},
		{"a change, of a server that is asked too often", "POST", 429, 3},
		{"a change that may have been made", "POST", 503, 1},
		{"a fault", "GET", 500, 1},
		{"a refusal", "GET", 404, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			c := serve(t, 10*time.Second, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if b, err := io.ReadAll(r.Body); err != nil || tc.method == "POST" && string(b) != `"body"` {
					t.Errorf("the body of request %d is %q, %v", asked.Load()+1, b, err)
				}
				if asked.Add(1) < 3 {
					w.Header().Set("Retry-After", "0")
					w.WriteHeader(tc.status)
					return
				}
				fmt.Fprint(w, `{}`)
			}))
			body := any(nil)
			if tc.method == "POST" {
				body = "body"
			}
			err := c.Send(t.Context(), tc.method, "/", body, nil)
			if got := asked.Load(); got != tc.want || (err == nil) != (tc.want == 3) {
				t.Errorf("%d requests, %v", got, err)
			}
		})
	}
}

// A server that asks to be left alone for longer than the client has time is not asked again.
func TestRetriesEnd(t *testing.T) {
	c := serve(t, 300*time.Millisecond, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	_, err := c.Clusters().List(t.Context())
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.RetryAfter != time.Hour {
		t.Errorf("%v", err)
	}
}

// A server that restarts is found again.
func TestRetryReachesAServerThatComesLater(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[]}`) }))
	server.StartTLS()
	c := clientOf(t, server, time.Minute)
	address := server.Listener.Addr().String()
	certificates := server.TLS.Certificates
	server.Close()
	done := make(chan error, 1)
	go func() {
		_, err := c.Clusters().List(t.Context())
		done <- err
	}()
	time.Sleep(400 * time.Millisecond)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	again := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[]}`) })}}
	again.TLS = server.TLS.Clone()
	again.TLS.Certificates = certificates
	again.StartTLS()
	defer again.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestListsHaveAllPages(t *testing.T) {
	var asked []string
	c := serve(t, 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		page := apitypes.List[apitypes.Machine]{Data: []apitypes.Machine{{Name: "m" + r.URL.Query().Get("continue")}}}
		if len(asked) < 3 {
			page.Continue = fmt.Sprintf("a/%d", len(asked))
		}
		if err := json.NewEncoder(w).Encode(page); err != nil {
			t.Error(err)
		}
	}))
	all, err := c.Machines().List(t.Context(), "c-1")
	if err != nil || len(all) != 3 || all[0].Name != "m" || all[2].Name != "ma/2" {
		t.Errorf("%v, %v", all, err)
	}
	if want := "/v1-drover/machines?cluster=c-1&continue=a%2F2&limit=1000"; asked[2] != want {
		t.Errorf("the last page was asked for by %s, not %s", asked[2], want)
	}
	asked = nil
	for one, err := range client.Each[apitypes.Machine](t.Context(), c, client.MachinesPath) {
		if err != nil || one.Name != "m" {
			t.Error(one.Name, err)
		}
		break
	}
	if len(asked) != 1 {
		t.Errorf("%d pages were asked for, and one was read", len(asked))
	}
}

// A watch goes on after the connection is lost, says so, and ends with a refusal.
func TestWatch(t *testing.T) {
	var asked atomic.Int32
	c := serve(t, 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "follow=true&gone=true" {
			t.Errorf("asked with %s", r.URL.RawQuery)
		}
		switch asked.Add(1) {
		case 1:
			fmt.Fprint(w, "{\"name\":\"a\"}\n\n{\"name\":\"b\"}\n{\"name\":\"a\",\"gone\":true}\n")
		case 2:
			fmt.Fprint(w, "{\"name\":\"b\"}\n")
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	var got []string
	for change, err := range c.Machines().Watch(t.Context(), "") {
		switch {
		case err != nil && errors.Is(err, client.ErrForbidden):
			got = append(got, "forbidden")
		case err != nil:
			t.Error(err)
		case change.Lost != nil:
			got = append(got, "lost")
		case change.Again:
			got = append(got, "again")
		case change.Gone:
			got = append(got, change.Thing.Name+" gone")
		default:
			got = append(got, change.Thing.Name)
		}
	}
	if text := strings.Join(got, ", "); text != "a, b, a gone, lost, again, b, lost, forbidden" {
		t.Error(text)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	c := serve(t, 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "{\"name\":\"a\"}\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range c.Machines().Watch(ctx, "") {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("it ended with %v", last)
	}
}

// What a server sends without an end is not kept, and what a list promises without an end is not asked for.
func TestAnswersWithoutEnd(t *testing.T) {
	var pages atomic.Int32
	c := serve(t, 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("follow") == "" {
			pages.Add(1)
			fmt.Fprint(w, `{"data":[{"name":"a"}],"continue":"a/1"}`)
			return
		}
		block := []byte(strings.Repeat(" ", 1<<20) + "[")
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	if _, err := c.Machines().List(t.Context(), ""); err == nil || pages.Load() != 2 {
		t.Errorf("%d pages that lead to themselves: %v", pages.Load(), err)
	}
	for change, err := range c.Machines().Watch(t.Context(), "") {
		if err != nil || !errors.Is(change.Lost, bufio.ErrTooLong) {
			t.Errorf("a line without end: %+v, %v", change.Lost, err)
		}
		break
	}
}

// A client with retries leaves the client that it was made of as it is.
func TestWithRetry(t *testing.T) {
	var asked atomic.Int32
	c := serve(t, 0, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 2 {
			fmt.Fprint(w, `{}`)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	if err := c.WithRetry(time.Minute).Get(t.Context(), "/", nil); err != nil || asked.Load() != 2 {
		t.Errorf("%d requests, %v", asked.Load(), err)
	}
	if err := c.Get(t.Context(), "/", nil); err == nil || asked.Load() != 3 {
		t.Errorf("the client before makes %d requests, %v", asked.Load()-2, err)
	}
}

func TestWaitOperation(t *testing.T) {
	c := serve(t, 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1-drover/operations/op-none" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, "{\"id\":\"op-1\",\"state\":\"running\"}\n{\"id\":\"op-1\",\"state\":\"failed\",\"reason\":\"no space left\"}\n{\"id\":\"op-1\",\"state\":\"running\"}\n")
	}))
	o, err := c.Operations().Wait(t.Context(), "op-1")
	if err != nil || o.State != apitypes.OperationFailed || o.Reason != "no space left" {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := c.Operations().Wait(t.Context(), "op-none"); !errors.Is(err, client.ErrNotFound) {
		t.Error(err)
	}
}
