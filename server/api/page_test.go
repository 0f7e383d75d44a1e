package api

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// pages are all pages of the bench's harbour.
var pages = []string{
	"clusters", "clusters/fleet-default/harbour", "clusters/fleet-default/harbour/join", "machines", "machines/fleet-default/custom-0f31c2aa9d10",
	terminalOfHarbour, "operations/op-abcdefgh", "fleets", "versions", "roles", "bindings", "servers", "new", "clusters/fleet-default/harbour/change", "do/pause/fleet-default/harbour", "do/upgrade/fleet-default/harbour",
	"do/restore/fleet-default/harbour", "do/remove-machine/fleet-default/custom-0f31c2aa9d10", "do/new-user", "do/give-role", "do/new-token", "do/set-setting/ui-brand", "tokens", "users", "settings", "audit", "password", "login", "nothing",
}

// look asks for a page as a browser does, with the token of a session in a cookie.
func (b *bench) look(path, token string) result {
	b.t.Helper()
	header := []string{"Accept", "text/html,application/xhtml+xml,*/*;q=0.8", "User-Agent", "Mozilla/5.0"}
	if token != "" {
		header = append(header, "Cookie", auth.SessionCookie+"="+token)
	}
	return b.request("GET", "/dashboard/"+path, "", "", header...)
}

// send posts a form as a browser does.
func (b *bench) send(path, token string, form url.Values, header ...string) result {
	b.t.Helper()
	if token != "" {
		header = append(header, "Cookie", auth.SessionCookie+"="+token+"; "+auth.ForgeryCookie+"="+b.formToken(token))
	}
	return b.request("POST", "/dashboard/"+path, "", form.Encode(), append(header, "Content-Type", "application/x-www-form-urlencoded", "User-Agent", "Mozilla/5.0")...)
}

func (b *bench) formToken(token string) string {
	r := httptest.NewRequest("GET", "/", nil)
	r.AddCookie(&http.Cookie{Name: auth.SessionCookie, Value: token})
	return auth.FormToken(r)
}

// harbourToSee is a cluster with something on all of its pages.
func harbourToSee(b *bench) {
	_, machines := harbour(b)
	b.addOperation("op-abcdefgh", func(o *operations.Operation) {
		o.Tasks = []operations.Task{{ID: "custom-0f31c2aa9d10", Title: "Upgrade pier-1", State: operations.TaskRunning, Host: "pier-1", Progress: "waiting for probes", Started: start}}
		o.Log = []operations.Line{{At: start, Text: "began"}}
	})
	plan := `{"files":[{"path":"/etc/rancher/k3s/config.yaml.d/50-rancher.yaml","content":"` + base64.StdEncoding.EncodeToString([]byte(`{"token": "hunter2-token", "node-name": "pier-1"}`)) + `"}],"instructions":[{"name":"install"}]}`
	secret := records.PlanSecret{Object: records.Object{Namespace: "fleet-default", Name: machines[0].PlanSecretName()}, Data: map[string][]byte{plans.KeyPlan: []byte(plan)}}
	if _, err := b.st.PlanSecrets.Create(b.t.Context(), secret.Key(), secret); err != nil {
		b.t.Fatal(err)
	}
}

