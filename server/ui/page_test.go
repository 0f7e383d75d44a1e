package ui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

func TestEveryPage(t *testing.T) {
	b := apibed.New(t)
	apibed.HarbourToSee(b)
	for _, path := range apibed.Pages {
		for _, who := range []struct{ name, token string }{{"nobody", ""}, {"user", b.User}, {"admin", b.Admin}} {
			r := b.Look(path, who.token)
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
			text := string(r.Raw)
			if r.Status != want {
				t.Errorf("%s as %s: status %d, want %d: %s", path, who.name, r.Status, want, text)
			}
			if who.name == "user" && strings.Contains(text, "harbour") && path != "login" && !strings.Contains(text, `role="alert"`) {
				t.Errorf("%s shows a cluster to a user who may not see it", path)
			}
			for name, value := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
				"X-Content-Type-Options":  "nosniff", "Cache-Control": "no-store",
			} {
				if r.Header.Get(name) != value {
					t.Errorf("%s as %s: %s is %q", path, who.name, name, r.Header.Get(name))
				}
			}
			for _, secret := range []string{"hunter2", "c0ffee"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s as %s shows the secret %s", path, who.name, secret)
				}
			}
			if want == http.StatusOK {
				b.Tidy(path, text)
			}
		}
	}
	if r := b.Look("machines/fleet-default/custom-0f31c2aa9d10", b.Admin); !strings.Contains(string(r.Raw), "(secret)") {
		t.Errorf("the plan is not shown, or not masked: %s", r.Raw)
	}
}

func TestLogIn(t *testing.T) {
	b := apibed.New(t)
	const first, chosen = "hunter2 first start", "correct horse battery"
	b.Want(200, "POST", "/v3/users/u-bob?action=setpassword", `{"newPassword":"`+first+`"}`)
	if _, err := b.State.Users.Modify(t.Context(), "u-bob", func(u records.User) (records.User, error) { u.MustChange = true; return u, nil }); err != nil {
		t.Fatal(err)
	}
	b.Want(200, "PUT", "/v3/settings/audit-level", `{"value":"3"}`)
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
		if r := b.Send("login", "", c.form, c.header...); r.Status != c.status || !strings.Contains(string(r.Raw), c.says) || r.Header.Get("Set-Cookie") != "" && strings.Contains(r.Header.Get("Set-Cookie"), auth.SessionCookie) {
			t.Errorf("%s: status %d, cookies %v: %s", c.name, r.Status, r.Header["Set-Cookie"], r.Raw)
		}
	}
	r := b.Send("login", "", fields(first), "Sec-Fetch-Site", "same-origin")
	session := regexp.MustCompile(auth.SessionCookie + `=([^;]+)`).FindStringSubmatch(strings.Join(r.Header["Set-Cookie"], "\n"))
	if r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/dashboard/password" || session == nil {
		t.Fatalf("status %d, to %q: %s", r.Status, r.Header.Get("Location"), r.Raw)
	}
	token := session[1]
	if r := b.Look("clusters", token); r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/dashboard/password" {
		t.Errorf("a password that has to be changed: status %d, to %q", r.Status, r.Header.Get("Location"))
	}
	change := func(current, now, again string) url.Values {
		return url.Values{"current": {current}, "new": {now}, "again": {again}}
	}
	proof := "password?CSRF=" + b.FormToken(token)
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
		if r := b.Send(c.path, token, c.form); r.Status != c.status || !strings.Contains(string(r.Raw), c.says) {
			t.Errorf("%s: status %d: %s", c.name, r.Status, r.Raw)
		}
	}
	if r := b.Look("clusters", token); r.Status != http.StatusOK {
		t.Errorf("after the change: status %d", r.Status)
	}
	if r := b.Send("login", "", fields(chosen)); r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/dashboard/tokens?q=x" {
		t.Errorf("status %d, to %q", r.Status, r.Header.Get("Location"))
	}
	for range 2 { // a button that is pressed twice
		if r := b.Send("logout?CSRF="+b.FormToken(token), token, nil); r.Status >= 400 {
			t.Errorf("logout: status %d: %s", r.Status, r.Raw)
		}
	}
	if r := b.Look("users?q=x", token); r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/dashboard/login?over=1&to=%2Fdashboard%2Fusers%3Fq%3Dx" {
		t.Errorf("after logout: status %d, to %q", r.Status, r.Header.Get("Location"))
	}
	if all := b.AuditedBytes(t) + b.Logs.String(); strings.Contains(all, first) || strings.Contains(all, chosen) || strings.Contains(all, "hunter2") || strings.Contains(all, "horse") {
		t.Error("a password is in a log")
	}
}

// TestLocalAddresses: no user is led to another server after a login.
func TestLocalAddresses(t *testing.T) {
	b := apibed.New(t)
	b.Want(200, "POST", "/v3/users/u-bob?action=setpassword", `{"newPassword":"correct horse battery"}`)
	for _, to := range []string{"https://evil.example/dashboard/", "//evil.example/dashboard/", "/dashboard//evil.example", "/v3", `/\evil.example`, "javascript:alert(1)", "/dashboard/../v3", "", "/dashboard/%0d%0aSet-Cookie:x"} {
		r := b.Send("login", "", url.Values{"username": {"bob"}, "password": {"correct horse battery"}, "to": {to}})
		if at := r.Header.Get("Location"); r.Status != http.StatusSeeOther || !strings.HasPrefix(at, "/dashboard/") || strings.Contains(at, "evil") || strings.Contains(at, "..") {
			t.Errorf("%q leads to %q", to, at)
		}
	}
}

