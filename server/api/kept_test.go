package api

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/ui"
)

// formOf is the form on a page, without that of the header, and where it goes.
func (b *bench) formOf(page string) (action string, given url.Values) {
	b.t.Helper()
	_, main, _ := strings.Cut(page, `<main`)
	m := regexp.MustCompile(`(?s)<form[^>]* method="post" action="/dashboard/([^"]*)"[^>]*>(.*?)</form>`).FindStringSubmatch(main)
	if m == nil {
		b.t.Fatalf("there is no form on the page: %s", page)
	}
	given = url.Values{}
	for _, f := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(m[2], -1) {
		given.Add(f[1], html.UnescapeString(f[2]))
	}
	for _, f := range regexp.MustCompile(`(?s)<textarea[^>]* name="([^"]*)"[^>]*>(.*?)</textarea>`).FindAllStringSubmatch(m[2], -1) {
		given.Add(f[1], strings.TrimPrefix(html.UnescapeString(f[2]), "\n"))
	}
	return html.UnescapeString(m[1]), given
}

// asSent are texts as browsers send them.
func asSent(form url.Values) url.Values {
	sent := url.Values{}
	for name, values := range form {
		for _, value := range values {
			sent.Add(name, strings.ReplaceAll(value, "\n", "\r\n"))
		}
	}
	return sent
}

// TestFormsAreKept: what a user typed outlives their session, and what it proved. Nothing is done before it is sent again.
func TestFormsAreKept(t *testing.T) {
	b := newBench(t)
	harbour(b)
	const at = "clusters/fleet-default/harbour/change"
	session := func(name string) string { return b.token("user-admin", records.Token{Name: name, Session: true}) }
	first := session("token-first")
	action, form := b.formOf(string(b.look(at, first).raw))
	if action != at || form.Get("CSRF") != b.formToken(first) {
		t.Fatalf("the form goes to %s with %v", action, form)
	}
	typed := "\n# <typed> & \"kept\"\n" + strings.Replace(form.Get("text"), "    name: harbour\n", "    name: harbour\n    labels: {seen: \"yes\"}\n", 1)
	form.Set("text", typed)
	form.Set("act", "preview")
	if err := b.auth.RevokeToken(t.Context(), "token-first"); err != nil {
		t.Fatal(err)
	}
	over := b.send(at, first, asSent(form), "Sec-Fetch-Site", "same-origin")
	action, kept := b.formOf(string(over.raw))
	if over.status != http.StatusUnauthorized || action != at || kept.Get("text") != typed || !strings.Contains(string(over.raw), `href="/dashboard/login" target="_blank"`) || !strings.Contains(string(over.raw), "your session is over") {
		t.Fatalf("without a session: %d, to %s, %q: %s", over.status, action, kept.Get("text"), over.raw)
	}
	b.tidy(at, string(over.raw))
	second := session("token-again")
	again := b.send(at, second, asSent(kept), "Origin", "https://drover.example")
	action, kept = b.formOf(string(again.raw))
	if again.status != http.StatusUnprocessableEntity || action != at || kept.Get("text") != typed || kept.Get("CSRF") != b.formToken(second) || !strings.Contains(string(again.raw), "opened before you logged in again") || strings.Contains(string(again.raw), "X-API-CSRF") {
		t.Fatalf("with what an earlier session proved: %d, %v: %s", again.status, kept, again.raw)
	}
	b.tidy(at, string(again.raw))
	shown := b.send(at, second, asSent(kept))
	if _, form = b.formOf(string(shown.raw)); shown.status != http.StatusOK || form.Get("text") != typed || form.Get("seen") == "" {
		t.Fatalf("sent once more: %d %s", shown.status, shown.raw)
	}
	if d, _ := b.st.Clusters.Get("fleet-default/harbour"); d.Value.Labels["seen"] != "" {
		t.Error("something was applied")
	}
}