func TestEveryPage(t *testing.T) {
	b := newBench(t)
	harbourToSee(b)
	for _, path := range pages {
		for _, who := range []struct{ name, token string }{{"nobody", ""}, {"user", b.user}, {"admin", b.admin}} {
			r := b.look(path, who.token)
			hidden := strings.Contains(path, "/fleet-default/") || path == "operations/op-abcdefgh" // of a cluster that the user does not see
			want := http.StatusOK
			switch {
			case path == "login":
			case who.name == "nobody":
				want = http.StatusSeeOther
			case path == "nothing" || who.name == "user" && hidden:
				want = http.StatusNotFound
			case who.name == "user" && (slices.Contains([]string{"fleets", "audit", "servers", "new", "do/new-user", "do/give-role", "do/set-setting/ui-brand"}, path)):
				want = http.StatusForbidden
			}
			text := string(r.raw)
			if r.status != want {
				t.Errorf("%s as %s: status %d, want %d: %s", path, who.name, r.status, want, text)
			}
			if who.name == "user" && strings.Contains(text, "harbour") && path != "login" && !strings.Contains(text, `role="alert"`) {
				t.Errorf("%s shows a cluster to a user who may not see it", path)
			}
			for name, value := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
				"X-Content-Type-Options":  "nosniff", "Cache-Control": "no-store",
			} {
				if r.header.Get(name) != value {
					t.Errorf("%s as %s: %s is %q", path, who.name, name, r.header.Get(name))
				}
			}
			for _, secret := range []string{"hunter2", "c0ffee"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s as %s shows the secret %s", path, who.name, secret)
				}
			}
			if want == http.StatusOK {
				b.tidy(path, text)
			}
		}
	}
	if r := b.look("machines/fleet-default/custom-0f31c2aa9d10", b.admin); !strings.Contains(string(r.raw), "(secret)") {
		t.Errorf("the plan is not shown, or not masked: %s", r.raw)
	}
}

// tidy holds what all pages have: one heading, one main, a title, no inline script or style, and no id twice.
func (b *bench) tidy(path, text string) {
	b.t.Helper()
	count, ids := map[string]int{}, map[string]bool{}
	for z := html.NewTokenizer(strings.NewReader(text)); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		token := z.Token()
		count[token.Data]++
		for _, a := range token.Attr {
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
				b.t.Errorf("%s: %s has the attribute %s=%q", path, token.Data, a.Key, a.Val)
			}
			if a.Key == "id" {
				if ids[a.Val] {
					b.t.Errorf("%s has the id %s twice", path, a.Val)
				}
				ids[a.Val] = true
			}
		}
		if token.Data == "script" && !strings.Contains(token.String(), "src=") || token.Data == "style" {
			b.t.Errorf("%s has an inline %s", path, token.Data)
		}
	}
	if scripts := strings.Count(text, "<script"); scripts != 1 && !(scripts == 2 && strings.Contains(text, "terminal.js")) {
		b.t.Errorf("%s has %d scripts", path, scripts)
	}
	for _, one := range []string{"h1", "main", "title"} {
		if count[one] != 1 {
			b.t.Errorf("%s has %d of %s", path, count[one], one)
		}
	}
}

