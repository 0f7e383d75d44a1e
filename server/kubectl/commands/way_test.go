package commands

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/kubernetes"
)

// TestACommandGoesNowhereElse: commands run where the server does, and a cluster may answer with a redirect to what listens there.
func TestACommandGoesNowhereElse(t *testing.T) {
	var inside atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside.Add(1) }))
	t.Cleanup(other.Close)
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(cluster.Close)
	config, err := (&way{server: cluster.URL, token: "t"}).ToRESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Discovery().ServerVersion()
	if err == nil || !strings.Contains(err.Error(), "the cluster answered 307, a redirect, which is not followed") || inside.Load() != 0 {
		t.Errorf("%v; %d requests went inside", err, inside.Load())
	}
}
