package api_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestPreferences: each user has their own, no matter who else asks, and they go with the user.
func TestPreferences(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	annID, ann := b.Person("ann", "user")
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
		{b.Admin, "GET", at + "/theme", "", 404, ""},
		{b.Admin, "DELETE", at + "/theme", "", 404, ""},
		{ann, "GET", at + "/theme", "", 200, `"userId":"` + annID + `"`},
		{ann, "DELETE", at + "/theme", "", 204, ""},
		{ann, "GET", at + "/theme", "", 404, ""},
		{ann, "POST", at, `{"name":"cluster","value":""}`, 201, ""},
		{"", "GET", at, "", 401, ""},
	} {
		r := b.Request(c.method, c.target, c.token, c.body)
		if r.Status != c.status || !strings.Contains(strings.ReplaceAll(string(r.Raw), `": "`, `":"`), c.says) {
			t.Errorf("%s %s: %d, want %d and %s: %.300s", c.method, c.target, r.Status, c.status, c.says, r.Raw)
		}
	}
	b.Want(204, "DELETE", "/v3/users/"+annID, "")
	if left := b.State.Preferences.List(); len(left) != 0 {
		t.Errorf("after the user has gone: %v", left)
	}
	for i := range 200 {
		name := "p" + strings.Repeat("x", i)
		if _, err := b.State.Preferences.Create(t.Context(), "user-admin/"+name, records.Preference{UserID: "user-admin", Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.Request("POST", at, b.Admin, `{"name":"more","value":"x"}`); r.Status != 422 || !strings.Contains(r.Text("code"), "MaxLimit") {
		t.Errorf("one more than there may be: %d %s", r.Status, r.Raw)
	}
}

// TestFeatures are read by everybody who is logged in, and not switched.
func TestFeatures(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	_, ann := b.Person("ann", "user-base")
	list := b.Request("GET", "/v3/features", ann, "").Data()
	if len(list) < 5 {
		t.Fatalf("%v", list)
	}
	one := b.Request("GET", "/v3/features/multi-cluster-management", ann, "")
	if value, ok := one.Body["value"].(bool); one.Status != 200 || !ok || !value {
		t.Errorf("%d %s", one.Status, one.Raw)
	}
	if r := b.Request("PUT", "/v3/features/fleet", b.Admin, `{"value":true}`); r.Status != 405 {
		t.Errorf("a feature is switched: %d %s", r.Status, r.Raw)
	}
}