func TestLogIn(t *testing.T) {
	b := newBench(t)
	const first, chosen = "hunter2 first start", "correct horse battery"
	b.want(200, "POST", "/v3/users/u-bob?action=setpassword", `{"newPassword":"`+first+`"}`)
	if _, err := b.st.Users.Modify(t.Context(), "u-bob", func(u records.User) (records.User, error) { u.MustChange = true; return u, nil }); err != nil {
		t.Fatal(err)
	}
	b.want(200, "PUT", "/v3/settings/audit-level", `{"value":"3"}`)
	fields := func(password string) url.Values {
		return url.Values{"username": {"bob"}, "password": {password}, "to": {"/dashboard/tokens?q=x"}}
	}
	for _, c := range []struct {
		name   string
		form   url.Values
		header []string
		status int
		says   string
	}{
		{"wrong password", fields("x"), nil, 401, "do not belong together"},
		{"unknown user", url.Values{"username": {"eve"}, "password": {"x"}}, nil, 401, "do not belong together"},
		{"from another page", fields(first), []string{"Sec-Fetch-Site", "cross-site"}, 403, "another server"},
		{"from another page, an older browser", fields(first), []string{"Origin", "https://evil.example"}, 403, "another server"},
		{"long name", url.Values{"username": {strings.Repeat("x", 300)}, "password": {"x"}}, nil, 422, "too long"},
		{"long form", url.Values{"username": {strings.Repeat("x", 30000)}}, nil, 413, "longer than"},
	} {
		if r := b.send("login", "", c.form, c.header...); r.status != c.status || !strings.Contains(string(r.raw), c.says) || r.header.Get("Set-Cookie") != "" && strings.Contains(r.header.Get("Set-Cookie"), auth.SessionCookie) {
			t.Errorf("%s: status %d, cookies %v: %s", c.name, r.status, r.header["Set-Cookie"], r.raw)
		}
	}
	r := b.send("login", "", fields(first), "Sec-Fetch-Site", "same-origin")
	session := regexp.MustCompile(auth.SessionCookie + `=([^;]+)`).FindStringSubmatch(strings.Join(r.header["Set-Cookie"], "\n"))
	if r.status != http.StatusSeeOther || r.header.Get("Location") != "/dashboard/password" || session == nil {
		t.Fatalf("status %d, to %q: %s", r.status, r.header.Get("Location"), r.raw)
	}
	token := session[1]
	if r := b.look("clusters", token); r.status != http.StatusSeeOther || r.header.Get("Location") != "/dashboard/password" {
		t.Errorf("a password that has to be changed: status %d, to %q", r.status, r.header.Get("Location"))
	}
	change := func(current, now, again string) url.Values {
		return url.Values{"current": {current}, "new": {now}, "again": {again}}
	}
	proof := "password?CSRF=" + b.formToken(token)
	for _, c := range []struct {
		name, path string
		form       url.Values
		status     int
		says       string
	}{
		{"without proof", "password", change(first, chosen, chosen), 422, "opened before you logged in again"},
		{"differ", proof, change(first, chosen, "x"), 422, "differ"},
		{"short", proof, change(first, "x", "x"), 422, "at least 12"},
		{"wrong", proof, change("x", chosen, chosen), 422, "current password is wrong"},
		{"right", proof, change(first, chosen, chosen), 303, ""},
	} {
		if r := b.send(c.path, token, c.form); r.status != c.status || !strings.Contains(string(r.raw), c.says) {
			t.Errorf("%s: status %d: %s", c.name, r.status, r.raw)
		}
	}
	if r := b.look("clusters", token); r.status != http.StatusOK {
		t.Errorf("after the change: status %d", r.status)
	}
	if r := b.send("login", "", fields(chosen)); r.status != http.StatusSeeOther || r.header.Get("Location") != "/dashboard/tokens?q=x" {
		t.Errorf("status %d, to %q", r.status, r.header.Get("Location"))
	}
	for range 2 { // a button that is pressed twice
		if r := b.send("logout?CSRF="+b.formToken(token), token, nil); r.status >= 400 {
			t.Errorf("logout: status %d: %s", r.status, r.raw)
		}
	}
	if r := b.look("users?q=x", token); r.status != http.StatusSeeOther || r.header.Get("Location") != "/dashboard/login?over=1&to=%2Fdashboard%2Fusers%3Fq%3Dx" {
		t.Errorf("after logout: status %d, to %q", r.status, r.header.Get("Location"))
	}
	if all := b.auditedBytes(t) + b.logs.String(); strings.Contains(all, first) || strings.Contains(all, chosen) || strings.Contains(all, "hunter2") || strings.Contains(all, "horse") {
		t.Error("a password is in a log")
	}
}

// TestLocalAddresses: no user is led to another server after a login.
func TestLocalAddresses(t *testing.T) {
	b := newBench(t)
	b.want(200, "POST", "/v3/users/u-bob?action=setpassword", `{"newPassword":"correct horse battery"}`)
	for _, to := range []string{"https://evil.example/dashboard/", "//evil.example/dashboard/", "/dashboard//evil.example", "/v3", `/\evil.example`, "javascript:alert(1)", "/dashboard/../v3", "", "/dashboard/%0d%0aSet-Cookie:x"} {
		r := b.send("login", "", url.Values{"username": {"bob"}, "password": {"correct horse battery"}, "to": {to}})
		if at := r.header.Get("Location"); r.status != http.StatusSeeOther || !strings.HasPrefix(at, "/dashboard/") || strings.Contains(at, "evil") || strings.Contains(at, "..") {
			t.Errorf("%q leads to %q", to, at)
		}
	}
}