// TestWhatIsNotKept: passwords, and what a page of another server has a browser send.
func TestWhatIsNotKept(t *testing.T) {
	b := newBench(t)
	user := url.Values{"username": {"ben"}, "password": {"a long password of ben"}, "key": {ui.NewFormKey()}}
	r := b.send("do/new-user", "", user)
	if text := string(r.raw); r.status != http.StatusUnauthorized || strings.Contains(text, "a long password") || !strings.Contains(text, "Passwords are not kept") || !strings.Contains(text, "username: <code>ben</code>") {
		t.Errorf("a password: %d %s", r.status, r.raw)
	}
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}} {
		if r := b.send("do/new-user", "", user, header...); r.status != http.StatusSeeOther || strings.Contains(string(r.raw), "ben") {
			t.Errorf("%v without a session: %d %s", header, r.status, r.raw)
		}
		if r := b.send("do/new-user", b.admin, user, header...); r.status != http.StatusUnprocessableEntity || strings.Contains(string(r.raw), "ben") || strings.Contains(string(r.raw), "X-API-CSRF") {
			t.Errorf("%v in a session: %d %s", header, r.status, r.raw)
		}
	}
	for name, form := range map[string]url.Values{"too long": {"text": {strings.Repeat("x", 2<<20)}}, "nothing": {}} {
		if r := b.send("new", "", form); r.status != http.StatusSeeOther {
			t.Errorf("%s: %d", name, r.status)
		}
	}
	if r := b.send(terminalOfHarbour, "", url.Values{"line": {"get pods"}}, "Accept", "text/plain"); r.status != http.StatusUnauthorized || !strings.HasPrefix(string(r.raw), "drover: Your session is over.") {
		t.Errorf("to a script: %d %s", r.status, r.raw)
	}
	if r := b.request("POST", "/dashboard/check", "", "x", "Content-Type", "application/yaml"); r.status != http.StatusUnauthorized || !strings.Contains(string(r.raw), "message") {
		t.Errorf("the check: %d %s", r.status, r.raw)
	}
}

// TestProofIsInTheBody: no address has what proves that a form is of this page.
func TestProofIsInTheBody(t *testing.T) {
	b := newBench(t)
	harbourToSee(b)
	for _, path := range pages {
		text := string(b.look(path, b.admin).raw)
		if strings.Contains(text, "CSRF=") {
			t.Errorf("%s has it in an address: %s", path, text)
		}
		for _, form := range regexp.MustCompile(`<form[^>]* method="post"[^>]*>\s*<[^>]*>`).FindAllString(text, -1) {
			if !strings.Contains(form, `action="/dashboard/login"`) && !strings.Contains(form, `<input type="hidden" name="CSRF" value="`+b.formToken(b.admin)+`">`) {
				t.Errorf("%s: a form does not begin with it: %s", path, form)
			}
		}
	}
	_, form := b.formOf(string(b.look("do/pause/fleet-default/harbour", b.admin).raw))
	wrong := url.Values{"CSRF": {strings.Repeat("0", 32)}, "key": form["key"]}
	late := "key=" + form.Get("key") + "&CSRF=" + form.Get("CSRF") // behind others, where no reader looks
	cookies := auth.SessionCookie + "=" + b.admin + "; " + auth.ForgeryCookie + "=" + b.formToken(b.admin)
	for name, body := range map[string]string{"wrong": wrong.Encode(), "late": late, "none": "key=" + form.Get("key"), "short": "CSRF=" + form.Get("CSRF")[:31]} {
		r := b.request("POST", "/dashboard/do/pause/fleet-default/harbour", "", body, "Content-Type", "application/x-www-form-urlencoded", "Cookie", cookies)
		if d, _ := b.st.Clusters.Get("fleet-default/harbour"); r.status != http.StatusUnprocessableEntity || d.Value.Paused != nil {
			t.Errorf("%s: %d", name, r.status)
		}
	}
	if r := b.send("do/pause/fleet-default/harbour", b.admin, form); r.status != http.StatusSeeOther {
		t.Errorf("%d %s", r.status, r.raw)
	}
}
