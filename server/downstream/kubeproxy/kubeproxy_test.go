package kubeproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// upstream is a cluster: it records what reaches it, and as whom the way there was taken.
type upstream struct {
	requests []*http.Request
	as       []downstream.Credentials
	persons  []downstream.Person
	refused  []string
	// reject is a token that the cluster does not take; fails is what happens to every request, noToken to who asks for a token.
	reject         string
	header         http.Header // of its answers, beside the type
	fails, noToken error
}

func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	if u.fails != nil {
		return nil, u.fails
	}
	u.requests = append(u.requests, r)
	code := http.StatusOK
	if u.reject != "" && r.Header.Get("Authorization") == "Bearer "+u.reject {
		code = http.StatusUnauthorized
	}
	header := http.Header{"Content-Type": {"application/json"}}
	maps.Copy(header, u.header)
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(`{"kind":"NodeList"}`)), Request: r}, nil
}

func newProxy(t *testing.T, u *upstream) *Proxy {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if _, err := st.Clusters.Create(t.Context(), "fleet-default/harbour", records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "harbour"}, ID: "c-m-abcd2345"}); err != nil {
		t.Fatal(err)
	}
	return &Proxy{
		State: st, Logger: log,
		Way: func(key records.ClusterKey, as downstream.Credentials) http.RoundTripper {
			if key != "fleet-default/harbour" {
				t.Errorf("asked for cluster %s", key)
			}
			u.as = append(u.as, as)
			return u
		},
		Token: func(_ context.Context, key records.ClusterKey, p downstream.Person) (string, error) {
			u.persons = append(u.persons, p)
			return fmt.Sprint("account-", len(u.persons)), u.noToken
		},
		Refused: func(key records.ClusterKey, userID, token string) {
			u.refused = append(u.refused, string(key)+" "+userID+" "+token)
		},
	}
}

var admin = auth.Identity{UserID: "user-abcde", Username: "admin", TokenName: "token-fghij", Admin: true}

func get(p *Proxy, caller auth.Identity, path string, headers map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Authorization", "Bearer token-fghij:secret")
	for k, v := range headers {
		r.Header.Set(k, v)
		if v == "" {
			r.Header.Del(k)
		}
	}
	w := httptest.NewRecorder()
	p.Serve(w, r, caller)
	return w
}

