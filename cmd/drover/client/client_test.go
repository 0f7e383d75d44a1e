package client_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drover-project/drover/cmd/drover/client"
)

// A redirect, also one to the same host, gets no request with the token.
func TestNoRedirectIsFollowed(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/", http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect))
	mux.HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c, err := client.New(client.Context{Server: server.URL, Token: "t", CA: string(ca)})
	if err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func() error{
		"get":  func() error { return c.Get(t.Context(), "/v1-drover/clusters", nil) },
		"dial": func() error { _, err := c.Dial(t.Context(), "fleet-default/m", "docker"); return err },
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), "redirects to") || !strings.Contains(err.Error(), "--server") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
