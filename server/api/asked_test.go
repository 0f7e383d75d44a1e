package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
)

// TestNobodyActsAsSomebodyElseHere: what was asked for in the name of another user is not done in the caller's own.
func TestNobodyActsAsSomebodyElseHere(t *testing.T) {
	b := newBench(t)
	administrated(b)
	harbour(b)
	annID, _ := b.person("ann", "user-base")
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
		r.Header.Set("Authorization", "Bearer "+b.admin)
		r.Header.Set(c.header, "u-somebody")
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "acting as another user (--as, --as-group) is possible in clusters alone") {
			t.Errorf("%s %s with %s: %d %s", c.method, c.path, c.header, w.Code, w.Body)
		}
	}
	if _, ok := b.st.Users.Get(annID); !ok {
		t.Error("it was done all the same")
	}
}

// TestBodiesThatAreNoObjects are refused in words of people.
func TestBodiesThatAreNoObjects(t *testing.T) {
	b := newBench(t)
	for _, path := range []string{"/v3/tokens", "/apis/ext.cattle.io/v1/tokens"} {
		before := len(b.st.Tokens.List())
		for _, body := range []string{`null`, `[]`, `"x"`, `7`} {
			r := b.request("POST", path, b.admin, body)
			if r.status != 422 || strings.Contains(string(r.raw), "Go value") || !strings.Contains(string(r.raw), "object") {
				t.Errorf("%s to %s: %d %s", body, path, r.status, r.raw)
			}
		}
		if made := len(b.st.Tokens.List()) - before; made > 0 {
			t.Errorf("%d tokens were made at %s", made, path)
		}
	}
	r := b.request("POST", "/apis/ext.cattle.io/v1/tokens", b.admin, `{"spec":{"ttl":"x"}}`)
	if r.status != 422 || !strings.Contains(string(r.raw), "spec.ttl: is of the type string, which it is not here") {
		t.Errorf("%d %s", r.status, r.raw)
	}
	if r := b.request("GET", "/apis/ext.cattle.io/v1/tokens?watch=true", b.admin, ""); r.status != 405 || !strings.Contains(string(r.raw), "not watched") {
		t.Errorf("a watch of tokens: %d %s", r.status, r.raw)
	}
}

// TestAPauseIsSeen at the cluster, whatever its state, and can be ended on its page; one of an imported cluster would be of nothing.
func TestAPauseIsSeen(t *testing.T) {
	b := newBench(t)
	cl, _ := harbour(b)
	b.says("clusters/"+cl.Key(), "Pause", "!Resume")
	b.want(http.StatusOK, "POST", "/v1-drover/clusters/"+cl.Key()+"/pause", "")
	if r := b.get("/v1-drover/clusters/" + cl.Key()); r.body["paused"] != true {
		t.Errorf("%s", r.raw)
	}
	b.says("clusters/"+cl.Key(), "Resume", "!Pause")
	b.want(http.StatusOK, "POST", "/v1-drover/clusters/"+cl.Key()+"/resume", "")
	b.says("clusters/"+cl.Key(), "Pause", "!Resume")
	b.want(http.StatusCreated, "POST", "/v3/clusters", `{"name":"office"}`)
	if r := b.request("POST", "/v1-drover/clusters/fleet-default/office/pause", b.admin, ""); r.status != 422 || !strings.Contains(r.text("message"), "nothing to pause") {
		t.Errorf("an imported cluster: %d %s", r.status, r.raw)
	}
}

// TestMadeIsNamedInTheAuditLog: with what was made, and who was given what.
func TestMadeIsNamedInTheAuditLog(t *testing.T) {
	b := newBench(t)
	administrated(b)
	annID, _ := b.person("ann", "user-base")
	seen := string(b.get("/v1-drover/audit?limit=100").raw)
	for _, want := range []string{`"kind":"user","object":"` + annID + `"`, fmt.Sprintf(`,role user-base,for local://%s"`, annID)} {
		if !strings.Contains(strings.ReplaceAll(seen, `": `, `":`), want) {
			t.Errorf("%s is not in %s", want, seen)
		}
	}
}

// TestAnOpenPageIsNoUse: a page that asks for its stream again and again keeps no session alive; a user's request does.
func TestAnOpenPageIsNoUse(t *testing.T) {
	b := newBench(t)
	token := b.token("u-bob", records.Token{Session: true})
	name, _, _ := strings.Cut(token, ":")
	if r := b.request("GET", "/v3/settings", token, "", "Accept", "text/event-stream"); r.status != 200 || !b.auth.Uses.Last(name).IsZero() {
		t.Errorf("a stream: %d, used at %s", r.status, b.auth.Uses.Last(name))
	}
	if r := b.request("GET", "/v3/settings", token, ""); r.status != 200 || !b.auth.Uses.Last(name).Equal(b.now()) {
		t.Errorf("somebody: %d, used at %s", r.status, b.auth.Uses.Last(name))
	}
}
