package kubeproxy

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/google/go-cmp/cmp"
)

// upstream records what reaches the cluster.
type upstream struct{ request *http.Request }

func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	u.request = r
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{"kind":"NodeList"}`)), Request: r}, nil
}

func newProxy(t *testing.T, transport http.RoundTripper, transportErr error) *Proxy {
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
		Transport: func(key records.ClusterKey) (http.RoundTripper, error) {
			if key != "fleet-default/harbour" {
				t.Errorf("asked for cluster %s", key)
			}
			return transport, transportErr
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
	w := get(newProxy(t, u, nil), admin, "https://drover/k8s/clusters/c-m-abcd2345/api/v1/namespaces/a%2Fb/pods?watch=true", map[string]string{
		"Cookie": "R_SESS=x:y", "X-Remote-User": "root", "X-API-Tunnel-Token": "t",
		// Whoever names our own headers here would act as the server itself if we let it pass.
		"Connection": "Impersonate-User, Impersonate-Group, Authorization",
	})
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if got := u.request.URL.String(); got != "https://127.0.0.1:6443/api/v1/namespaces/a%2Fb/pods?watch=true" {
		t.Errorf("URL = %s", got)
	}
	want := map[string][]string{
		"Impersonate-User":                 {"user-abcde"},
		"Impersonate-Group":                {"system:authenticated", "system:cattle:authenticated", "system:masters"},
		"Impersonate-Extra-Username":       {"admin"},
		"Impersonate-Extra-Requesttokenid": {"token-fghij"},
	}
	for name, values := range want {
		if diff := cmp.Diff(values, u.request.Header.Values(name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Remote-User", "X-Api-Tunnel-Token"} {
		if u.request.Header.Get(name) != "" {
			t.Errorf("%s of the caller reached the cluster", name)
		}
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
		{"somebody without rights", auth.Identity{UserID: "u-1"}, "/k8s/clusters/c-m-abcd2345/version", nil, nil, 404, "NotFound", "there is no cluster"},
		{"somebody without rights and a token of this cluster", auth.Identity{UserID: "u-1", ClusterID: "c-m-abcd2345"}, "/k8s/clusters/c-m-abcd2345/version", nil, nil, 404, "NotFound", "there is no cluster"},
		{"token of another cluster", auth.Identity{UserID: "u-1", Admin: true, ClusterID: "c-m-other234"}, "/k8s/clusters/c-m-abcd2345/version", nil, nil, 401, "Unauthorized", "limited to cluster c-m-other234"},
		{"acting as somebody else", admin, "/k8s/clusters/c-m-abcd2345/version", map[string]string{"Impersonate-User": "bob"}, nil, 403, "Forbidden", "--as"},
		{"no tunnel", admin, "/k8s/clusters/c-m-abcd2345/version", nil, &downstream.UnavailableError{Cause: "no tunnel is open"}, 503, "ServiceUnavailable", "cluster c-m-abcd2345 (harbour) cannot be reached: no tunnel is open"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := get(newProxy(t, &upstream{}, tc.err), tc.caller, tc.path, tc.headers)
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
			if w.Header().Get("Retry-After") != "" {
				t.Error("a Retry-After makes kubectl wait for minutes instead of showing the cause")
			}
		})
	}
}

// blocked is a cluster that answers when the request is given up.
type blocked struct{}

func (blocked) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestARequestEndsWithItsToken(t *testing.T) {
	p := newProxy(t, blocked{}, nil)
	released := false
	p.Until = func(who auth.Identity, end func()) func() {
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
