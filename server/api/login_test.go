package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
)

const loginTarget = "/v3-public/localProviders/local?action=login"

// give gives a user a password.
func (b *bench) give(id, password string) {
	b.t.Helper()
	b.want(http.StatusOK, "POST", "/v3/users/"+id+"?action=setpassword", fmt.Sprintf(`{"newPassword":%q}`, password))
}

// TestFirstHour is the sequence by which a new server is set up, and the first login of the original command line, with a
// restart of the server between any two requests.
func TestFirstHour(t *testing.T) {
	o := benchOptions{ping: time.Hour}
	b := newBenchWith(t, o)
	for _, id := range []string{"user-admin", "u-bob"} {
		if err := b.st.Users.Delete(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
	}
	password, err := b.auth.Bootstrap(t.Context(), "", "")
	if err != nil || password == "" {
		t.Fatalf("%q %v", password, err)
	}
	b.restart(o)
	login := b.request("POST", loginTarget, "", fmt.Sprintf(`{"username":"admin","password":%q}`, password))
	session := login.text("token")
	if login.status != http.StatusCreated || strings.Count(session, ":") != 1 || login.text("type") != "token" || login.text("baseType") != "token" ||
		login.text("expiresAt") != "2026-09-02T02:00:00Z" || login.text("userId") == "" || login.text("authProvider") != "local" || login.body["current"] != true {
		t.Fatalf("login: %d %s", login.status, login.raw)
	}
	b.restart(o)
	if r := b.request("PUT", "/v3/settings/server-url", session, `{"value":"https://drover.example"}`); r.status != http.StatusOK || r.body["customized"] != true {
		t.Fatalf("server-url: %s", r.raw)
	}
	b.restart(o)
	if r := b.request("GET", "/v3/settings/first-login", "", ""); r.text("value") != "true" {
		t.Errorf("first-login: %s", r.raw)
	}
	if r := b.request("POST", "/v3/users?action=changepassword", session, fmt.Sprintf(`{"currentPassword":%q,"newPassword":"battery staple"}`, password)); r.status != http.StatusOK {
		t.Fatalf("changepassword: %s", r.raw)
	}
	b.restart(o)
	if r := b.request("GET", "/v3/settings/first-login", "", ""); r.text("value") != "false" {
		t.Errorf("first-login: %s", r.raw)
	}
	token := b.request("POST", "/v3/tokens", session, `{"description":"first","ttl":0}`)
	if token.status != http.StatusCreated {
		t.Fatalf("token: %s", token.raw)
	}
	b.restart(o)
	b.addCluster("harbour", "c-m-h4rb0r55", active)
	requests := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		b.restart(o)
		b.handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	c := &cli{t: t, server: server, token: token.text("token")}
	if got, err := c.login(); err != nil || !contextPattern.MatchString(got) {
		t.Errorf("the CLI's login: %q %v", got, err)
	}
	if requests < 3 {
		t.Errorf("the login was %d requests", requests)
	}
}

func TestLoginAnswers(t *testing.T) {
	b := newBench(t)
	b.addCluster("harbour", "c-m-h4rb0r55", active)
	b.give("user-admin", "correct horse")
	b.give("u-bob", "battery staple")
	for _, c := range []struct {
		name, target, body string
		status             int
		code               string
	}{
		{"json", loginTarget, `{"username":"admin","password":"correct horse"}`, 201, ""},
		{"name in another case", loginTarget, `{"username":"Admin","password":"correct horse","responseType":"json"}`, 201, ""},
		{"wrong password", loginTarget, `{"username":"admin","password":"x"}`, 401, "Unauthorized"},
		{"unknown user", loginTarget, `{"username":"nobody","password":"correct horse"}`, 401, "Unauthorized"},
		{"no password", loginTarget, `{"username":"admin"}`, 422, "MissingRequired"},
		{"not JSON", loginTarget, `{`, 422, "InvalidBodyContent"},
		{"unknown response type", loginTarget, `{"username":"admin","password":"correct horse","responseType":"saml"}`, 422, "InvalidOption"},
		{"no action", "/v3-public/localProviders/local", `{}`, 404, "ActionNotAvailable"},
		{"another provider", "/v3-public/githubProviders/github?action=login", `{}`, 404, "NotFound"},
		{"plain", "/v1-public/login", `{"type":"localProvider","username":"admin","password":"correct horse"}`, 201, ""},
		{"plain without a type", "/v1-public/login", `{"username":"admin","password":"correct horse"}`, 422, "InvalidOption"},
		{"kubeconfig", "/v1-public/login", `{"type":"localProvider","responseType":"kubeconfig","username":"admin","password":"correct horse"}`, 201, ""},
		{"kubeconfig of a cluster", "/v1-public/login", `{"type":"localProvider","responseType":"kubeconfig_c-m-h4rb0r55","username":"admin","password":"correct horse"}`, 201, ""},
		{"kubeconfig of no cluster", loginTarget, `{"responseType":"kubeconfig_c-m-none","username":"admin","password":"correct horse"}`, 422, "InvalidReference"},
		{"kubeconfig of a foreign cluster", loginTarget, `{"responseType":"kubeconfig_c-m-h4rb0r55","username":"bob","password":"battery staple"}`, 422, "InvalidReference"},
		{"GET", "/v1-public/login", "", 405, "MethodNotAllow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			method := "POST"
			if c.name == "GET" {
				method = "GET"
			}
			r := b.request(method, c.target, "", c.body)
			if r.status != c.status || r.text("code") != c.code {
				t.Fatalf("status %d: %s", r.status, r.raw)
			}
			if c.status != 201 {
				return
			}
			who, err := b.auth.Check(r.text("token"))
			if err != nil || r.text("expiresAt") == "" {
				t.Fatalf("%v: %s", err, r.raw)
			}
			isKubeconfig := strings.Contains(c.body, "kubeconfig")
			if who.Session == isKubeconfig || strings.HasPrefix(who.TokenName, "kubeconfig-user-admin") != isKubeconfig {
				t.Errorf("token %+v", who)
			}
			if limited := strings.Contains(c.body, "kubeconfig_"); (who.ClusterID != "") != limited {
				t.Errorf("limited to %q", who.ClusterID)
			}
		})
	}
}

