package bounds_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/tunnel/answers"
)

// cluster is an API that answers as a test says.
func cluster(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	next := &http.Transport{DisableCompression: true}
	t.Cleanup(next.CloseIdleConnections)
	over := &answers.Transport{Next: next, From: "the API", Of: bounds.Of}
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: server.URL, QPS: -1}, &http.Client{Transport: over})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func names(ctx context.Context, client kubernetes.Interface) (all []string, version string, err error) {
	version, err = bounds.Each(ctx, 1<<20, metav1.ListOptions{LabelSelector: "a=b"}, client.CoreV1().Namespaces().List, func(n *corev1.Namespace) error {
		all = append(all, n.Name)
		return nil
	})
	return all, version, err
}

func TestEach(t *testing.T) {
	t.Parallel()
	client := cluster(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("limit") != fmt.Sprint(bounds.Page) || q.Get("labelSelector") != "a=b" {
			t.Errorf("asked with %s", r.URL.RawQuery)
		}
		next := map[string]string{"": "two", "two": "three"}[q.Get("continue")]
		fmt.Fprintf(w, `{"kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": %q}, "items": [{"metadata": {"name": "after-%s"}}]}`, next, q.Get("continue"))
	})
	all, version, err := names(t.Context(), client)
	if err != nil || version != "7" || strings.Join(all, " ") != "after- after-two after-three" {
		t.Errorf("%q of version %s, %v", all, version, err)
	}
}

func TestPagesWithoutEnd(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	client := cluster(t, func(w http.ResponseWriter, _ *http.Request) {
		n := asked.Add(1)
		fmt.Fprintf(w, `{"kind": "NamespaceList", "apiVersion": "v1", "metadata": {"continue": "%d"}, "items": [{"metadata": {"name": %q}}]}`, n, strings.Repeat("a", 100_000))
	})
	_, _, err := names(t.Context(), client)
	if e, ok := errors.AsType[*answers.TooLargeError](err); !ok || e.What != "a whole list" || asked.Load() != 11 {
		t.Errorf("after %d pages: %v", asked.Load(), err)
	}
}

func TestAPageThatIsTheNext(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	client := cluster(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, `{"kind": "NamespaceList", "apiVersion": "v1", "metadata": {"continue": "same"}, "items": []}`)
	})
	if _, _, err := names(t.Context(), client); err == nil || asked.Load() != 2 {
		t.Errorf("after %d pages: %v", asked.Load(), err)
	}
}
