package ui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/apibed"
)

// TestDocumentation: the pages are there for users who are not logged in, have a search, and old addresses lead on.
func TestDocumentation(t *testing.T) {
	b := apibed.New(t)
	for _, c := range []struct {
		path, token string
		status      int
		has         []string
		leads       string
	}{
		{"docs/", "", http.StatusOK, []string{`<h1>Documentation</h1>`, `href="/dashboard/docs/start/k3s"`, `name="q"`}, ""},
		{"docs/reference/causes", "", http.StatusOK, []string{`id="quorum-lost"`, `aria-label="On this page"`}, ""},
		{"docs/?q=quorum-lost", "", http.StatusOK, []string{`href="/dashboard/docs/reference/causes#quorum-lost"`}, ""},
		{"docs/?q=%3Cscript%3Ealert(1)%3C/script%3E", "", http.StatusOK, []string{"No page has all these words", `value="&lt;script&gt;alert(1)&lt;/script&gt;"`}, ""},
		{"docs/reference/causes", b.Admin, http.StatusOK, []string{`>Log out<`, `aria-current="page">Docs<`}, ""},
		{"docs/rescue", "", http.StatusSeeOther, nil, "/dashboard/docs/how-to/restore-a-cluster"},
		{"docs/reference/cli.md", "", http.StatusSeeOther, nil, "/dashboard/docs/reference/cli"},
		{"docs/nothing", "", http.StatusNotFound, []string{"There is nothing here"}, ""},
		{"docs/../../etc/passwd", "", http.StatusNotFound, nil, ""},
		{"docs/page.png", "", http.StatusOK, nil, ""},
	} {
		r := b.Look(c.path, c.token)
		if r.Status != c.status || r.Header.Get("Location") != c.leads {
			t.Errorf("%s: %d to %q, want %d to %q", c.path, r.Status, r.Header.Get("Location"), c.status, c.leads)
		}
		for _, want := range c.has {
			if !strings.Contains(string(r.Raw), want) {
				t.Errorf("%s does not have %s", c.path, want)
			}
		}
		if policy := r.Header.Get("Content-Security-Policy"); c.status == http.StatusOK && !strings.Contains(policy, "script-src 'self'") {
			t.Errorf("%s: the policy is %q", c.path, policy)
		}
	}
}
