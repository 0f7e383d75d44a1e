package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestLoginRefusals: a person who is not let in reads why in a sentence, on a form that still has what they typed but the password.
func TestLoginRefusals(t *testing.T) {
	const right = "correct horse of this test"
	for _, c := range []struct {
		name, username, password, directory string
		// before is what happened before.
		before func(*apibed.Bed)
		status int
		says   string
	}{
		{"a wrong password", "ann", "wrong", "", nil, 401, "User name and password do not belong together."},
		{"nobody of that name", "eve", right, "", nil, 401, "User name and password do not belong together."},
		{"a disabled user", "ann", right, "", func(b *apibed.Bed) {
			apibed.Alter(b, "u-ann", b.State.Users.Modify, func(u *records.User) { u.Disabled = true })
		}, 403, "This user is disabled. An administrator of users can enable it"},
		{"a disabled user with a wrong password", "ann", "wrong", "", func(b *apibed.Bed) {
			apibed.Alter(b, "u-ann", b.State.Users.Modify, func(u *records.User) { u.Disabled = true })
		}, 401, "User name and password do not belong together."},
		{"too many attempts", "ann", right, "", func(b *apibed.Bed) {
			for range 20 {
				b.Send("login", "", url.Values{"username": {"ann"}, "password": {"wrong"}})
			}
		}, 429, "More than 10 failed logins in 5 minutes: wait 300 s and try again."},
		{"a directory that is away", "ann", right, records.OpenLDAP, func(b *apibed.Bed) {
			d := records.Directory{Kind: records.OpenLDAP, Access: records.Unrestricted, LDAP: &records.LDAPDirectory{
				URL: "ldaps://127.0.0.1:1", BindDN: "cn=drover", BindPassword: "hunter2", Users: records.LDAPUsers{Base: "ou=people"},
			}}
			if _, err := b.State.Directories.Create(b.T.Context(), d.Kind, d); err != nil {
				b.T.Fatal(err)
			}
		}, 503, "Directory openldap does not answer as it has to: try again later"},
		{"a directory that is not there", "ann", right, records.ActiveDirectory, nil, 404, "There is no such directory"},
		{"a directory that takes no passwords", "ann", right, records.GitHub, func(b *apibed.Bed) {
			d := records.Directory{Kind: records.GitHub, GitHub: &records.GitHubDirectory{ClientID: "x"}}
			if _, err := b.State.Directories.Create(b.T.Context(), d.Kind, d); err != nil {
				b.T.Fatal(err)
			}
		}, 404, "There is no such directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := apibed.New(t)
			hash, err := b.Auth.HashNew(t.Context(), "ann", right, 12)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.State.Users.Create(t.Context(), "u-ann", records.User{ID: "u-ann", Username: "ann", PasswordHash: hash, Created: apibed.Start}); err != nil {
				t.Fatal(err)
			}
			if c.before != nil {
				c.before(b)
			}
			r := b.Send("login", "", url.Values{"username": {c.username}, "password": {c.password}, "directory": {c.directory}, "to": {"/dashboard/tokens"}})
			page := string(r.Raw)
			_, fault, _ := strings.Cut(page, `<p class="fault" role="alert">`)
			fault, _, _ = strings.Cut(fault, "</p>")
			fault = html.UnescapeString(fault)
			if r.Status != c.status || !strings.Contains(fault, c.says) || !strings.HasSuffix(fault, ".") {
				t.Errorf("status %d: %q", r.Status, fault)
			}
			if c.status == http.StatusTooManyRequests && r.Header.Get("Retry-After") == "" {
				t.Error("it does not say when to try again")
			}
			if !strings.Contains(page, `name="username" value="`+c.username+`"`) || !strings.Contains(page, `name="to" value="/dashboard/tokens"`) || strings.Contains(page, c.password) || strings.Contains(page, "hunter2") {
				t.Errorf("the form: %s", page)
			}
			if strings.Contains(strings.Join(r.Header["Set-Cookie"], "\n"), auth.SessionCookie+"=") {
				t.Errorf("there is a session: %v", r.Header["Set-Cookie"])
			}
			b.Tidy("login", page)
		})
	}
}