func TestWrongPasswordElevenTimes(t *testing.T) {
	b := newBench(t)
	b.give("user-admin", "correct horse")
	for i := range 10 {
		if r := b.request("POST", loginTarget, "", `{"username":"admin","password":"x"}`); r.status != 401 {
			t.Fatalf("failure %d: %d", i+1, r.status)
		}
	}
	r := b.request("POST", loginTarget, "", `{"username":"admin","password":"correct horse"}`)
	if r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") != "300" || r.text("code") != "TooManyRequests" {
		t.Errorf("the 11th: %d %v %s", r.status, r.header, r.raw)
	}
	b.pass(5 * time.Minute)
	if r := b.request("POST", loginTarget, "", `{"username":"admin","password":"correct horse"}`); r.status != 201 {
		t.Errorf("after 5 minutes: %d", r.status)
	}
}

// browse asks as a browser with cookies.
func (b *bench) browse(method, target, body string, cookies []*http.Cookie, csrf string) result {
	b.t.Helper()
	header := []string{"User-Agent", "Mozilla/5.0", "Accept", "*/*"}
	var pairs []string
	for _, c := range cookies {
		pairs = append(pairs, c.Name+"="+c.Value)
	}
	if len(pairs) > 0 {
		header = append(header, "Cookie", strings.Join(pairs, "; "))
	}
	if csrf != "" {
		header = append(header, "X-API-CSRF", csrf)
	}
	return b.request(method, target, "", body, header...)
}