func TestRootLeadsBrowsersToThePage(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		accept, target string
		status         int
	}{
		{"text/html,*/*", "/", 303}, {"", "/", 200}, {"application/json", "/", 200}, {"*/*", "/", 200}, {"text/html,*/*", "/v3-public", 200}, {"text/html", "/?_format=json", 200},
		{"text/html", "/dashboard", 303}, {"text/html", "/dashboard/?setup=hunter2", 303},
	} {
		r := b.request("GET", c.target, "", "", "Accept", c.accept, "User-Agent", "Mozilla/5.0")
		if r.status != c.status || r.status == 303 && !strings.HasPrefix(r.header.Get("Location"), "/dashboard/") || strings.Contains(r.header.Get("Location"), "hunter2") {
			t.Errorf("%s %s: status %d, to %q", c.accept, c.target, r.status, r.header.Get("Location"))
		}
	}
}

// stream reads the stream of a page over a real connection.
type stream struct {
	t      testing.TB
	events chan [2]string
	body   io.Closer
}

func (b *bench) serve() *httptest.Server {
	b.t.Helper()
	s := httptest.NewUnstartedServer(b.handler)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.StartTLS()
	b.t.Cleanup(s.Close)
	return s
}

func (b *bench) follow(s *httptest.Server, path, token string) *stream {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), "GET", s.URL+"/dashboard/"+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.AddCookie(&http.Cookie{Name: auth.SessionCookie, Value: token, Secure: true, HttpOnly: true})
	answer, err := s.Client().Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	f := &stream{t: b.t, events: make(chan [2]string, 1000), body: answer.Body}
	b.t.Cleanup(func() { _ = answer.Body.Close() })
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" {
		b.t.Fatalf("%s is %s, status %d", path, kind, answer.StatusCode)
	}
	go func() {
		defer close(f.events)
		var name string
		var data []string
		for lines := bufio.NewReader(answer.Body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			switch line = strings.TrimRight(line, "\n"); {
			case line == "":
				if name != "" && name != "beat" {
					f.events <- [2]string{name, strings.Join(data, "\n")}
				}
				name, data = "", nil
			case strings.HasPrefix(line, "event: "):
				name = line[7:]
			case strings.HasPrefix(line, "data:"):
				data = append(data, strings.TrimPrefix(line[5:], " "))
			}
		}
	}()
	return f
}

// next is the next event, which has to come soon.
func (f *stream) next(name string) string {
	f.t.Helper()
	select {
	case e, open := <-f.events:
		if !open || e[0] != name {
			f.t.Fatalf("event %q %q (open %v), want %s", e[0], e[1], open, name)
		}
		return e[1]
	case <-time.After(20 * time.Second):
		f.t.Fatalf("no event %s came", name)
	}
	return ""
}

// none holds that nothing is sent for a while in which it would have been.
func (f *stream) none() {
	f.t.Helper()
	select {
	case e := <-f.events:
		f.t.Fatalf("event %q %.200q", e[0], e[1])
	case <-time.After(700 * time.Millisecond):
	}
}

func TestStream(t *testing.T) {
	b := newBench(t)
	harbourToSee(b)
	other := b.addCluster("jetty", "c-m-000jetty", active)
	s := b.serve()
	f := b.follow(s, "clusters/fleet-default/harbour", b.admin)
	f.next("hello")
	first := f.next("main")
	seen := regexp.MustCompile(`data-seen="([0-9a-f]+)"`).FindStringSubmatch(string(b.look("clusters/fleet-default/harbour", b.admin).raw))
	again := b.follow(s, "clusters/fleet-default/harbour?seen="+seen[1], b.admin)
	again.next("hello")
	touch := func(key string, change func(*records.Machine)) {
		t.Helper()
		if _, err := b.st.Machines.Modify(t.Context(), key, func(m records.Machine) (records.Machine, error) { change(&m); return m, nil }); err != nil {
			t.Fatal(err)
		}
	}
	b.addMachine(other, "00000000abcd", nil)
	again.none() // the page has what it showed, and nothing of it changed
	touch("fleet-default/custom-0f31c2aa9d10", func(m *records.Machine) {
		m.Status.State, m.Status.Cause = records.Unavailable, "the <b>cable</b> is out"
	})
	for _, one := range []*stream{f, again} {
		if now := one.next("main"); now == first || !strings.Contains(now, "the &lt;b&gt;cable&lt;/b&gt; is out") {
			t.Errorf("the change is not shown: %s", now)
		}
	}
	touch("fleet-default/custom-0f31c2aa9d10", func(m *records.Machine) { m.TokenHash = "other" })
	f.none() // nothing that is shown changed
	for i := range 20 {
		touch("fleet-default/custom-0f31c2aa9d10", func(m *records.Machine) { m.Status.Cause = fmt.Sprint("change number ", i) })
	}
	pictures := 0
	for now := ""; !strings.Contains(now, "change number 19"); pictures++ {
		now = f.next("main")
	}
	if pictures > 19 {
		t.Errorf("%d pictures of 20 changes", pictures)
	}
	if err := b.st.Clusters.Delete(t.Context(), "fleet-default/harbour", 0); err != nil {
		t.Fatal(err)
	}
	if now := f.next("main"); !strings.Contains(now, "There is nothing here") {
		t.Errorf("after the removal: %s", now)
	}
}

