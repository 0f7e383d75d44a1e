// Users, what they may do and what they did.

package apibed

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/quotas"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/githubstandin"
)

// Person makes a user with global roles over the API and logs them in.
func (b *Bed) Person(name string, globalRoles ...string) (id, token string) {
	b.T.Helper()
	r := b.Want(http.StatusCreated, "POST", "/v3/users", fmt.Sprintf(`{"username":%q,"password":"correct horse %s"}`, name, name))
	id = r.Text("id")
	for _, role := range globalRoles {
		b.Bind("globalrolebindings", fmt.Sprintf(`{"globalRoleId":%q,"userId":%q}`, role, id))
	}
	return id, b.Token(id, records.Token{})
}

// Bind gives a role by a binding, whose ID it returns; plural is the name of its type in /v3.
func (b *Bed) Bind(plural, body string) (id string) {
	b.T.Helper()
	return b.Want(http.StatusCreated, "POST", "/v3/"+plural, body).Text("id")
}

// Administrated makes the bed's administrator one by a binding, as a start of the server does.
func Administrated(b *Bed) {
	b.T.Helper()
	if _, err := b.Auth.Bootstrap(b.T.Context(), "", ""); err != nil {
		b.T.Fatal(err)
	}
	b.Give("user-admin", "the administrator's own") // who could not log in would not count as the last one
}

// LoginTarget is where a user of the server logs in.
const LoginTarget = "/v3-public/localProviders/local?action=login"

// Give gives a user a password.
func (b *Bed) Give(id, password string) {
	b.T.Helper()
	b.Want(http.StatusOK, "POST", "/v3/users/"+id+"?action=setpassword", fmt.Sprintf(`{"newPassword":%q}`, password))
}

// Configure makes a GitHub the directory of the server; more are further lines of its document.
func (b *Bed) Configure(g *githubstandin.GitHub, more string) {
	b.T.Helper()
	b.Want(http.StatusOK, "POST", "/v1-drover/directories/set", fmt.Sprintf("kind: github\n%sgithub:\n  url: %s\n  clientID: %s\n  clientSecret: %s\n  ca: %q\n",
		more, g.URL, githubstandin.ClientID, githubstandin.ClientSecret, g.CA))
}

// AskGroups has the controller of directories look once.
func (b *Bed) AskGroups() {
	b.T.Helper()
	if _, err := b.groups.Worker().Reconcile(b.T.Context(), ""); err != nil {
		b.T.Fatal(err)
	}
}

// AsksAbout says whether the keeper asks about a user of a directory of whom what is known is an hour old.
func (b *Bed) AsksAbout(id string) bool {
	b.T.Helper()
	g, stop := githubstandin.Start("https://drover.example/verify-auth", githubstandin.Person{ID: 1})
	defer stop()
	b.Configure(g, "")
	if _, err := b.State.Users.Create(b.T.Context(), id, records.User{ID: id, Username: id, Elsewhere: []string{"github_user://1"}, Asked: b.at.Add(-30 * time.Minute)}); err == nil {
		if _, err := b.State.DirectoryTokens.Create(b.T.Context(), id, records.DirectoryToken{Kind: records.GitHub, Token: "x"}); err != nil {
			b.T.Fatal(err)
		}
		b.Token(id, records.Token{})
	}
	b.AskGroups()
	return len(g.Asked()) > 0
}

// Limit sets a quota.
func (b *Bed) Limit(quota quotas.Quota, value string) {
	b.T.Helper()
	b.Want(http.StatusOK, "PUT", "/v3/settings/"+string(quota), `{"value":"`+value+`"}`)
}

// AuditedLines is the log as it is in its files, with what differs each time replaced.
func (b *Bed) AuditedLines(t *testing.T) string {
	t.Helper()
	found, err := b.Audit.Newest(t.Context(), audit.Query{}, 1000)
	if err != nil || found.Torn > 0 {
		t.Fatal(err, found.Torn)
	}
	ids, out := map[string]string{}, &strings.Builder{}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, e := range found.Entries {
		if ids[e.ID] == "" {
			ids[e.ID] = fmt.Sprint("request-", len(ids)+1)
		}
		if e.ID = ids[e.ID]; strings.HasPrefix(e.Token, "token-") && e.Token != "token-admin" && e.Token != "token-boblo" {
			e.Token = "token-xxxxx"
		}
		if e.Kind == "token" && strings.HasPrefix(e.Object, "token-") {
			e.Object = "token-xxxxx"
		}
		if err := encoder.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// AuditedBytes are the bytes of all files of the log.
func (b *Bed) AuditedBytes(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(b.Audit.Dir, "*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	var all []byte
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return string(all)
}
