package norman

import (
	"compress/gzip"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSplitPath(t *testing.T) {
	for _, c := range []struct {
		path string
		want []string
	}{
		{"/v3", []string{"v3"}},
		{"//v3///clusters/", []string{"v3", "clusters"}},
		{"/v3/principals/local:%2F%2Fu-bob", []string{"v3", "principals", "local://u-bob"}},
		{"/v3/nodes/a%20b", []string{"v3", "nodes", "a b"}},
		{"/", nil},
	} {
		p, err := SplitPath(c.path)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
		}
		if diff := cmp.Diff(c.want, p.Segments); diff != "" {
			t.Errorf("%s: %s", c.path, diff)
		}
	}
	if _, err := SplitPath("/v3/%zz"); err == nil {
		t.Error("a bad escape was taken")
	}
}

func TestLinksFollowTheRequest(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range []struct {
		name, remote, host, serverURL string
		header                        map[string]string
		tls                           bool
		want, source                  string
	}{
		{name: "plain", remote: "192.0.2.1:5", host: "h:80", want: "http://h:80", source: "192.0.2.1"},
		{name: "TLS", remote: "192.0.2.1:5", host: "h", tls: true, want: "https://h", source: "192.0.2.1"},
		{name: "server-url says https of this host", remote: "192.0.2.1:5", host: "h", serverURL: "https://H", want: "https://h", source: "192.0.2.1"},
		{name: "server-url of another host", remote: "192.0.2.1:5", host: "h", serverURL: "https://g", want: "http://h", source: "192.0.2.1"},
		{
			name: "headers of an untrusted client", remote: "192.0.2.1:5", host: "h", want: "http://h", source: "192.0.2.1",
			header: map[string]string{"X-Forwarded-Proto": "https", "X-API-Host": "evil", "X-API-URL-Prefix": "/p", "X-Forwarded-For": "10.1.1.1"},
		},
		{
			name: "headers of a proxy", remote: "10.0.0.9:5", host: "h", want: "https://ext", source: "192.0.2.7",
			header: map[string]string{"X-Forwarded-Proto": "wss", "X-Forwarded-Host": "ext, inner", "X-Forwarded-For": "203.0.113.1, 192.0.2.7, 10.0.0.8"},
		},
		{
			name: "X-API-Host comes first", remote: "10.0.0.9:5", host: "h", tls: true, want: "http://api/p/q", source: "10.0.0.9",
			header: map[string]string{"X-Forwarded-Proto": "ws", "X-Forwarded-Host": "ext", "X-API-Host": "api", "X-API-URL-Prefix": "/p/q/"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/v3", nil)
			r.RemoteAddr, r.Host = c.remote, c.host
			if c.tls {
				r.TLS = &tls.ConnectionState{}
			}
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			o := Origin{Trusted: trusted, ServerURL: func() string { return c.serverURL }}
			if got := o.URLs(r).Base; got != c.want {
				t.Errorf("base %s, want %s", got, c.want)
			}
			if got := o.Source(r); got != c.source {
				t.Errorf("source %s, want %s", got, c.source)
			}
		})
	}
}

