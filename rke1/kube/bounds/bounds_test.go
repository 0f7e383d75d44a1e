package bounds_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/drover-project/drover/rke1/kube/bounds"
)

func TestOf(t *testing.T) {
	for _, tc := range []struct {
		method, target, what string
		whole, each          int64
	}{
		{"GET", "/version", "its version", 64 << 10, 0},
		{"GET", "/metrics", "its metrics", 0, 0},
		{"GET", "/api", "the kinds that it has", 8 << 20, 0},
		{"GET", "/apis/apps/v1", "the kinds that it has", 8 << 20, 0},
		{"GET", "/readyz", "the kinds that it has", 8 << 20, 0},
		{"GET", "/api/v1/nodes?limit=250", "a list of nodes", 16 << 20, 0},
		{"GET", "/api/v1/nodes?watch=true", "an event of nodes", 0, 4 << 20},
		{"GET", "/api/v1/namespaces?watch=1", "an event of namespaces", 0, 4 << 20},
		{"GET", "/api/v1/namespaces/web", "an object of namespaces", 4 << 20, 0},
		{"PUT", "/api/v1/namespaces/web/finalize", "an object of namespaces", 4 << 20, 0},
		{"GET", "/api/v1/namespaces/web/pods", "a list of pods", 16 << 20, 0},
		{"GET", "/api/v1/secrets", "a list of secrets", 33 << 20, 0},
		{"POST", "/api/v1/namespaces/web/secrets", "an object of secrets", 4 << 20, 0},
		{"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "a list of clusterroles", 16 << 20, 0},
		{"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/a", "an object of clusterroles", 4 << 20, 0},
		{"GET", "/api/v1/nodes/pier-1/proxy/stats/summary", "what a kubelet says", 16 << 20, 0},
		{"GET", "/apis/k3s.cattle.io/v1/etcdsnapshotfiles?limit=500", "a list of etcdsnapshotfiles", 16 << 20, 0},
	} {
		b := bounds.Of(httptest.NewRequest(tc.method, tc.target, nil))
		if b.What != tc.what || b.Bytes != tc.whole || b.Each != tc.each || (b.Within == 0) != (tc.each > 0) || b.Bytes == 0 && b.Each == 0 && !b.Passed {
			t.Errorf("%s %s: %+v", tc.method, tc.target, b)
		}
	}
	// A bound of a kind that is not in the table.
	if b := bounds.Of(httptest.NewRequest(http.MethodGet, "/", nil)); b.Bytes == 0 || b.Within == 0 {
		t.Errorf("a path without anything: %+v", b)
	}
}
