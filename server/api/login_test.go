package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestFirstHour is the sequence by which a new server is set up, and the first login of the original command line, with a
// restart of the server between any two requests.
func TestFirstHour(t *testing.T) {
	o := apibed.Options{Ping: time.Hour}
	b := apibed.NewWith(t, o)
	for _, id := range []string{"user-admin", "u-bob"} {
		if err := b.State.Users.Delete(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
	}
	password, err := b.Auth.Bootstrap(t.Context(), "", "")
	if err != nil || password == "" {
		t.Fatalf("%q %v", password, err)
	}
	b.Restart(o)
	login := b.Request("POST", apibed.LoginTarget, "", fmt.Sprintf(`{"username":"admin","password":%q}`, password))
	session := login.Text("token")
	if login.Status != http.StatusCreated || strings.Count(session, ":") != 1 || login.Text("type") != "token" || login.Text("baseType") != "token" ||
		login.Text("expiresAt") != "2026-09-02T02:00:00Z" || login.Text("userId") == "" || login.Text("authProvider") != "local" || login.Body["current"] != true {
		t.Fatalf("login: %d %s", login.Status, login.Raw)
	}
	b.Restart(o)
	if r := b.Request("PUT", "/v3/settings/server-url", session, `{"value":"https://drover.example"}`); r.Status != http.StatusOK || r.Body["customized"] != true {
		t.Fatalf("server-url: %s", r.Raw)
	}
	b.Restart(o)
	if r := b.Request("GET", "/v3/settings/first-login", "", ""); r.Text("value") != "true" {
		t.Errorf("first-login: %s", r.Raw)
	}
	if r := b.Request("POST", "/v3/users?action=changepassword", session, fmt.Sprintf(`{"currentPassword":%q,"newPassword":"battery staple"}`, password)); r.Status != http.StatusOK {
		t.Fatalf("changepassword: %s", r.Raw)
	}
	b.Restart(o)
	if r := b.Request("GET", "/v3/settings/first-login", "", ""); r.Text("value") != "false" {
		t.Errorf("first-login: %s", r.Raw)
	}
	token := b.Request("POST", "/v3/tokens", session, `{"description":"first","ttl":0}`)
	if token.Status != http.StatusCreated {
		t.Fatalf("token: %s", token.Raw)
	}
	b.Restart(o)
	b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	requests := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		b.Restart(o)
		b.Handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	c := &cli{t: t, server: server, token: token.Text("token")}
	if got, err := c.login(); err != nil || !contextPattern.MatchString(got) {
		t.Errorf("the CLI's login: %q %v", got, err)
	}
	if requests < 3 {
		t.Errorf("the login was %d requests", requests)
	}
}

func TestLoginAnswers(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	b.Give("user-admin", "correct horse")
	b.Give("u-bob", "battery staple")
	for _, c := range []struct {
		name, target, body string
		status             int
		code               string
	}{
		{"json", apibed.LoginTarget, `{"username":"admin","password":"correct horse"}`, 201, ""},
		{"name in another case", apibed.LoginTarget, `{"username":"Admin","password":"correct horse","responseType":"json"}`, 201, ""},
		{"wrong password", apibed.LoginTarget, `{"username":"admin","password":"x"}`, 401, "Unauthorized"},
		{"unknown user", apibed.LoginTarget, `{"username":"nobody","password":"correct horse"}`, 401, "Unauthorized"},
		{"no password", apibed.LoginTarget, `{"username":"admin"}`, 422, "MissingRequired"},
		{"not JSON", apibed.LoginTarget, `{`, 422, "InvalidBodyContent"},
		{"unknown response type", apibed.LoginTarget, `{"username":"admin","password":"correct horse","responseType":"saml"}`, 422, "InvalidOption"},
		{"no action", "/v3-public/localProviders/local", `{}`, 404, "ActionNotAvailable"},
		{"another provider", "/v3-public/githubProviders/github?action=login", `{}`, 404, "NotFound"},
		{"plain", "/v1-public/login", `{"type":"localProvider","username":"admin","password":"correct horse"}`, 201, ""},
		{"plain without a type", "/v1-public/login", `{"username":"admin","password":"correct horse"}`, 422, "InvalidOption"},
		{"kubeconfig", "/v1-public/login", `{"type":"localProvider","responseType":"kubeconfig","username":"admin","password":"correct horse"}`, 201, ""},
		{"kubeconfig of a cluster", "/v1-public/login", `{"type":"localProvider","responseType":"kubeconfig_c-m-h4rb0r55","username":"admin","password":"correct horse"}`, 201, ""},
		{"kubeconfig of no cluster", apibed.LoginTarget, `{"responseType":"kubeconfig_c-m-none","username":"admin","password":"correct horse"}`, 422, "InvalidReference"},
		{"kubeconfig of a foreign cluster", apibed.LoginTarget, `{"responseType":"kubeconfig_c-m-h4rb0r55","username":"bob","password":"battery staple"}`, 422, "InvalidReference"},
		{"GET", "/v1-public/login", "", 405, "MethodNotAllow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			method := "POST"
			if c.name == "GET" {
				method = "GET"
			}
			r := b.Request(method, c.target, "", c.body)
			if r.Status != c.status || r.Text("code") != c.code {
				t.Fatalf("status %d: %s", r.Status, r.Raw)
			}
			if c.status != 201 {
				return
			}
			who, err := b.Auth.Check(r.Text("token"))
			if err != nil || r.Text("expiresAt") == "" {
				t.Fatalf("%v: %s", err, r.Raw)
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
	b := apibed.New(t)
	b.Give("user-admin", "correct horse")
	for i := range 10 {
		if r := b.Request("POST", apibed.LoginTarget, "", `{"username":"admin","password":"x"}`); r.Status != 401 {
			t.Fatalf("failure %d: %d", i+1, r.Status)
		}
	}
	r := b.Request("POST", apibed.LoginTarget, "", `{"username":"admin","password":"correct horse"}`)
	if r.Status != http.StatusTooManyRequests || r.Header.Get("Retry-After") != "300" || r.Text("code") != "TooManyRequests" {
		t.Errorf("the 11th: %d %v %s", r.Status, r.Header, r.Raw)
	}
	b.Pass(5 * time.Minute)
	if r := b.Request("POST", apibed.LoginTarget, "", `{"username":"admin","password":"correct horse"}`); r.Status != 201 {
		t.Errorf("after 5 minutes: %d", r.Status)
	}
}

// browse asks as a browser with cookies.
func browse(b *apibed.Bed, method, target, body string, cookies []*http.Cookie, csrf string) apibed.Result {
	b.T.Helper()
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
	return b.Request(method, target, "", body, header...)
}

func TestBrowserSession(t *testing.T) {
	b := apibed.New(t)
	b.Give("user-admin", "correct horse")
	r := browse(b, "POST", apibed.LoginTarget, `{"username":"admin","password":"correct horse","responseType":"cookie"}`, nil, "")
	if r.Status != http.StatusOK || len(r.Raw) != 0 {
		t.Fatalf("login: %d %s", r.Status, r.Raw)
	}
	cookies := (&http.Response{Header: r.Header}).Cookies()
	csrf := ""
	for _, c := range cookies {
		if c.Name == "CSRF" {
			csrf = c.Value
		}
	}
	if len(cookies) < 2 || len(csrf) != 32 {
		t.Fatalf("cookies %v", cookies)
	}
	if r := browse(b, "GET", "/v3/users?me=true", "", cookies, ""); r.IDs() != "user-admin" {
		t.Errorf("reading: %s", r.Raw)
	}
	if r := browse(b, "POST", "/v3/tokens", `{}`, cookies, ""); r.Status != 422 || r.Text("code") != "InvalidCSRFToken" {
		t.Errorf("writing without the header: %d %s", r.Status, r.Raw)
	}
	if r := browse(b, "POST", "/v3/tokens", `{}`, cookies, csrf); r.Status != 201 {
		t.Errorf("writing: %d %s", r.Status, r.Raw)
	}
	var session string
	for _, c := range cookies {
		if c.Name == "R_SESS" {
			session, _, _ = strings.Cut(c.Value, ":")
		}
	}
	if r := browse(b, "DELETE", "/v3/tokens/"+session, "", cookies, csrf); r.Status != 422 || r.Text("code") != "InvalidState" || !strings.Contains(r.Text("message"), "log out") {
		t.Errorf("deleting the session's own token: %d %s", r.Status, r.Raw)
	}
	for i, target := range []string{"/v3/tokens?action=logout", "/v3/tokens?action=logout", "/v1/logout"} {
		r := browse(b, "POST", target, "", cookies, csrf)
		if r.Status != http.StatusOK || len(r.Raw) != 0 || !strings.Contains(strings.Join(r.Header.Values("Set-Cookie"), "\n"), "R_SESS=; Path=/; Max-Age=0") {
			t.Errorf("logout %d: %d %s %v", i+1, r.Status, r.Raw, r.Header)
		}
	}
	if r := browse(b, "GET", "/v3", "", cookies, ""); r.Status != 401 {
		t.Errorf("after the logout: %d", r.Status)
	}
}

func TestLogoutLeavesAPITokens(t *testing.T) {
	b := apibed.New(t)
	session := b.Token("u-bob", records.Token{Session: true})
	other := b.Token("u-bob", records.Token{Session: true})
	if r := b.Request("POST", "/v3/tokens?action=logout", b.User, ""); r.Status != 200 {
		t.Errorf("%d", r.Status)
	}
	if r := b.Request("POST", "/v1/logout", session, ""); r.Status != 200 {
		t.Errorf("%d", r.Status)
	}
	for token, good := range map[string]bool{b.User: true, session: false, other: true} {
		if _, err := b.Auth.Check(token); (err == nil) != good {
			t.Errorf("good: %v, want %v", err == nil, good)
		}
	}
	if r := b.Request("POST", "/v3/tokens?action=logoutAll", other, ""); r.Status != 200 {
		t.Errorf("%d", r.Status)
	}
	if _, err := b.Auth.Check(other); err == nil {
		t.Error("a session survives logoutAll")
	}
	if r := b.Request("POST", "/v1/logout", "", ""); r.Status != 401 {
		t.Errorf("without a session: %d", r.Status)
	}
}

func TestTokens(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
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
			r := b.Request("POST", "/v3/tokens", b.Admin, c.body)
			if c.ttl == 0 {
				if r.Status != 422 || r.Text("code") != c.code || r.Text("fieldName") == "" {
					t.Errorf("%d %s", r.Status, r.Raw)
				}
				return
			}
			expires := apibed.Start.Add(time.Duration(c.ttl) * time.Millisecond).Format(time.RFC3339)
			if r.Status != 201 || r.Body["ttl"] != c.ttl || r.Text("expiresAt") != expires || r.Body["enabled"] != true || r.Text("userId") != "user-admin" || r.Text("token") == "" {
				t.Errorf("%d %s", r.Status, r.Raw)
			}
			if (r.Header.Get("Warning") != "") != c.warning {
				t.Errorf("Warning %q", r.Header.Get("Warning"))
			}
			again := b.Get("/v3/tokens/" + r.Text("id"))
			if _, shown := again.Body["token"]; shown || again.Text("expiresAt") != expires || again.Body["enabled"] != true {
				t.Errorf("read again: %s", again.Raw)
			}
		})
	}
	t.Run("foreign", func(t *testing.T) {
		r := b.Request("POST", "/v3/tokens", b.User, `{"clusterId":"c-m-h4rb0r55"}`)
		if r.Status != 422 || r.Text("code") != "InvalidReference" {
			t.Errorf("a token for an invisible cluster: %d %s", r.Status, r.Raw)
		}
		if r := b.Request("DELETE", "/v3/tokens/token-admin", b.User, ""); r.Status != 404 {
			t.Errorf("%d", r.Status)
		}
		if r := b.Request("GET", "/v3/tokens", b.User, ""); r.IDs() != "token-boblo" {
			t.Errorf("%s", r.IDs())
		}
	})
	t.Run("life", func(t *testing.T) {
		r := b.Request("POST", "/v3/tokens", b.Admin, `{"ttl":864000000}`)
		text, target := r.Text("token"), "/v3/tokens/"+r.Text("id")
		if r := b.Request("PUT", target, b.Admin, `{"description":"changed","ttl":1,"enabled":false}`); r.Status != 200 || r.Text("description") != "changed" || r.Body["ttl"] != 864000000.0 {
			t.Errorf("%s", r.Raw)
		}
		if r := b.Request("GET", "/v3", text, ""); r.Header.Get("Warning") != "" {
			t.Errorf("10 days before the end: %q", r.Header.Get("Warning"))
		}
		b.Pass(4 * 24 * time.Hour)
		if r := b.Request("GET", "/v3", text, ""); !strings.Contains(r.Header.Get("Warning"), "2026-09-11T10:00:00Z") {
			t.Errorf("6 days before the end: %q", r.Header.Get("Warning"))
		}
		b.Pass(6 * 24 * time.Hour)
		if r := b.Get(target); r.Body["expired"] != true {
			t.Errorf("at its end: %s", r.Raw)
		}
		if r := b.Request("GET", "/v3", text, ""); r.Status != 401 {
			t.Errorf("at its end: %d", r.Status)
		}
		b.Want(http.StatusNoContent, "DELETE", target, "")
		b.Want(http.StatusNotFound, "GET", target, "")
	})
}

func TestPasswords(t *testing.T) {
	b := apibed.New(t)
	b.Give("u-bob", "correct horse")
	for _, c := range []struct {
		name, target, token, body string
		status                    int
		field                     string
	}{
		{"too short", "/v3/users/u-bob?action=setpassword", b.Admin, `{"newPassword":"short"}`, 422, "newPassword"},
		{"missing", "/v3/users/u-bob?action=setpassword", b.Admin, `{}`, 422, "newPassword"},
		{"wrong current", "/v3/users?action=changepassword", b.User, `{"currentPassword":"x","newPassword":"battery staple"}`, 422, "currentPassword"},
		{"good", "/v3/users?action=changepassword", b.User, `{"currentPassword":"correct horse","newPassword":"battery staple"}`, 200, ""},
	} {
		if r := b.Request("POST", c.target, c.token, c.body); r.Status != c.status || r.Text("fieldName") != c.field {
			t.Errorf("%s: %d %s", c.name, r.Status, r.Raw)
		}
	}
	if r := b.Request("POST", apibed.LoginTarget, "", `{"username":"bob","password":"battery staple"}`); r.Status != 201 {
		t.Errorf("login: %s", r.Raw)
	}
	if r := b.Get("/v3/users?username=admin"); r.IDs() != "user-admin" {
		t.Errorf("by name: %s", r.IDs())
	}
	if r := b.Get("/v3/users?me=true"); r.IDs() != "user-admin" {
		t.Errorf("me: %s", r.IDs())
	}
}

// TestHeaderWinsOverCookie with two users over the wire.
func TestHeaderWinsOverCookie(t *testing.T) {
	b := apibed.New(t)
	r := httptest.NewRequest("GET", "/v3/users?me=true", nil)
	r.AddCookie(&http.Cookie{Name: "R_SESS", Value: b.Admin})
	r.Header.Set("Authorization", "Bearer "+b.User)
	w := httptest.NewRecorder()
	b.Handler.ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), `"u-bob"`) || strings.Contains(w.Body.String(), "user-admin") {
		t.Errorf("%s", w.Body)
	}
}

