package fetch_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/plans/fetch"
)

var small = fetch.Limit{Bytes: 10, Over: "it has more than 10 bytes"}

func site(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/text":
			w.Header().Set("ETag", `"one"`)
			if r.Header.Get("If-None-Match") == `"one"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			io.WriteString(w, "0123456789")
		case "/large":
			io.WriteString(w, "0123456789a")
		case "/elsewhere":
			http.Redirect(w, r, "/text", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/plain":
			http.Redirect(w, r, "http://"+r.Host+"/text", http.StatusFound)
		case "/words":
			hijacked, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(hijacked, "HTTP/1.1 500 hunter4\r\nContent-Length: 7\r\n\r\nhunter5")
			hijacked.Close()
		case "/banner":
			hijacked, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(hijacked, "SSH-2.0-hunter6\r\n")
			hijacked.Close()
		case "/lost":
			w.Header().Set("Content-Length", "9")
			io.WriteString(w, "0123")
		case "/badly":
			w.Header().Set("Location", "https://%zz-hunter7")
			w.WriteHeader(http.StatusFound)
		case "/unasked":
			w.WriteHeader(http.StatusNotModified)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestGet(t *testing.T) {
	s := site(t)
	for _, tt := range []struct {
		path, etag string
		text       string
		same       bool
		err        string
	}{
		{"/text", "", "0123456789", false, ""},
		{"/text", `"old"`, "0123456789", false, ""},
		{"/text", `"one"`, "", true, ""},
		{"/elsewhere", "", "0123456789", false, ""},
		{"/large", "", "", false, "it has more than 10 bytes"},
		{"/round", "", "", false, "it redirects ten times"},
		{"/plain", "", "", false, "it redirects to an address without encryption"},
		{"/unasked", "", "", false, "the server answers 304 Not Modified"},
		{"/words", "", "", false, "the server answers 500 Internal Server Error"},
		{"/banner", "", "", false, "it does not answer as a server of HTTP does"},
		{"/badly", "", "", false, "it does not answer as a server of HTTP does"},
		{"/lost", "", "", false, "it ended the connection"},
		{"/gone", "", "", false, "the server answers 404 Not Found"},
	} {
		address := strings.Replace(s.URL, "://", "://me:hunter2@", 1) + tt.path + "?key=hunter3"
		got, err := fetch.Get(t.Context(), fetch.Request{Address: address, ETag: tt.etag, Limit: small, Within: time.Minute, Transport: s.Client().Transport})
		said := ""
		if err != nil {
			said = err.Error()
		}
		if said != tt.err || string(got.Text) != tt.text || got.Same != tt.same || err == nil && got.ETag != `"one"` {
			t.Errorf("%s: %+v, %q; want %q, %q", tt.path, got, said, tt.text, tt.err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for location, want := range map[string]struct {
		address bool
		shown   string
	}{
		"/etc/data.json": {false, "/etc/data.json"}, "data.json": {false, "data.json"}, "ftp://a/b": {false, "ftp://a/b"},
		"https://me:pass@example.com/a?b=c#d": {true, "https://example.com/a"}, "http://a": {true, "http://a"}, "https://%zz:pass@": {true, "the address given"},
	} {
		if is, shown := fetch.IsAddress(location), fetch.Shown(location); is != want.address || shown != want.shown {
			t.Errorf("%s: %t, %s", location, is, shown)
		}
	}
	for _, address := range []string{"", "/etc/passwd", "https://", "https://%zz:pass@", "file:///etc/passwd"} {
		if _, err := fetch.Get(t.Context(), fetch.Request{Address: address, Limit: small, Within: time.Minute}); err == nil || !strings.HasPrefix(err.Error(), "it is not an address") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestGetEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := fetch.Request{Address: "https://me:pass@example.com/a", Limit: small, Within: 5 * time.Second, Transport: silent{}}
		if _, err := fetch.Get(t.Context(), q); err == nil || err.Error() != "no answer within 5s" {
			t.Errorf("a server that is silent: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := fetch.Get(ctx, q); err == nil || strings.Contains(err.Error(), "pass") {
			t.Errorf("somebody ended it: %v", err)
		}
	})
}

// TestRedirectedElsewhere: what was meant for one host does not come to another.
func TestRedirectedElsewhere(t *testing.T) {
	var got http.Header
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer first.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, first.URL+"/secret?token=hunter2", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer hunter2"}, "Cookie": {"a=hunter2"}}
	answer, err := (&http.Client{CheckRedirect: fetch.Redirect}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	for _, name := range []string{"Authorization", "Cookie", "Referer"} {
		if text := got.Get(name); text != "" {
			t.Errorf("%s: %s", name, text)
		}
	}
}