func TestTheCallerActsUnderTheirOwnName(t *testing.T) {
	u := &upstream{}
	w := get(newProxy(t, u), admin, "https://drover/k8s/clusters/c-m-abcd2345/api/v1/namespaces/a%2Fb/pods?watch=true", map[string]string{
		"Cookie": "R_SESS=x:y", "X-Remote-User": "root", "X-API-Tunnel-Token": "t",
		// A client that names our own headers here would act as the server itself if we let it pass.
		"Connection": "Impersonate-User, Impersonate-Group, Authorization",
	})
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if got := u.requests[0].URL.String(); got != "https://127.0.0.1:6443/api/v1/namespaces/a%2Fb/pods?watch=true" {
		t.Errorf("URL = %s", got)
	}
	want := map[string][]string{
		"Impersonate-User":                 {"user-abcde"},
		"Impersonate-Group":                {"system:authenticated", "system:cattle:authenticated", "system:masters"},
		"Impersonate-Extra-Username":       {"admin"},
		"Impersonate-Extra-Principalid":    {"local://user-abcde"},
		"Impersonate-Extra-Requesthost":    {"drover"},
		"Authorization":                    {"Bearer account-1"},
		"Impersonate-Extra-Requesttokenid": {"token-fghij"},
	}
	for name, values := range want {
		if diff := cmp.Diff(values, u.requests[0].Header.Values(name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	person := downstream.Person{ID: "user-abcde", Groups: want["Impersonate-Group"], Extra: map[string][]string{"username": {"admin"}, "principalid": {"local://user-abcde"}}}
	if diff := cmp.Diff([]downstream.Person{person}, u.persons); diff != "" {
		t.Errorf("the account is for somebody else: %s", diff)
	}
	if diff := cmp.Diff([]downstream.Credentials{downstream.NoCredentials}, u.as); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"Cookie", "X-Remote-User", "X-Api-Tunnel-Token"} {
		if u.requests[0].Header.Get(name) != "" {
			t.Errorf("%s of the caller reached the cluster", name)
		}
	}
}

// TestPagesOfClustersAreConfined: what a service in a cluster answers has no session of this server in a browser. Programs
// get what it says.
func TestPagesOfClustersAreConfined(t *testing.T) {
	said := http.Header{
		"Content-Type": {"text/html"}, "Content-Security-Policy": {"script-src *", "default-src *"}, "Set-Cookie": {"R_SESS=mine; Path=/"},
		"Clear-Site-Data": {"*"}, "Access-Control-Allow-Origin": {"https://evil.example"}, "Access-Control-Allow-Credentials": {"true"},
	}
	const path = "https://drover/k8s/clusters/c-m-abcd2345/api/v1/namespaces/a/services/web/proxy/"
	w := get(newProxy(t, &upstream{header: said}), admin, path, map[string]string{"Authorization": "", "Cookie": "R_SESS=token-fghij:secret"})
	want := http.Header{"Content-Type": {"text/html"}, "Content-Security-Policy": {"sandbox"}, "X-Content-Type-Options": {"nosniff"}}
	if diff := cmp.Diff(want, w.Result().Header); diff != "" || w.Code != http.StatusOK {
		t.Errorf("to a browser: status %d, %s", w.Code, diff)
	}
	if diff := cmp.Diff(said, get(newProxy(t, &upstream{header: said}), admin, path, nil).Result().Header); diff != "" {
		t.Error("to a program:", diff)
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name    string
		caller  auth.Identity
		path    string
		headers map[string]string
		err     error
		code    int
		reason  string
		message string
	}{
		{"unknown cluster", admin, "/k8s/clusters/c-m-zzzzzzzz/version", nil, nil, 404, "NotFound", `there is no cluster "c-m-zzzzzzzz"`},
		{"a kubeconfig of a cluster that was removed", auth.Identity{UserID: "u-1", ClusterID: "c-m-gone2345"}, "/k8s/clusters/c-m-gone2345/version", nil, nil, 404, "NotFound", `there is no cluster "c-m-gone2345": it was removed`},
		{"somebody without rights", auth.Identity{UserID: "u-1"}, "/k8s/clusters/c-m-abcd2345/version", nil, nil, 404, "NotFound", "there is no cluster"},
		{"somebody without rights and a token of this cluster", auth.Identity{UserID: "u-1", ClusterID: "c-m-abcd2345"}, "/k8s/clusters/c-m-abcd2345/version", nil, nil, 404, "NotFound", "there is no cluster"},
		{"token of another cluster", auth.Identity{UserID: "u-1", Admin: true, ClusterID: "c-m-other234"}, "/k8s/clusters/c-m-abcd2345/version", nil, nil, 401, "Unauthorized", "limited to cluster c-m-other234"},
		{"a member who wants to act as somebody else", member, "/k8s/clusters/c-m-abcd2345/version", map[string]string{"Impersonate-User": "user-abcde"}, nil, 403, "Forbidden", "only who owns the cluster"},
		{"acting as nobody", admin, "/k8s/clusters/c-m-abcd2345/version", map[string]string{"Impersonate-Group": "system:masters"}, nil, 400, "BadRequest", "Impersonate-User"},
		{"the API is down on all hosts", admin, "/k8s/clusters/c-m-abcd2345/version", nil, &downstream.UnsentError{Err: errors.New("connection refused")}, 502, "ServiceUnavailable", "connection refused"},
		{"no tunnel", admin, "/k8s/clusters/c-m-abcd2345/version", nil, &downstream.UnavailableError{Cause: "no tunnel is open"}, 503, "ServiceUnavailable", "cluster c-m-abcd2345 (harbour) cannot be reached: no tunnel is open"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := get(newProxy(t, &upstream{fails: tc.err}), tc.caller, tc.path, tc.headers)
			var status struct {
				Kind, Reason, Message string
				Code                  int
			}
			if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil {
				t.Fatal(err)
			}
			if w.Code != tc.code || status.Code != tc.code || status.Kind != "Status" || status.Reason != tc.reason || !strings.Contains(status.Message, tc.message) {
				t.Errorf("%d %+v", w.Code, status)
			}
			// What kubectl shows of an error of its first request, which asks what there is.
			if warning := w.Header().Get("Warning"); (tc.code >= 500) != strings.Contains(warning, tc.message) {
				t.Errorf("warning %q", warning)
			}
			if w.Header().Get("Retry-After") != "" {
				t.Error("a Retry-After makes kubectl wait for minutes instead of showing the cause")
			}
		})
	}
}

// member is a user who may use the cluster and does not own it.
var member = auth.Identity{UserID: "u-bob01", Username: "bob", TokenName: "token-klmno", Grants: roles.Of([]roles.Binding{
	{Role: "cluster-member", ClusterID: "c-m-abcd2345", Subject: roles.Subject{User: "local://u-bob01"}},
}, roles.Builtin)}

func TestAMemberIsNoMaster(t *testing.T) {
	u := &upstream{}
	if w := get(newProxy(t, u), member, "https://drover/k8s/clusters/c-m-abcd2345/api/v1/pods", nil); w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if diff := cmp.Diff([]string{"system:authenticated", "system:cattle:authenticated"}, u.requests[0].Header.Values("Impersonate-Group")); diff != "" {
		t.Error(diff)
	}
}

func TestWhoOwnsTheClusterMayActAsSomebodyElse(t *testing.T) {
	u := &upstream{}
	w := get(newProxy(t, u), admin, "https://drover/k8s/clusters/c-m-abcd2345/api/v1/pods", map[string]string{
		"Impersonate-User": "bob", "Impersonate-Group": "dockers", "Connection": "Impersonate-Group",
	})
	if w.Code != http.StatusOK || len(u.persons) != 0 {
		t.Fatalf("status %d: %s; accounts of %v were used", w.Code, w.Body, u.persons)
	}
	if diff := cmp.Diff([]downstream.Credentials{downstream.AdminCredentials}, u.as); diff != "" {
		t.Error(diff)
	}
	h := u.requests[0].Header
	for _, name := range []string{"Impersonate-Extra-Username", "Authorization"} {
		if h.Get(name) != "" {
			t.Errorf("%s of the caller went along: %q", name, h.Get(name))
		}
	}
	if h.Get("Impersonate-User") != "bob" || h.Get("Impersonate-Group") != "dockers" {
		t.Errorf("acts as %q of %q", h.Get("Impersonate-User"), h.Values("Impersonate-Group"))
	}
}

func TestAnAccountThatTheClusterDoesNotKnowAnyMore(t *testing.T) {
	for _, tc := range []struct {
		name, method string
		body         string
		reject       string
		code, sent   int
		message      string
	}{
		{"is made anew", http.MethodGet, "", "account-1", 200, 2, "NodeList"},
		{"is made anew, and who has sent something repeats it", http.MethodPost, "{}", "account-1", 503, 1, "repeat the request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := &upstream{reject: tc.reject}
			var body io.Reader
			if tc.body != "" {
				body = strings.NewReader(tc.body)
			}
			w := httptest.NewRecorder()
			newProxy(t, u).Serve(w, httptest.NewRequest(tc.method, "https://drover/k8s/clusters/c-m-abcd2345/api/v1/pods", body), admin)
			if w.Code != tc.code || len(u.requests) != tc.sent || !strings.Contains(w.Body.String(), tc.message) {
				t.Errorf("%d after %d requests: %s", w.Code, len(u.requests), w.Body)
			}
			if diff := cmp.Diff([]string{"fleet-default/harbour user-abcde account-1"}, u.refused); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNothingIsSentWithoutAnAccount(t *testing.T) {
	u := &upstream{noToken: errors.New("make the account of user user-abcde: forbidden")}
	w := get(newProxy(t, u), admin, "https://drover/k8s/clusters/c-m-abcd2345/api/v1/pods", nil)
	if w.Code != http.StatusBadGateway || len(u.requests) != 0 || !strings.Contains(w.Body.String(), "forbidden") {
		t.Errorf("%d after %d requests: %s", w.Code, len(u.requests), w.Body)
	}
}

func TestTooManyRequestsOfOnePerson(t *testing.T) {
	p := newProxy(t, &upstream{})
	var done func()
	for range maxRequests {
		done, _ = p.busy.begin(admin.UserID)
	}
	w := get(p, admin, "https://drover/k8s/clusters/c-m-abcd2345/version", nil)
	if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), `"retryAfterSeconds":1`) {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	other := admin
	other.UserID = "user-other"
	if w := get(p, other, "https://drover/k8s/clusters/c-m-abcd2345/version", nil); w.Code != http.StatusOK {
		t.Errorf("somebody else: %d: %s", w.Code, w.Body)
	}
	done()
	if w := get(p, admin, "https://drover/k8s/clusters/c-m-abcd2345/version", nil); w.Code != http.StatusOK {
		t.Errorf("after one has ended: %d: %s", w.Code, w.Body)
	}
}

// blocked is a cluster that answers when the request is given up.
type blocked struct{}

func (blocked) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestARequestEndsWithItsToken(t *testing.T) {
	p := newProxy(t, &upstream{})
	p.Way = func(records.ClusterKey, downstream.Credentials) http.RoundTripper { return blocked{} }
	released := false
	p.Until = func(who auth.Identity, _ func(auth.Identity) bool, end func()) func() {
		if who.TokenName != admin.TokenName {
			t.Errorf("bound to %+v", who)
		}
		time.AfterFunc(10*time.Millisecond, end)
		return func() { released = true }
	}
	get(p, admin, "/k8s/clusters/c-m-abcd2345/api/v1/pods?watch=true", nil) // blocks for ever when nothing ends it
	if !released {
		t.Error("what was bound is never released")
	}
}

// TestAStreamGoesOnWithTheRightsThatBeganIt: a watch ends with the right to use the cluster, and one that was begun by its owner,
// who has all rights in it, ends with the ownership.
func TestAStreamGoesOnWithTheRightsThatBeganIt(t *testing.T) {
	as := func(role string) auth.Identity {
		who := member
		who.Grants = roles.Of([]roles.Binding{{Role: role, ClusterID: "c-m-abcd2345", Subject: roles.Subject{User: "local://u-bob01"}}}, roles.Builtin)
		return who
	}
	for _, c := range []struct {
		began, now auth.Identity
		headers    map[string]string
		want       bool
	}{
		{as("cluster-owner"), as("cluster-owner"), nil, true},
		{as("cluster-owner"), as("cluster-member"), nil, false},
		{as("cluster-owner"), as("cluster-member"), map[string]string{"Impersonate-User": "ann"}, false},
		{as("cluster-owner"), auth.Identity{UserID: "u-bob01"}, nil, false},
		{as("cluster-member"), as("cluster-member"), nil, true},
		{as("cluster-member"), as("cluster-owner"), nil, true},
		{as("cluster-member"), auth.Identity{UserID: "u-bob01"}, nil, false},
	} {
		p := newProxy(t, &upstream{})
		var still func(auth.Identity) bool
		p.Until = func(_ auth.Identity, asked func(auth.Identity) bool, _ func()) func() {
			still = asked
			return func() {}
		}
		if w := get(p, c.began, "/k8s/clusters/c-m-abcd2345/api/v1/pods?watch=true", c.headers); w.Code != http.StatusOK {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		if got := still(c.now); got != c.want {
			t.Errorf("begun with %v and now with %v: it goes on %v, want %v", c.began.Grants, c.now.Grants, got, c.want)
		}
	}
}

// TestAStreamEndsWithAGroup: a role in a cluster may be bound to a group of a directory, of which the server knows nothing, so that a watch
// goes on for as long as its user is in all the groups that began it.
func TestAStreamEndsWithAGroup(t *testing.T) {
	const crew, deck, hull = "openldap_group://cn=crew,dc=x", "openldap_group://cn=deck,dc=x", "github_team://77"
	owner := member
	owner.Grants = roles.Of([]roles.Binding{{Role: "cluster-owner", ClusterID: "c-m-abcd2345", Subject: roles.Subject{User: "local://u-bob01"}}}, roles.Builtin)
	for _, caller := range []auth.Identity{member, owner} {
		u := &upstream{}
		p := newProxy(t, u)
		if _, err := p.State.Users.Create(t.Context(), caller.UserID, records.User{ID: caller.UserID, Groups: []string{crew, deck}}); err != nil {
			t.Fatal(err)
		}
		var still func(auth.Identity) bool
		p.Until = func(_ auth.Identity, asked func(auth.Identity) bool, _ func()) func() {
			still = asked
			return func() {}
		}
		if w := get(p, caller, "/k8s/clusters/c-m-abcd2345/api/v1/pods?watch=true", nil); w.Code != http.StatusOK || !slices.Contains(u.requests[0].Header.Values("Impersonate-Group"), crew) {
			t.Fatalf("status %d, groups %v", w.Code, u.requests)
		}
		for _, c := range []struct {
			groups []string
			want   bool
		}{{[]string{crew, deck}, true}, {[]string{hull, deck, crew}, true}, {[]string{deck}, false}, {[]string{hull, deck}, false}, {nil, false}} {
			if _, err := p.State.Users.Modify(t.Context(), caller.UserID, func(u records.User) (records.User, error) { u.Groups = c.groups; return u, nil }); err != nil {
				t.Fatal(err)
			}
			if got := still(caller); got != c.want {
				t.Errorf("in the groups %v it goes on %v, want %v", c.groups, got, c.want)
			}
		}
	}
}
