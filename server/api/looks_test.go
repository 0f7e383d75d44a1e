package api

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
)

// TestPreferences: each user has their own, no matter who else asks, and they go with the user.
func TestPreferences(t *testing.T) {
	b := newBench(t)
	administrated(b)
	annID, ann := b.person("ann", "user")
	const at = "/v3/preferences"
	for _, c := range []struct {
		token, method, target, body string
		status                      int
		says                        string
	}{
		{ann, "POST", at, `{"name":"theme","value":"dark"}`, 201, `"value":"dark"`},
		{ann, "POST", at, `{"name":"theme","value":"light"}`, 422, "NotUnique"},
		{ann, "POST", at, `{"name":"a/b","value":"x"}`, 422, "is not a valid name"},
		{ann, "POST", at, `{"name":"big","value":"` + strings.Repeat("x", 33<<10) + `"}`, 422, "MaxLengthExceeded"},
		{ann, "POST", at, `{"value":"x"}`, 422, "MissingRequired"},
		{ann, "GET", at, "", 200, `"id":"theme"`},
		{ann, "PUT", at + "/theme", `{"value":"light"}`, 200, `"value":"light"`},
		{b.admin, "GET", at + "/theme", "", 404, ""},
		{b.admin, "DELETE", at + "/theme", "", 404, ""},
		{ann, "GET", at + "/theme", "", 200, `"userId":"` + annID + `"`},
		{ann, "DELETE", at + "/theme", "", 204, ""},
		{ann, "GET", at + "/theme", "", 404, ""},
		{ann, "POST", at, `{"name":"cluster","value":""}`, 201, ""},
		{"", "GET", at, "", 401, ""},
	} {
		r := b.request(c.method, c.target, c.token, c.body)
		if r.status != c.status || !strings.Contains(strings.ReplaceAll(string(r.raw), `": "`, `":"`), c.says) {
			t.Errorf("%s %s: %d, want %d and %s: %.300s", c.method, c.target, r.status, c.status, c.says, r.raw)
		}
	}
	b.want(204, "DELETE", "/v3/users/"+annID, "")
	if left := b.st.Preferences.List(); len(left) != 0 {
		t.Errorf("after the user has gone: %v", left)
	}
	for i := range 200 {
		name := "p" + strings.Repeat("x", i)
		if _, err := b.st.Preferences.Create(t.Context(), "user-admin/"+name, records.Preference{UserID: "user-admin", Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.request("POST", at, b.admin, `{"name":"more","value":"x"}`); r.status != 422 || !strings.Contains(r.text("code"), "MaxLimit") {
		t.Errorf("one more than there may be: %d %s", r.status, r.raw)
	}
}

// TestFeatures are read by everybody who is logged in, and not switched.
func TestFeatures(t *testing.T) {
	b := newBench(t)
	administrated(b)
	_, ann := b.person("ann", "user-base")
	list := b.request("GET", "/v3/features", ann, "").data()
	if len(list) < 5 {
		t.Fatalf("%v", list)
	}
	one := b.request("GET", "/v3/features/multi-cluster-management", ann, "")
	if value, ok := one.body["value"].(bool); one.status != 200 || !ok || !value {
		t.Errorf("%d %s", one.status, one.raw)
	}
	if r := b.request("PUT", "/v3/features/fleet", b.admin, `{"value":true}`); r.status != 405 {
		t.Errorf("a feature is switched: %d %s", r.status, r.raw)
	}
}