// TestAliasesOfABodyAreBounded: a body of 2 KiB that stands for a thousand million values, and
// one of 215 KB that stands for 2.7 GB of text, are refused before anything of it is decoded; it once took 5 GiB.
func TestAliasesOfABodyAreBounded(t *testing.T) {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 8 {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	repeated := "a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a, ", 28_000) + "*a]\n"
	for text, want := range map[string]string{text: "more than 100000 values", repeated: "more than 4194304 bytes of text"} {
		r := httptest.NewRequest("POST", "/v3/pets", strings.NewReader(text))
		r.Header.Set("Content-Type", "application/yaml")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ReadInput(httptest.NewRecorder(), r, MaxBody)
		runtime.ReadMemStats(&after)
		e, ok := AsError(err)
		if !ok || e.Status != 422 || !strings.Contains(e.Message, want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<20 {
			t.Errorf("allocated %d MiB", allocated>>20)
		}
	}
}

func TestReadInput(t *testing.T) {
	for _, c := range []struct {
		name, contentType, body string
		want                    any
	}{
		{"JSON", "application/json", `{"name":"x"}`, "x"},
		{"no content type", "", `{"name":"x"}`, "x"},
		{"wrong content type", "text/plain", `{"name":"x"}`, "x"},
		{"broken content type", "a/b/c;;", `{"name":"x"}`, "x"},
		{"YAML", "application/yaml; charset=utf-8", "name: x\n", "x"},
		{"form", "application/x-www-form-urlencoded", "name=x&b=1", "x"},
		{"JSON by curl -d", "application/x-www-form-urlencoded", `{"name":"x"}`, "x"},
		{"empty", "application/json", " \n", ""},
		{"null field", "", `{"name":null}`, ""},
		{"list", "", `[1]`, 422},
		{"cut", "", `{"name":`, 422},
		{"two objects", "", `{} {}`, 422},
		{"YAML with a key that is a list", "application/yaml", "m: {[1]: x}\n", 422},
		{"YAML with a key twice", "application/yaml", "name: x\nname: y\n", 422},
		{"YAML with an alias of itself", "application/yaml", "m: &a [*a]\n", 422},
		{"too long", "", `{"name":"` + strings.Repeat("x", 100) + `"}`, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/v3/pets", strings.NewReader(c.body))
			if c.contentType != "" {
				r.Header.Set("Content-Type", c.contentType)
			}
			in, err := ReadInput(httptest.NewRecorder(), r, 64)
			if status, bad := c.want.(int); bad {
				e, ok := AsError(err)
				if !ok || e.Status != status {
					t.Fatalf("error %v, want status %d", err, status)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if name, err := in.String("name"); err != nil || name != c.want {
				t.Errorf("name %q, %v", name, err)
			}
		})
	}
}

func TestInputTypes(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader(`{"n":7,"t":"8","f":1.5,"o":{},"m":{"a":"b","c":null},"l":["x"],"b":true,"bad":{"k":1}}`))
	in, err := ReadInput(httptest.NewRecorder(), r, MaxBody)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"n": "7 <nil>", "t": "8 <nil>", "none": "0 <nil>",
		"f": `0 f: "1.5" is not a whole number`, "o": "0 o: a whole number is expected, not an object"} {
		n, err := in.Int(name)
		if got := fmt.Sprint(n, " ", err); got != want {
			t.Errorf("int %s: %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{"t": "8", "n": "n: a text is expected, not a number", "l": "l: a text is expected, not a list",
		"b": "b: a text is expected, not true or false", "none": "none: this field is required"} {
		s, err := in.Required(name)
		if err != nil {
			s = err.Error()
		}
		if s != want {
			t.Errorf("text %s: %s, want %s", name, s, want)
		}
	}
	set, removed, err := in.Map("m")
	if fmt.Sprint(set, removed, err) != "map[a:b] [c] <nil>" {
		t.Errorf("map: %v %v %v", set, removed, err)
	}
	if _, _, err := in.Map("bad"); err == nil {
		t.Error("a number was taken as text")
	}
	if _, _, err := in.Map("l"); err == nil {
		t.Error("a list was taken as a map")
	}
}

func TestNegotiation(t *testing.T) {
	value := map[string]any{"id": "a", "count": 3, "text": "3", "long": strings.Repeat("x<&", 700), "none": nil}
	for _, c := range []struct {
		name, target string
		header       map[string]string
		contentType  string
		encoding     string
	}{
		{"nothing asked", "/", nil, "application/json", ""},
		{"gzip", "/", map[string]string{"Accept-Encoding": "br, gzip;q=0.5"}, "application/json", "gzip"},
		{"gzip refused", "/", map[string]string{"Accept-Encoding": "gzip;q=0"}, "application/json", ""},
		{"YAML by Accept", "/", map[string]string{"Accept": "application/yaml"}, "application/yaml", ""},
		{"YAML by parameter", "/?_format=yaml", nil, "application/yaml", ""},
		{"JSON by parameter wins", "/?_format=json", map[string]string{"Accept": "application/yaml"}, "application/json", ""},
		{"browser", "/", map[string]string{"User-Agent": "Mozilla/5.0", "Accept": "text/html,*/*"}, "application/json", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", c.target, nil)
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			new(Replier).Send(w, r, http.StatusOK, value)
			h := w.Header()
			if h.Get("Content-Type") != c.contentType || h.Get("Content-Encoding") != c.encoding {
				t.Errorf("type %q encoding %q", h.Get("Content-Type"), h.Get("Content-Encoding"))
			}
			if h.Get("Expires") != "Wed 24 Feb 1982 18:42:00 GMT" || h.Get("Cache-Control") != "no-store" {
				t.Errorf("caching headers %v", h)
			}
			var body io.Reader = w.Body
			if c.encoding == "gzip" {
				z, err := gzip.NewReader(w.Body)
				if err != nil {
					t.Fatal(err)
				}
				body = z
			}
			data, err := io.ReadAll(body)
			if err != nil {
				t.Fatal(err)
			}
			if c.contentType == "application/yaml" {
				if !strings.Contains(string(data), "count: 3\n") || !strings.Contains(string(data), "text: \"3\"\n") {
					t.Errorf("YAML is %.80q", data)
				}
				return
			}
			var got map[string]any
			if err := json.Unmarshal(data, &got); err != nil || got["long"] != value["long"] {
				t.Errorf("%v: %.80s", err, data)
			}
		})
	}
}

func TestETag(t *testing.T) {
	p := new(Replier)
	ask := func(tag string, value any) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/v3/schemas", nil)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		p.SendTagged(w, r, value)
		return w
	}
	first := ask("", "a")
	tag := first.Header().Get("ETag")
	if first.Code != 200 || tag == "" {
		t.Fatalf("status %d, tag %q", first.Code, tag)
	}
	if again := ask(tag, "a"); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("same value: %d with %d bytes", again.Code, again.Body.Len())
	}
	if other := ask(tag, "b"); other.Code != 200 {
		t.Errorf("changed value: %d", other.Code)
	}
}

func TestErrorEnvelope(t *testing.T) {
	w := httptest.NewRecorder()
	e := &Error{Status: 429, Code: TooManyRequests, Field: "password", Message: "wait", RetryAfter: 1500 * time.Millisecond}
	new(Replier).Fail(w, httptest.NewRequest("GET", "/", nil), e)
	want := `{"baseType":"error","code":"TooManyRequests","fieldName":"password","message":"wait","status":429,"type":"error"}` + "\n"
	if w.Body.String() != want || w.Code != 429 || w.Header().Get("Retry-After") != "2" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func FuzzReadInput(f *testing.F) {
	f.Add("application/yaml", "a: &a [*a]")
	f.Add("application/json", `{"a":1}`)
	f.Add("application/x-www-form-urlencoded", "a=%zz")
	f.Fuzz(func(t *testing.T, contentType, body string) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header["Content-Type"] = []string{contentType}
		in, err := ReadInput(httptest.NewRecorder(), r, 1<<16)
		if err != nil {
			if _, ok := AsError(err); !ok {
				t.Errorf("not an answer: %v", err)
			}
			return
		}
		pet().Ignored(in, true)
		_, _ = in.String("a")
		_, _ = in.Int("a")
		_, _, _ = in.Map("a")
	})
}