func TestBrowserSession(t *testing.T) {
	b := newBench(t)
	b.give("user-admin", "correct horse")
	r := b.browse("POST", loginTarget, `{"username":"admin","password":"correct horse","responseType":"cookie"}`, nil, "")
	if r.status != http.StatusOK || len(r.raw) != 0 {
		t.Fatalf("login: %d %s", r.status, r.raw)
	}
	cookies := (&http.Response{Header: r.header}).Cookies()
	csrf := ""
	for _, c := range cookies {
		if c.Name == "CSRF" {
			csrf = c.Value
		}
	}
	if len(cookies) < 2 || len(csrf) != 32 {
		t.Fatalf("cookies %v", cookies)
	}
	if r := b.browse("GET", "/v3/users?me=true", "", cookies, ""); r.ids() != "user-admin" {
		t.Errorf("reading: %s", r.raw)
	}
	if r := b.browse("POST", "/v3/tokens", `{}`, cookies, ""); r.status != 422 || r.text("code") != "InvalidCSRFToken" {
		t.Errorf("writing without the header: %d %s", r.status, r.raw)
	}
	if r := b.browse("POST", "/v3/tokens", `{}`, cookies, csrf); r.status != 201 {
		t.Errorf("writing: %d %s", r.status, r.raw)
	}
	var session string
	for _, c := range cookies {
		if c.Name == "R_SESS" {
			session, _, _ = strings.Cut(c.Value, ":")
		}
	}
	if r := b.browse("DELETE", "/v3/tokens/"+session, "", cookies, csrf); r.status != 422 || r.text("code") != "InvalidState" || !strings.Contains(r.text("message"), "log out") {
		t.Errorf("deleting the session's own token: %d %s", r.status, r.raw)
	}
	for i, target := range []string{"/v3/tokens?action=logout", "/v3/tokens?action=logout", "/v1/logout"} {
		r := b.browse("POST", target, "", cookies, csrf)
		if r.status != http.StatusOK || len(r.raw) != 0 || !strings.Contains(strings.Join(r.header.Values("Set-Cookie"), "\n"), "R_SESS=; Path=/; Max-Age=0") {
			t.Errorf("logout %d: %d %s %v", i+1, r.status, r.raw, r.header)
		}
	}
	if r := b.browse("GET", "/v3", "", cookies, ""); r.status != 401 {
		t.Errorf("after the logout: %d", r.status)
	}
}

func TestLogoutLeavesAPITokens(t *testing.T) {
	b := newBench(t)
	session := b.token("u-bob", records.Token{Session: true})
	other := b.token("u-bob", records.Token{Session: true})
	if r := b.request("POST", "/v3/tokens?action=logout", b.user, ""); r.status != 200 {
		t.Errorf("%d", r.status)
	}
	if r := b.request("POST", "/v1/logout", session, ""); r.status != 200 {
		t.Errorf("%d", r.status)
	}
	for token, good := range map[string]bool{b.user: true, session: false, other: true} {
		if _, err := b.auth.Check(token); (err == nil) != good {
			t.Errorf("good: %v, want %v", err == nil, good)
		}
	}
	if r := b.request("POST", "/v3/tokens?action=logoutAll", other, ""); r.status != 200 {
		t.Errorf("%d", r.status)
	}
	if _, err := b.auth.Check(other); err == nil {
		t.Error("a session survives logoutAll")
	}
	if r := b.request("POST", "/v1/logout", "", ""); r.status != 401 {
		t.Errorf("without a session: %d", r.status)
	}
}

func TestTokens(t *testing.T) {
	b := newBench(t)
	b.addCluster("harbour", "c-m-h4rb0r55", active)
	const day = 24 * 3600 * 1000
	for _, c := range []struct {
		name, body string
		ttl        float64 // 0: an error is wanted
		code       string
		warning    bool
	}{
		{"default", `{}`, 90 * day, "", false},
		{"a day", `{"type":"token","description":"ci","ttl":86400000,"clusterId":"c-m-h4rb0r55"}`, day, "", false},
		{"text", `{"ttl":"86400000"}`, day, "", false},
		{"too long is cut", `{"ttl":864000000000}`, 90 * day, "", true},
		{"somebody else's", `{"userId":"u-bob","ttl":1000}`, 1000, "", false},
		{"negative", `{"ttl":-1}`, 0, "MinLimitExceeded", false},
		{"absurd", `{"ttl":9223372036854775807}`, 0, "MaxLimitExceeded", false},
		{"no number", `{"ttl":"soon"}`, 0, "InvalidFormat", false},
		{"no cluster", `{"clusterId":"c-m-none"}`, 0, "InvalidReference", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.request("POST", "/v3/tokens", b.admin, c.body)
			if c.ttl == 0 {
				if r.status != 422 || r.text("code") != c.code || r.text("fieldName") == "" {
					t.Errorf("%d %s", r.status, r.raw)
				}
				return
			}
			expires := start.Add(time.Duration(c.ttl) * time.Millisecond).Format(time.RFC3339)
			if r.status != 201 || r.body["ttl"] != c.ttl || r.text("expiresAt") != expires || r.body["enabled"] != true || r.text("userId") != "user-admin" || r.text("token") == "" {
				t.Errorf("%d %s", r.status, r.raw)
			}
			if (r.header.Get("Warning") != "") != c.warning {
				t.Errorf("Warning %q", r.header.Get("Warning"))
			}
			again := b.get("/v3/tokens/" + r.text("id"))
			if _, shown := again.body["token"]; shown || again.text("expiresAt") != expires || again.body["enabled"] != true {
				t.Errorf("read again: %s", again.raw)
			}
		})
	}
	t.Run("foreign", func(t *testing.T) {
		r := b.request("POST", "/v3/tokens", b.user, `{"clusterId":"c-m-h4rb0r55"}`)
		if r.status != 422 || r.text("code") != "InvalidReference" {
			t.Errorf("a token for an invisible cluster: %d %s", r.status, r.raw)
		}
		if r := b.request("DELETE", "/v3/tokens/token-admin", b.user, ""); r.status != 404 {
			t.Errorf("%d", r.status)
		}
		if r := b.request("GET", "/v3/tokens", b.user, ""); r.ids() != "token-boblo" {
			t.Errorf("%s", r.ids())
		}
	})
	t.Run("life", func(t *testing.T) {
		r := b.request("POST", "/v3/tokens", b.admin, `{"ttl":864000000}`)
		text, target := r.text("token"), "/v3/tokens/"+r.text("id")
		if r := b.request("PUT", target, b.admin, `{"description":"changed","ttl":1,"enabled":false}`); r.status != 200 || r.text("description") != "changed" || r.body["ttl"] != 864000000.0 {
			t.Errorf("%s", r.raw)
		}
		if r := b.request("GET", "/v3", text, ""); r.header.Get("Warning") != "" {
			t.Errorf("10 days before the end: %q", r.header.Get("Warning"))
		}
		b.pass(4 * 24 * time.Hour)
		if r := b.request("GET", "/v3", text, ""); !strings.Contains(r.header.Get("Warning"), "2026-09-11T10:00:00Z") {
			t.Errorf("6 days before the end: %q", r.header.Get("Warning"))
		}
		b.pass(6 * 24 * time.Hour)
		if r := b.get(target); r.body["expired"] != true {
			t.Errorf("at its end: %s", r.raw)
		}
		if r := b.request("GET", "/v3", text, ""); r.status != 401 {
			t.Errorf("at its end: %d", r.status)
		}
		b.want(http.StatusNoContent, "DELETE", target, "")
		b.want(http.StatusNotFound, "GET", target, "")
	})
}

