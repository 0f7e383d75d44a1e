package auth

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// tokenOf is what forms repeat in a session.
func tokenOf(session string) string {
	r := httptest.NewRequest("GET", "/", nil)
	r.AddCookie(&http.Cookie{Name: SessionCookie, Value: session})
	return FormToken(r)
}

// TestTake: the first field of a form is what proves where it is from; the body stays whole.
func TestTake(t *testing.T) {
	token := tokenOf("token-a:b")
	for _, c := range []struct{ name, method, kind, cookie, body, want string }{
		{"a form", "POST", "application/x-www-form-urlencoded", "token-a:b", "CSRF=" + token + "&text=x", token},
		{"with a parameter of its type", "POST", "application/x-www-form-urlencoded; charset=UTF-8", "token-a:b", "CSRF=" + token, token},
		{"behind another field", "POST", "application/x-www-form-urlencoded", "token-a:b", "text=x&CSRF=" + token, ""},
		{"too short", "POST", "application/x-www-form-urlencoded", "token-a:b", "CSRF=" + token[1:], ""},
		{"no session", "POST", "application/x-www-form-urlencoded", "", "CSRF=" + token, ""},
		{"another type", "POST", "text/plain", "token-a:b", "CSRF=" + token, ""},
		{"another method", "PUT", "application/x-www-form-urlencoded", "token-a:b", "CSRF=" + token, ""},
		{"nothing", "POST", "application/x-www-form-urlencoded", "token-a:b", "", ""},
		{"ends of lines", "POST", "application/x-www-form-urlencoded", "token-a:b", "CSRF=" + token[:30] + "\r\n", ""},
	} {
		r := httptest.NewRequest(c.method, "/", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.kind)
		if c.cookie != "" {
			r.AddCookie(&http.Cookie{Name: SessionCookie, Value: c.cookie})
		}
		TakeProof(r)
		if body, err := io.ReadAll(r.Body); r.Header.Get(ForgeryHeader) != c.want || string(body) != c.body || err != nil {
			t.Errorf("%s: %q, and the body is %q, %v", c.name, r.Header.Get(ForgeryHeader), body, err)
		}
	}
}

// TestAdd: what a page asks of the API is proved although the browser has lost the cookie that goes with its session.
func TestAdd(t *testing.T) {
	for name, cookies := range map[string]string{"lost": "", "of another session": "; CSRF=" + strings.Repeat("0", 32), "there": "; CSRF=" + tokenOf("token-a:b")} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Cookie", "look=dark; R_SESS=token-a:b"+cookies)
		if AddProof(r); r.Header.Get(ForgeryHeader) != tokenOf("token-a:b") || r.Header.Get("Cookie") != "look=dark; R_SESS=token-a:b; CSRF="+tokenOf("token-a:b") {
			t.Errorf("%s: %v", name, r.Header)
		}
	}
	r := httptest.NewRequest("POST", "/", nil)
	if AddProof(r); r.Header.Get("Cookie") != "" || r.Header.Get(ForgeryHeader) != "" {
		t.Errorf("without a session: %v", r.Header)
	}
}

// TestForeign: a form of a page of this server alone is taken, and that of a neighbour in the same domain is not.
func TestForeign(t *testing.T) {
	for _, c := range []struct {
		site, origin string
		want         bool
	}{
		{"same-origin", "", false}, {"none", "", false}, {"same-site", "", true}, {"cross-site", "", true}, {"same-site", "https://drover.example.com", true},
		{"", "", false}, {"", "https://drover.example.com", false}, {"", "https://DROVER.example.com", false},
		{"", "https://wiki.example.com", true}, {"", "https://drover.example.com:8443", true}, {"", "null", true}, {"", "https://%", true},
	} {
		r := httptest.NewRequest("POST", "https://drover.example.com/dashboard/login", nil)
		for name, value := range map[string]string{"Sec-Fetch-Site": c.site, "Origin": c.origin} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if got := IsForeign(r); got != c.want {
			t.Errorf("site %q, origin %q: %v", c.site, c.origin, got)
		}
	}
}
