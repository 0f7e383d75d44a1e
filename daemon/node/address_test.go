package node

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestMetadataServices(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ip", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("192.0.2.7\n")) })
	mux.HandleFunc("/text", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("192.0.2.7; rm")) })
	mux.Handle("/away", http.RedirectHandler("/ip", http.StatusFound))
	service := httptest.NewServer(mux)
	defer service.Close()
	for path, want := range map[string]string{"/ip": "192.0.2.7", "/text": "200 OK and no address", "/away": "302 Found and no address", "/none": "404 Not Found and no address"} {
		got, err := resolve(t.Context(), "--address", "cloud", map[string]metadata{"cloud": {url: service.URL + path}})
		if got != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}