// TestLoginTakesJSONOnly: YAML takes more to read than to write, and no caller is known here yet.
func TestLoginTakesJSONOnly(t *testing.T) {
	b := apibed.New(t)
	b.Give("user-admin", "correct horse")
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
		r := httptest.NewRequest("POST", apibed.LoginTarget, strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.contentType)
		w := httptest.NewRecorder()
		b.Handler.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s %.40s: status %d, want %d: %s", c.contentType, c.body, w.Code, c.want, w.Body)
		}
	}
	if r := b.Request("POST", "/v3/tokens", b.User, `{"description":"`+strings.Repeat("x", 100_000)+`"}`); r.Status != 422 || r.Text("fieldName") != "description" {
		t.Errorf("a long description: %d %.200s", r.Status, r.Raw)
	}
}

// TestForgeryCookieBelongsToTheSession: a cookie that a neighbour planted proves nothing.
func TestForgeryCookieBelongsToTheSession(t *testing.T) {
	b := apibed.New(t)
	session := b.Token("u-bob", records.Token{Session: true})
	send := func(cookie, header string) int {
		r := httptest.NewRequest("POST", "/v3/tokens", strings.NewReader("{}"))
		r.AddCookie(&http.Cookie{Name: "R_SESS", Value: session})
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: "CSRF", Value: cookie})
		}
		r.Header.Set("X-API-CSRF", header)
		w := httptest.NewRecorder()
		b.Handler.ServeHTTP(w, r)
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
	b.Handler.ServeHTTP(w, r)
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
	b := apibed.New(t)
	b.Give("user-admin", "correct horse")
	for name, c := range map[string]struct {
		target, body string
		header       []string
		status       int
	}{
		"another site":          {apibed.LoginTarget, `"responseType":"cookie"`, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"a neighbour":           {apibed.LoginTarget, `"responseType":"cookie"`, []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		"an older browser":      {apibed.LoginTarget, `"responseType":"cookie"`, []string{"Origin", "https://evil.example"}, http.StatusForbidden},
		"a sandbox":             {apibed.LoginTarget, `"responseType":"cookie"`, []string{"Origin", "null"}, http.StatusForbidden},
		"all providers":         {"/v1-public/login", `"type":"localProvider","responseType":"cookie"`, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"a page of this one":    {apibed.LoginTarget, `"responseType":"cookie"`, []string{"Sec-Fetch-Site", "same-origin"}, http.StatusOK},
		"a token to read":       {apibed.LoginTarget, `"responseType":"json"`, []string{"Origin", "https://dashboard.example"}, http.StatusCreated},
		"a program, no browser": {apibed.LoginTarget, `"responseType":"cookie"`, nil, http.StatusOK},
	} {
		r := b.Request("POST", c.target, "", `{"username":"admin","password":"correct horse",`+c.body+`}`, c.header...)
		if r.Status != c.status {
			t.Errorf("%s: %d %s", name, r.Status, r.Raw)
		}
		if given := len((&http.Response{Header: r.Header}).Cookies()) > 0 && strings.Contains(fmt.Sprint(r.Header["Set-Cookie"]), "R_SESS="); given != (c.status == http.StatusOK) {
			t.Errorf("%s: cookies %v", name, r.Header["Set-Cookie"])
		}
	}
}