func TestPasswords(t *testing.T) {
	b := newBench(t)
	b.give("u-bob", "correct horse")
	for _, c := range []struct {
		name, target, token, body string
		status                    int
		field                     string
	}{
		{"too short", "/v3/users/u-bob?action=setpassword", b.admin, `{"newPassword":"short"}`, 422, "newPassword"},
		{"missing", "/v3/users/u-bob?action=setpassword", b.admin, `{}`, 422, "newPassword"},
		{"wrong current", "/v3/users?action=changepassword", b.user, `{"currentPassword":"x","newPassword":"battery staple"}`, 422, "currentPassword"},
		{"good", "/v3/users?action=changepassword", b.user, `{"currentPassword":"correct horse","newPassword":"battery staple"}`, 200, ""},
	} {
		if r := b.request("POST", c.target, c.token, c.body); r.status != c.status || r.text("fieldName") != c.field {
			t.Errorf("%s: %d %s", c.name, r.status, r.raw)
		}
	}
	if r := b.request("POST", loginTarget, "", `{"username":"bob","password":"battery staple"}`); r.status != 201 {
		t.Errorf("login: %s", r.raw)
	}
	if r := b.get("/v3/users?username=admin"); r.ids() != "user-admin" {
		t.Errorf("by name: %s", r.ids())
	}
	if r := b.get("/v3/users?me=true"); r.ids() != "user-admin" {
		t.Errorf("me: %s", r.ids())
	}
}

// TestHeaderWinsOverCookie with two users over the wire.
func TestHeaderWinsOverCookie(t *testing.T) {
	b := newBench(t)
	r := httptest.NewRequest("GET", "/v3/users?me=true", nil)
	r.AddCookie(&http.Cookie{Name: "R_SESS", Value: b.admin})
	r.Header.Set("Authorization", "Bearer "+b.user)
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), `"u-bob"`) || strings.Contains(w.Body.String(), "user-admin") {
		t.Errorf("%s", w.Body)
	}
}

