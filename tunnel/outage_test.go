package tunnel

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
)

// A redirect is no answer of the server, and nothing is asked where it leads.
func TestPingFollowsNoRedirect(t *testing.T) {
	var moved atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/ping", func(w http.ResponseWriter, r *http.Request) {
		if moved.Load() {
			http.Redirect(w, r, "/portal", http.StatusFound)
		}
	})
	mux.HandleFunc("/portal", func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	c := NewClient(ClientOptions{})
	c.url = at
	c.reset(&tls.Config{RootCAs: pool})
	if !c.ping(t.Context()) {
		t.Error("the server answers, and ping says no")
	}
	moved.Store(true)
	if c.ping(t.Context()) {
		t.Error("ping takes a redirect for an answer")
	}
}
