package ui_test

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
	"github.com/drover-project/drover/test/apibed"
)

// formOf is the form on a page, without that of the header, and where it goes.
func formOf(b *apibed.Bed, page string) (action string, given url.Values) {
	b.T.Helper()
	_, main, _ := strings.Cut(page, `<main`)
	m := regexp.MustCompile(`(?s)<form[^>]* method="post" action="/dashboard/([^"]*)"[^>]*>(.*?)</form>`).FindStringSubmatch(main)
	if m == nil {
		b.T.Fatalf("there is no form on the page: %s", page)
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
	b := apibed.New(t)
	apibed.Harbour(b)
	const at = "clusters/fleet-default/harbour/change"
	session := func(name string) string { return b.Token("user-admin", records.Token{Name: name, Session: true}) }
	first := session("token-first")
	action, form := formOf(b, string(b.Look(at, first).Raw))
	if action != at || form.Get("CSRF") != b.FormToken(first) {
		t.Fatalf("the form goes to %s with %v", action, form)
	}
	typed := "\n# <typed> & \"kept\"\n" + strings.Replace(form.Get("text"), "    name: harbour\n", "    name: harbour\n    labels: {seen: \"yes\"}\n", 1)
	form.Set("text", typed)
	form.Set("act", "preview")
	if err := b.Auth.RevokeToken(t.Context(), "token-first"); err != nil {
		t.Fatal(err)
	}
	over := b.Send(at, first, asSent(form), "Sec-Fetch-Site", "same-origin")
	action, kept := formOf(b, string(over.Raw))
	if over.Status != http.StatusUnauthorized || action != at || kept.Get("text") != typed || !strings.Contains(string(over.Raw), `href="/dashboard/login" target="_blank"`) || !strings.Contains(string(over.Raw), "your session is over") {
		t.Fatalf("without a session: %d, to %s, %q: %s", over.Status, action, kept.Get("text"), over.Raw)
	}
	b.Tidy(at, string(over.Raw))
	second := session("token-again")
	again := b.Send(at, second, asSent(kept), "Origin", "https://drover.example")
	action, kept = formOf(b, string(again.Raw))
	if again.Status != http.StatusUnprocessableEntity || action != at || kept.Get("text") != typed || kept.Get("CSRF") != b.FormToken(second) || !strings.Contains(string(again.Raw), "opened before you logged in again") || strings.Contains(string(again.Raw), "X-API-CSRF") {
		t.Fatalf("with what an earlier session proved: %d, %v: %s", again.Status, kept, again.Raw)
	}
	b.Tidy(at, string(again.Raw))
	shown := b.Send(at, second, asSent(kept))
	if _, form = formOf(b, string(shown.Raw)); shown.Status != http.StatusOK || form.Get("text") != typed || form.Get("seen") == "" {
		t.Fatalf("sent once more: %d %s", shown.Status, shown.Raw)
	}
	if d, _ := b.State.Clusters.Get("fleet-default/harbour"); d.Value.Labels["seen"] != "" {
		t.Error("something was applied")
	}
}

// TestWhatIsNotKept: passwords, and what a page of another server has a browser send.
func TestWhatIsNotKept(t *testing.T) {
	b := apibed.New(t)
	user := url.Values{"username": {"ben"}, "password": {"a long password of ben"}, "key": {ui.NewFormKey()}}
	r := b.Send("do/new-user", "", user)
	if text := string(r.Raw); r.Status != http.StatusUnauthorized || strings.Contains(text, "a long password") || !strings.Contains(text, "Passwords are not kept") || !strings.Contains(text, "username: <code>ben</code>") {
		t.Errorf("a password: %d %s", r.Status, r.Raw)
	}
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}} {
		if r := b.Send("do/new-user", "", user, header...); r.Status != http.StatusSeeOther || strings.Contains(string(r.Raw), "ben") {
			t.Errorf("%v without a session: %d %s", header, r.Status, r.Raw)
		}
		if r := b.Send("do/new-user", b.Admin, user, header...); r.Status != http.StatusUnprocessableEntity || strings.Contains(string(r.Raw), "ben") || strings.Contains(string(r.Raw), "X-API-CSRF") {
			t.Errorf("%v in a session: %d %s", header, r.Status, r.Raw)
		}
	}
	for name, form := range map[string]url.Values{"too long": {"text": {strings.Repeat("x", 2<<20)}}, "nothing": {}} {
		if r := b.Send("new", "", form); r.Status != http.StatusSeeOther {
			t.Errorf("%s: %d", name, r.Status)
		}
	}
	if r := b.Send(apibed.TerminalOfHarbour, "", url.Values{"line": {"get pods"}}, "Accept", "text/plain"); r.Status != http.StatusUnauthorized || !strings.HasPrefix(string(r.Raw), "drover: Your session is over.") {
		t.Errorf("to a script: %d %s", r.Status, r.Raw)
	}
	if r := b.Request("POST", "/dashboard/check", "", "x", "Content-Type", "application/yaml"); r.Status != http.StatusUnauthorized || !strings.Contains(string(r.Raw), "message") {
		t.Errorf("the check: %d %s", r.Status, r.Raw)
	}
}

// TestProofIsInTheBody: no address has what proves that a form is of this page.
func TestProofIsInTheBody(t *testing.T) {
	b := apibed.New(t)
	apibed.HarbourToSee(b)
	for _, path := range apibed.Pages {
		text := string(b.Look(path, b.Admin).Raw)
		if strings.Contains(text, "CSRF=") {
			t.Errorf("%s has it in an address: %s", path, text)
		}
		for _, form := range regexp.MustCompile(`<form[^>]* method="post"[^>]*>\s*<[^>]*>`).FindAllString(text, -1) {
			if !strings.Contains(form, `action="/dashboard/login"`) && !strings.Contains(form, `<input type="hidden" name="CSRF" value="`+b.FormToken(b.Admin)+`">`) {
				t.Errorf("%s: a form does not begin with it: %s", path, form)
			}
		}
	}
	_, form := formOf(b, string(b.Look("do/pause/fleet-default/harbour", b.Admin).Raw))
	wrong := url.Values{"CSRF": {strings.Repeat("0", 32)}, "key": form["key"]}
	late := "key=" + form.Get("key") + "&CSRF=" + form.Get("CSRF") // behind others, where no reader looks
	cookies := auth.SessionCookie + "=" + b.Admin + "; " + auth.ForgeryCookie + "=" + b.FormToken(b.Admin)
	for name, body := range map[string]string{"wrong": wrong.Encode(), "late": late, "none": "key=" + form.Get("key"), "short": "CSRF=" + form.Get("CSRF")[:31]} {
		r := b.Request("POST", "/dashboard/do/pause/fleet-default/harbour", "", body, "Content-Type", "application/x-www-form-urlencoded", "Cookie", cookies)
		if d, _ := b.State.Clusters.Get("fleet-default/harbour"); r.Status != http.StatusUnprocessableEntity || d.Value.Paused != nil {
			t.Errorf("%s: %d", name, r.Status)
		}
	}
	if r := b.Send("do/pause/fleet-default/harbour", b.Admin, form); r.Status != http.StatusSeeOther {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
}