// TestLoginTakesJSONOnly: YAML takes more to read than to write, and no caller is known here yet.
func TestLoginTakesJSONOnly(t *testing.T) {
	b := newBench(t)
	b.give("user-admin", "correct horse")
	for _, c := range []struct {
		contentType, body string
		want              int
	}{
		{"application/yaml", "username: admin\npassword: correct horse\n", 415},
		{"text/yaml; charset=utf-8", "username: admin\npassword: correct horse\n", 415},
		{"multipart/form-data; boundary=x", "--x--", 415},
		{"application/x-www-form-urlencoded", "username=admin&password=correct+horse", 422},
		{"application/x-www-form-urlencoded", `{"username":"admin","password":"correct horse"}`, 201},
		{"", `{"username":"admin","password":"correct horse"}`, 201},
		{"application/json", `{"username":"` + strings.Repeat("x", 1<<19) + `","password":"x"}`, 422},
		{"application/json", `{"username":"admin","password":"correct horse","description":"` + strings.Repeat("x", 100_000) + `"}`, 422},
	} {
		r := httptest.NewRequest("POST", loginTarget, strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.contentType)
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s %.40s: status %d, want %d: %s", c.contentType, c.body, w.Code, c.want, w.Body)
		}
	}
	if r := b.request("POST", "/v3/tokens", b.user, `{"description":"`+strings.Repeat("x", 100_000)+`"}`); r.status != 422 || r.text("fieldName") != "description" {
		t.Errorf("a long description: %d %.200s", r.status, r.raw)
	}
}

// TestForgeryCookieBelongsToTheSession: a cookie that a neighbour planted proves nothing.
func TestForgeryCookieBelongsToTheSession(t *testing.T) {
	b := newBench(t)
	session := b.token("u-bob", records.Token{Session: true})
	send := func(cookie, header string) int {
		r := httptest.NewRequest("POST", "/v3/tokens", strings.NewReader("{}"))
		r.AddCookie(&http.Cookie{Name: "R_SESS", Value: session})
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: "CSRF", Value: cookie})
		}
		r.Header.Set("X-API-CSRF", header)
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, r)
		return w.Code
	}
	planted := strings.Repeat("a", 32)
	if got := send(planted, planted); got != 422 {
		t.Errorf("planted: %d", got)
	}
	// A page of this server gets the right one with its next request, whatever it had.
	r := httptest.NewRequest("GET", "/v3", nil)
	r.AddCookie(&http.Cookie{Name: "R_SESS", Value: session})
	r.AddCookie(&http.Cookie{Name: "CSRF", Value: planted})
	r.Header.Set("User-Agent", "Mozilla/5.0")
	r.Header.Set("Accept", "*/*")
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	var right string
	for _, c := range w.Result().Cookies() {
		if c.Name == "CSRF" {
			right = c.Value
		}
	}
	if len(right) != 32 || right == planted || send(right, right) != 201 || send(right, planted) != 422 || send(planted, right) != 422 {
		t.Errorf("cookie %q", right)
	}
}

// TestNoForeignPageLogsPeopleIn: a session that comes as a cookie is for pages of this server; the password is not even looked at.
func TestNoForeignPageLogsPeopleIn(t *testing.T) {
	b := newBench(t)
	b.give("user-admin", "correct horse")
	for name, c := range map[string]struct {
		target, body string
		header       []string
		status       int
	}{
		"another site":          {loginTarget, `"responseType":"cookie"`, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"a neighbour":           {loginTarget, `"responseType":"cookie"`, []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		"an older browser":      {loginTarget, `"responseType":"cookie"`, []string{"Origin", "https://evil.example"}, http.StatusForbidden},
		"a sandbox":             {loginTarget, `"responseType":"cookie"`, []string{"Origin", "null"}, http.StatusForbidden},
		"all providers":         {"/v1-public/login", `"type":"localProvider","responseType":"cookie"`, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"a page of this one":    {loginTarget, `"responseType":"cookie"`, []string{"Sec-Fetch-Site", "same-origin"}, http.StatusOK},
		"a token to read":       {loginTarget, `"responseType":"json"`, []string{"Origin", "https://dashboard.example"}, http.StatusCreated},
		"a program, no browser": {loginTarget, `"responseType":"cookie"`, nil, http.StatusOK},
	} {
		r := b.request("POST", c.target, "", `{"username":"admin","password":"correct horse",`+c.body+`}`, c.header...)
		if r.status != c.status {
			t.Errorf("%s: %d %s", name, r.status, r.raw)
		}
		if given := len((&http.Response{Header: r.header}).Cookies()) > 0 && strings.Contains(fmt.Sprint(r.header["Set-Cookie"]), "R_SESS="); given != (c.status == http.StatusOK) {
			t.Errorf("%s: cookies %v", name, r.header["Set-Cookie"])
		}
	}
}
