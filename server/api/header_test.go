package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestAuthHeader: X-API-Cattle-Auth says in the answers of the API whether its caller is logged in, so that
// a dashboard does not have to guess from the status.
func TestAuthHeader(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	limited := b.Token("user-admin", records.Token{ClusterID: "c-m-h4rb0r55"})
	expired := b.Token("user-admin", records.Token{TTLMillis: 1000})
	b.Pass(time.Minute)
	for _, c := range []struct {
		what, method, target, token string
		status                      int
		want                        string
	}{
		{"nobody", "GET", "/v3/clusters", "", 401, "false"},
		{"an unknown token", "GET", "/v3/clusters", "token-admin:x", 401, "false"},
		{"an expired token", "GET", "/v3/clusters", expired, 401, "false"},
		{"a token of a cluster", "GET", "/v3/clusters", limited, 401, "false"},
		{"an administrator", "GET", "/v3/clusters", b.Admin, 200, "true"},
		{"a user", "GET", "/v3/clusters", b.User, 200, "true"},
		{"a user who may not", "PUT", "/v3/settings/ui-pl", b.User, 403, "true"},
		{"what does not exist", "GET", "/v3/clusters/nothing", b.Admin, 404, "true"},
		{"what cannot be done", "DELETE", "/v3/settings/ui-pl", b.Admin, 405, "true"},
		{"the other API", "GET", "/v1-drover/clusters", b.Admin, 200, "true"},
		{"what everybody sees, nobody", "GET", "/v3/settings/first-login", "", 200, "false"},
		{"what everybody sees, a wrong token", "GET", "/v3/settings/first-login", "token-admin:x", 200, "false"},
		{"what everybody sees, a user", "GET", "/v3/settings/first-login", b.User, 200, "true"},
		{"what asks for no login", "GET", "/v3-public/authProviders", "", 200, "false"},
	} {
		body := ""
		if c.method == http.MethodPut {
			body = `{"value":"x"}`
		}
		r := b.Request(c.method, c.target, c.token, body)
		if got := r.Header.Values("X-API-Cattle-Auth"); r.Status != c.status || len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %d with %q, want %d with %s", c.what, r.Status, got, c.status, c.want)
		}
	}
}
