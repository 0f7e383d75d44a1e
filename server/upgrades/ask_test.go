package upgrades

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestAsk reads what a cluster says of itself; a kubelet that does not answer is no error.
func TestAsk(t *testing.T) {
	answers := map[string]string{
		"/api/v1/nodes": `{"kind":"NodeList","apiVersion":"v1","items":[
			{"metadata":{"name":"pier-1","labels":{"node-role.kubernetes.io/etcd":"true"}},"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"DiskPressure","status":"False"}]}},
			{"metadata":{"name":"pier-2","labels":{"node-role.kubernetes.io/control-plane":"true"}},"status":{"conditions":[{"type":"Ready","status":"True"}]}},
			{"metadata":{"name":"crane-1"},"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady","message":"no network"},{"type":"DiskPressure","status":"True"}]}}]}`,
		"/api/v1/nodes/pier-1/proxy/stats/summary": `{"node":{"fs":{"availableBytes":5368709120}}}`,
		"/metrics": `apiserver_requested_deprecated_apis{group="a",removed_release="1.35",resource="b",subresource="",version="v1"} 1` + "\n",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.Path]
		if !ok {
			http.Error(w, "no such thing", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(text))
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	nodes, apis, err := ask(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	want := []Node{
		{Name: "pier-1", Server: true, Free: 5 << 30, Known: true},
		{Name: "pier-2", Server: true},
		{Name: "crane-1", NotReady: "KubeletNotReady: no network", Pressure: true},
	}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]API{{"a", "v1", "b", "1.35"}}, apis); diff != "" {
		t.Error(diff)
	}
	delete(answers, "/metrics")
	if nodes, _, err := ask(t.Context(), client); err == nil || len(nodes) != 3 {
		t.Errorf("without metrics: %d nodes, %v", len(nodes), err)
	}
}