func TestStreamEndsWithTheSession(t *testing.T) {
	b := newBench(t)
	harbourToSee(b)
	s := b.serve()
	for name, end := range map[string]func(){
		"token": func() {
			if err := b.auth.RevokeToken(t.Context(), "token-boblo"); err != nil {
				t.Error(err)
			}
		},
	} {
		f := b.follow(s, "tokens", b.user)
		f.next("hello")
		f.next("main")
		end()
		for {
			e := <-f.events
			if e[0] == "main" {
				continue // the list of tokens, a moment before
			}
			if e[0] != "over" || !strings.HasPrefix(e[1], "/dashboard/login?") {
				t.Errorf("%s: event %q", name, e)
			}
			break
		}
	}
	f := b.follow(s, "clusters", "nonsense")
	if to := f.next("over"); !strings.HasPrefix(to, "/dashboard/login") {
		t.Errorf("without a session: %q", to)
	}
}

func TestLists(t *testing.T) {
	b := newBench(t)
	for i := range 250 {
		b.addCluster(fmt.Sprintf("c-%03d", i), fmt.Sprintf("c-m-%08d", i), func(c *records.Cluster) {
			if i%2 == 0 {
				active(c)
			}
		})
	}
	rows := regexp.MustCompile(`<tr id="([^"]+)">`)
	for _, c := range []struct {
		query       string
		n           int
		first, last string
	}{
		{"", 100, "c-m-00000000", "c-m-00000099"}, {"?page=3", 50, "c-m-00000200", "c-m-00000249"}, {"?page=99", 50, "c-m-00000200", "c-m-00000249"},
		{"?page=x", 100, "c-m-00000000", "c-m-00000099"}, {"?sort=-name", 100, "c-m-00000249", "c-m-00000150"}, {"?q=C-24", 10, "c-m-00000240", "c-m-00000249"},
		{"?state=active&sort=-name", 100, "c-m-00000248", "c-m-00000050"}, {"?sort=state", 100, "c-m-00000001", "c-m-00000199"}, {"?q=none-such", 0, "", ""}, {"?sort=nothing", 100, "c-m-00000000", "c-m-00000099"},
	} {
		found := rows.FindAllStringSubmatch(string(b.look("clusters"+c.query, b.admin).raw), -1)
		if len(found) != c.n || c.n > 0 && (found[0][1] != c.first || found[c.n-1][1] != c.last) {
			t.Errorf("%q: %d rows, %v to %v", c.query, len(found), found[:min(1, len(found))], found[max(0, len(found)-1):])
		}
	}
}

func TestAssets(t *testing.T) {
	b := newBench(t)
	page := string(b.look("login", "").raw)
	for _, at := range regexp.MustCompile(`(?:src|href)="(/dashboard/assets/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		r := b.request("GET", at[1], "", "")
		if r.status != 200 || !strings.Contains(r.header.Get("Cache-Control"), "immutable") || len(r.raw) < 100 {
			t.Errorf("%s: status %d, %s", at[1], r.status, r.header.Get("Cache-Control"))
		}
	}
	if r := b.request("GET", "/dashboard/assets/ui.go", "", ""); r.status != 404 {
		t.Errorf("another file: status %d", r.status)
	}
	if text, err := os.ReadFile("../ui/assets/style.css"); err != nil || strings.Contains(string(text), "http") {
		t.Error("the style loads something", err)
	}
}
