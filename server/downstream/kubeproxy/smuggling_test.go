package kubeproxy

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/auth"
)

// TestNothingIsSmuggled: requests as a hostile client writes them. What reaches the cluster is one request under the caller's
// own name, or none.
func TestNothingIsSmuggled(t *testing.T) {
	const (
		pods  = "/k8s/clusters/c-m-abcd2345/api/v1/pods"
		hello = "Host: drover\r\nAuthorization: Bearer mine\r\nCookie: R_SESS=mine\r\n"
		inner = "GET /api/v1/secrets HTTP/1.1\r\nHost: x\r\nImpersonate-User: root\r\n\r\n"
	)
	get := func(headers string) string { return "GET " + pods + " HTTP/1.1\r\n" + hello + headers + "\r\n" }
	post := func(headers, body string) string {
		return "POST " + pods + " HTTP/1.1\r\n" + hello + headers + "\r\n" + body
	}
	for _, tc := range []struct {
		name    string
		caller  auth.Identity
		request string
		// code is of the answer; body what the one request has that reaches the cluster, when code is 200.
		code int
		body string
	}{
		{"an upgrade that names our header", member, post("Connection: Upgrade, Impersonate-User\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n", ""), 200, ""},
		{"several lines of Connection", member, get("Connection: keep-alive\r\nConnection: Impersonate-Group\r\nConnection: Upgrade, Authorization\r\nUpgrade: websocket\r\nConnection: Impersonate-Extra-Username ,impersonate-user\r\n"), 200, ""},
		{"Connection in other letters", member, get("cOnnEction: iMPersonate-user,AUTHORIZATION\r\n"), 200, ""},
		{"Connection that names what frames the body", member, post("Connection: Content-Length, Transfer-Encoding, Host\r\nContent-Length: 2\r\n", "{}"), 200, "{}"},
		{"an owner's", admin, get("Connection: Upgrade, Impersonate-User, Impersonate-Group\r\nUpgrade: websocket\r\n"), 200, ""},

		{"a member with an extra alone", member, get("Impersonate-Extra-Scopes: all\r\n"), 403, ""},
		{"a member with a UID alone", member, get("Impersonate-Uid: 1\r\n"), 403, ""},
		{"a member with a UID that Connection names", member, get("Impersonate-Uid: 1\r\nConnection: Impersonate-Uid\r\n"), 403, ""},
		{"a member in small letters", member, get("impersonate-user: root\r\n"), 403, ""},
		{"a member with a name of nothing", member, get("Impersonate-User:\r\n"), 403, ""},
		{"a member behind a bare line feed", member, get("X-A: b\nImpersonate-User: root\r\n"), 403, ""},
		{"an owner with an extra alone", admin, get("Impersonate-Extra-Scopes: all\r\n"), 400, ""},
		{"an owner with a UID alone", admin, get("Impersonate-Uid: 1\r\n"), 400, ""},

		{"a folded line", member, get("X-A: b\r\n Impersonate-User: root\r\n"), 200, ""},
		{"a space before the colon", member, get("Impersonate-User : root\r\n"), 400, ""},
		{"a bare carriage return", member, get("X-A: b\rImpersonate-User: root\r\n"), 400, ""},
		{"a NUL", member, get("X-A: b\x00Impersonate-User: root\r\n"), 400, ""},
		{"an escaped line in the path", member, "GET " + pods + "%0d%0aImpersonate-User:%20root HTTP/1.1\r\n" + hello + "\r\n", 200, ""},
		{"an escaped line in the query", member, "GET " + pods + "?a=%0d%0aImpersonate-User:%20root HTTP/1.1\r\n" + hello + "\r\n", 200, ""},
		{"a raw line in the query", member, "GET " + pods + "?a=\rImpersonate-User: HTTP/1.1\r\n" + hello + "\r\n", 400, ""},

		{"a request in a chunked body that has a length as well", member, post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", chunk(inner)+"0\r\n\r\n"), 200, inner},
		{"a request in a body of a GET", member, "GET " + pods + " HTTP/1.1\r\n" + hello + "Transfer-Encoding: chunked\r\n\r\n" + chunk(inner) + "0\r\n\r\n", 200, inner},
		{"an extension of a chunk", member, post("Transfer-Encoding: chunked\r\n", "2;a=\"Impersonate-User: root\"\r\n{}\r\n0\r\n\r\n"), 200, "{}"},
		{"headers behind the body", member, post("Transfer-Encoding: chunked\r\nTrailer: Impersonate-User, Authorization\r\n", chunk("{}")+"0\r\nImpersonate-User: root\r\nAuthorization: Bearer theirs\r\n\r\n"), 200, "{}"},
		{"an unknown coding", member, post("Transfer-Encoding: xchunked\r\nContent-Length: 4\r\n", inner), 501, ""},
		{"two codings", member, post("Transfer-Encoding: chunked, identity\r\nContent-Length: 4\r\n", inner), 501, ""},
		{"two lines of codings", member, post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nContent-Length: 4\r\n", inner), 501, ""},
		{"a coding behind a tab", member, post("Transfer-Encoding:\x0bchunked\r\nContent-Length: 4\r\n", inner), 400, ""},
		{"two lengths", member, post("Content-Length: 4\r\nContent-Length: 90\r\n", inner), 400, ""},
		{"a length with a sign", member, post("Content-Length: +4\r\n", inner), 400, ""},

		{"a token among the protocols", member, get("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.bWluZQ\r\nSec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.bWluZQ\r\n"), 200, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := overSockets(t, tc.caller, func(http.ResponseWriter, *http.Request) {})
			conn, from := s.dial()
			s.say(conn, tc.request)
			response, answer := s.answer(from)
			if response.StatusCode != tc.code {
				t.Errorf("%d: %s", response.StatusCode, answer)
			}
			came, bodies := s.came()
			if tc.code != http.StatusOK {
				if len(came) > 0 {
					t.Errorf("%d requests reached the cluster: %v", len(came), came[0].Header)
				}
				return
			}
			if len(came) != 1 || bodies[0] != tc.body {
				t.Fatalf("%d requests reached the cluster, with bodies %q", len(came), bodies)
			}
			speaksFor(t, came[0], tc.caller)
		})
	}
}

func chunk(text string) string { return fmt.Sprintf("%x\r\n", len(text)) + text + "\r\n" }

// speaksFor holds that a request has all that the server says of who sends it, and nothing that the client says.
func speaksFor(t *testing.T, r *http.Request, caller auth.Identity) {
	t.Helper()
	groups := []string{"system:authenticated", "system:cattle:authenticated"}
	if caller.Admin {
		groups = append(groups, "system:masters")
	}
	want := http.Header{
		"Authorization": {"Bearer account-1"}, "Impersonate-User": {caller.UserID}, "Impersonate-Group": groups,
		"Impersonate-Extra-Username": {caller.Username}, "Impersonate-Extra-Principalid": {"local://" + caller.UserID},
		"Impersonate-Extra-Requesthost": {"drover"}, "Impersonate-Extra-Requesttokenid": {caller.TokenName},
	}
	for name, values := range r.Header {
		speaks := name == "Authorization" || name == "Cookie" || strings.HasPrefix(name, "Impersonate-")
		if speaks && !slices.Equal(values, want[name]) {
			t.Errorf("%s: %q, want %q", name, values, want[name])
		}
		if strings.Contains(strings.Join(values, ","), "bWluZQ") {
			t.Errorf("%s has the caller's token: %q", name, values)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if r.Header.Get(name) == "" {
			t.Errorf("%s is gone", name)
		}
	}
	if len(r.Trailer) > 0 {
		t.Errorf("behind the body came %v", r.Trailer)
	}
	if r.Host != "127.0.0.1:6443" {
		t.Errorf("Host = %q", r.Host)
	}
}

// TestABodyThatIsNone: a client's body that cannot be read is the client's fault, and ends what the cluster gets of it.
func TestABodyThatIsNone(t *testing.T) {
	for _, tc := range []struct{ name, headers, body string }{
		{"a chunk whose size is none", "Transfer-Encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n"},
		{"a chunk that is longer than it says", "Transfer-Encoding: chunked\r\n", "2\r\n{}GET / HTTP/1.1\r\n\r\n0\r\n\r\n"},
		{"a chunk of a negative size", "Transfer-Encoding: chunked\r\n", "-1\r\n{}\r\n0\r\n\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			whole := make(chan bool, 1)
			s := overSockets(t, member, func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				whole <- err == nil
			})
			conn, from := s.dial()
			s.say(conn, "POST /k8s/clusters/c-m-abcd2345/api/v1/pods HTTP/1.1\r\nHost: drover\r\nAuthorization: Bearer mine\r\n"+tc.headers+"\r\n"+tc.body)
			response, answer := s.answer(from)
			if response.StatusCode != http.StatusBadRequest || !strings.Contains(answer, "the body of this request cannot be read") {
				t.Errorf("%d: %s", response.StatusCode, answer)
			}
			select {
			case is := <-whole:
				if is {
					t.Error("the cluster got it as a whole one")
				}
			default: // it got nothing
			}
		})
	}
}
