package ui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestNobodyActsAsSomebodyElseHere: what was asked for in the name of another user is not done in the caller's own.
func TestNobodyActsAsSomebodyElseHere(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	apibed.Harbour(b)
	annID, _ := b.Person("ann", "user-base")
	for _, c := range []struct{ method, path, header string }{
		{"GET", "/v3/users", "Impersonate-User"},
		{"GET", "/v1/management.cattle.io.users", "Impersonate-Group"},
		{"GET", "/apis/management.cattle.io/v3/users", "Impersonate-User"},
		{"GET", "/k8s/clusters/local/apis/management.cattle.io/v3/users", "Impersonate-Uid"},
		{"GET", "/api/v1/secrets", "Impersonate-User"},
		{"DELETE", "/v3/users/" + annID, "Impersonate-Extra-Scopes"},
		{"POST", "/v1-drover/apply", "Impersonate-User"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader("{}"))
		r.Header.Set("Authorization", "Bearer "+b.Admin)
		r.Header.Set(c.header, "u-somebody")
		w := httptest.NewRecorder()
		b.Handler.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "acting as another user (--as, --as-group) is possible in clusters alone") {
			t.Errorf("%s %s with %s: %d %s", c.method, c.path, c.header, w.Code, w.Body)
		}
	}
	if _, ok := b.State.Users.Get(annID); !ok {
		t.Error("it was done all the same")
	}
}

// TestBodiesThatAreNoObjects are refused in words of people.
func TestBodiesThatAreNoObjects(t *testing.T) {
	b := apibed.New(t)
	for _, path := range []string{"/v3/tokens", "/apis/ext.cattle.io/v1/tokens"} {
		before := len(b.State.Tokens.List())
		for _, body := range []string{`null`, `[]`, `"x"`, `7`} {
			r := b.Request("POST", path, b.Admin, body)
			if r.Status != 422 || strings.Contains(string(r.Raw), "Go value") || !strings.Contains(string(r.Raw), "object") {
				t.Errorf("%s to %s: %d %s", body, path, r.Status, r.Raw)
			}
		}
		if made := len(b.State.Tokens.List()) - before; made > 0 {
			t.Errorf("%d tokens were made at %s", made, path)
		}
	}
	r := b.Request("POST", "/apis/ext.cattle.io/v1/tokens", b.Admin, `{"spec":{"ttl":"x"}}`)
	if r.Status != 422 || !strings.Contains(string(r.Raw), "spec.ttl: is of the type string, which it is not here") {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	if r := b.Request("GET", "/apis/ext.cattle.io/v1/tokens?watch=true", b.Admin, ""); r.Status != 405 || !strings.Contains(string(r.Raw), "not watched") {
		t.Errorf("a watch of tokens: %d %s", r.Status, r.Raw)
	}
}

// TestAPauseIsSeen at the cluster, whatever its state, and can be ended on its page; one of an imported cluster would be of nothing.
func TestAPauseIsSeen(t *testing.T) {
	b := apibed.New(t)
	cl, _ := apibed.Harbour(b)
	says(b, "clusters/"+cl.Key(), "Pause", "!Resume")
	b.Want(http.StatusOK, "POST", "/v1-drover/clusters/"+cl.Key()+"/pause", "")
	if r := b.Get("/v1-drover/clusters/" + cl.Key()); r.Body["paused"] != true {
		t.Errorf("%s", r.Raw)
	}
	says(b, "clusters/"+cl.Key(), "Resume", "!Pause")
	b.Want(http.StatusOK, "POST", "/v1-drover/clusters/"+cl.Key()+"/resume", "")
	says(b, "clusters/"+cl.Key(), "Pause", "!Resume")
	b.Want(http.StatusCreated, "POST", "/v3/clusters", `{"name":"office"}`)
	if r := b.Request("POST", "/v1-drover/clusters/fleet-default/office/pause", b.Admin, ""); r.Status != 422 || !strings.Contains(r.Text("message"), "nothing to pause") {
		t.Errorf("an imported cluster: %d %s", r.Status, r.Raw)
	}
}

// TestMadeIsNamedInTheAuditLog: with what was made, and who was given what.
func TestMadeIsNamedInTheAuditLog(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	annID, _ := b.Person("ann", "user-base")
	seen := string(b.Get("/v1-drover/audit?limit=100").Raw)
	for _, want := range []string{`"kind":"user","object":"` + annID + `"`, fmt.Sprintf(`,role user-base,for local://%s"`, annID)} {
		if !strings.Contains(strings.ReplaceAll(seen, `": `, `":`), want) {
			t.Errorf("%s is not in %s", want, seen)
		}
	}
}

// TestAnOpenPageIsNoUse: a page that asks for its stream again and again keeps no session alive; a user's request does.
func TestAnOpenPageIsNoUse(t *testing.T) {
	b := apibed.New(t)
	token := b.Token("u-bob", records.Token{Session: true})
	name, _, _ := strings.Cut(token, ":")
	if r := b.Request("GET", "/v3/settings", token, "", "Accept", "text/event-stream"); r.Status != 200 || !b.Auth.Uses.Last(name).IsZero() {
		t.Errorf("a stream: %d, used at %s", r.Status, b.Auth.Uses.Last(name))
	}
	if r := b.Request("GET", "/v3/settings", token, ""); r.Status != 200 || !b.Auth.Uses.Last(name).Equal(b.Now()) {
		t.Errorf("somebody: %d, used at %s", r.Status, b.Auth.Uses.Last(name))
	}
}