func TestRootLeadsBrowsersToThePage(t *testing.T) {
	b := apibed.New(t)
	for _, c := range []struct {
		accept, target string
		status         int
	}{
		{"text/html,*/*", "/", 303}, {"", "/", 200}, {"application/json", "/", 200}, {"*/*", "/", 200}, {"text/html,*/*", "/v3-public", 200}, {"text/html", "/?_format=json", 200},
		{"text/html", "/dashboard", 303}, {"text/html", "/dashboard/?setup=hunter2", 303},
	} {
		r := b.Request("GET", c.target, "", "", "Accept", c.accept, "User-Agent", "Mozilla/5.0")
		if r.Status != c.status || r.Status == 303 && !strings.HasPrefix(r.Header.Get("Location"), "/dashboard/") || strings.Contains(r.Header.Get("Location"), "hunter2") {
			t.Errorf("%s %s: status %d, to %q", c.accept, c.target, r.Status, r.Header.Get("Location"))
		}
	}
}

func TestStream(t *testing.T) {
	b := apibed.New(t)
	apibed.HarbourToSee(b)
	other := b.AddCluster("jetty", "c-m-000jetty", apibed.Active)
	s := b.Serve()
	f := b.Follow(s, "clusters/fleet-default/harbour", b.Admin)
	f.Next("hello")
	first := f.Next("main")
	seen := regexp.MustCompile(`data-seen="([0-9a-f]+)"`).FindStringSubmatch(string(b.Look("clusters/fleet-default/harbour", b.Admin).Raw))
	again := b.Follow(s, "clusters/fleet-default/harbour?seen="+seen[1], b.Admin)
	again.Next("hello")
	touch := func(key string, change func(*records.Machine)) {
		t.Helper()
		if _, err := b.State.Machines.Modify(t.Context(), key, func(m records.Machine) (records.Machine, error) { change(&m); return m, nil }); err != nil {
			t.Fatal(err)
		}
	}
	b.AddMachine(other, "00000000abcd", nil)
	again.None() // the page has what it showed, and nothing of it changed
	touch("fleet-default/custom-0f31c2aa9d10", func(m *records.Machine) {
		m.Status.State, m.Status.Cause = records.Unavailable, "the <b>cable</b> is out"
	})
	for _, one := range []*apibed.Stream{f, again} {
		if now := one.Next("main"); now == first || !strings.Contains(now, "the &lt;b&gt;cable&lt;/b&gt; is out") {
			t.Errorf("the change is not shown: %s", now)
		}
	}
	touch("fleet-default/custom-0f31c2aa9d10", func(m *records.Machine) { m.TokenHash = "other" })
	f.None() // nothing that is shown changed
	for i := range 20 {
		touch("fleet-default/custom-0f31c2aa9d10", func(m *records.Machine) { m.Status.Cause = fmt.Sprint("change number ", i) })
	}
	pictures := 0
	for now := ""; !strings.Contains(now, "change number 19"); pictures++ {
		now = f.Next("main")
	}
	if pictures > 19 {
		t.Errorf("%d pictures of 20 changes", pictures)
	}
	if err := b.State.Clusters.Delete(t.Context(), "fleet-default/harbour", 0); err != nil {
		t.Fatal(err)
	}
	if now := f.Next("main"); !strings.Contains(now, "There is nothing here") {
		t.Errorf("after the removal: %s", now)
	}
}

func TestStreamEndsWithTheSession(t *testing.T) {
	b := apibed.New(t)
	apibed.HarbourToSee(b)
	s := b.Serve()
	for name, end := range map[string]func(){
		"token": func() {
			if err := b.Auth.RevokeToken(t.Context(), "token-boblo"); err != nil {
				t.Error(err)
			}
		},
	} {
		f := b.Follow(s, "tokens", b.User)
		f.Next("hello")
		f.Next("main")
		end()
		for {
			e := <-f.Events
			if e[0] == "main" {
				continue // the list of tokens, a moment before
			}
			if e[0] != "over" || !strings.HasPrefix(e[1], "/dashboard/login?") {
				t.Errorf("%s: event %q", name, e)
			}
			break
		}
	}
	f := b.Follow(s, "clusters", "nonsense")
	if to := f.Next("over"); !strings.HasPrefix(to, "/dashboard/login") {
		t.Errorf("without a session: %q", to)
	}
}

func TestLists(t *testing.T) {
	b := apibed.New(t)
	for i := range 250 {
		b.AddCluster(fmt.Sprintf("c-%03d", i), fmt.Sprintf("c-m-%08d", i), func(c *records.Cluster) {
			if i%2 == 0 {
				apibed.Active(c)
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
		found := rows.FindAllStringSubmatch(string(b.Look("clusters"+c.query, b.Admin).Raw), -1)
		if len(found) != c.n || c.n > 0 && (found[0][1] != c.first || found[c.n-1][1] != c.last) {
			t.Errorf("%q: %d rows, %v to %v", c.query, len(found), found[:min(1, len(found))], found[max(0, len(found)-1):])
		}
	}
}

func TestAssets(t *testing.T) {
	b := apibed.New(t)
	page := string(b.Look("login", "").Raw)
	for _, at := range regexp.MustCompile(`(?:src|href)="(/dashboard/assets/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		r := b.Request("GET", at[1], "", "")
		if r.Status != 200 || !strings.Contains(r.Header.Get("Cache-Control"), "immutable") || len(r.Raw) < 100 {
			t.Errorf("%s: status %d, %s", at[1], r.Status, r.Header.Get("Cache-Control"))
		}
	}
	if r := b.Request("GET", "/dashboard/assets/ui.go", "", ""); r.Status != 404 {
		t.Errorf("another file: status %d", r.Status)
	}
	if text, err := os.ReadFile("assets/style.css"); err != nil || strings.Contains(string(text), "http") {
		t.Error("the style loads something", err)
	}
}
