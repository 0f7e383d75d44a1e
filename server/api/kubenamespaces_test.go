package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/drover-project/drover/server/records"
)

// TestKubeNamespaces: namespaces have a status, the age of the oldest document in them, and a watch that shows those that come with
// their first document and go with the last one, and nothing else.
func TestKubeNamespaces(t *testing.T) {
	b := newBench(t)
	b.addCluster("harbour", "c-m-h4rb0r55", active)
	moved := func(namespace string, created time.Time) func(*records.Cluster) {
		return func(cl *records.Cluster) { cl.Namespace, cl.Created = namespace, created }
	}
	b.addCluster("quarry", "c-m-qu4rry00", moved("stones", start.Add(-48*time.Hour)))
	b.pass(72 * time.Hour)
	for _, at := range []string{"/api/v1/namespaces", "/k8s/clusters/local/api/v1/namespaces"} {
		table := b.request("GET", at, b.admin, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		if text := string(table.raw); table.status != 200 || !strings.Contains(text, `["fleet-default","Active","3d"]`) || !strings.Contains(text, `["stones","Active","5d"]`) {
			t.Errorf("%s: %d %s", at, table.status, text)
		}
		one := b.get(at + "/stones")
		if text := string(one.raw); !strings.Contains(text, `"phase":"Active"`) || !strings.Contains(text, `"creationTimestamp":"2026-08-30T10:00:00Z"`) || one.text("apiVersion") != "v1" || one.text("kind") != "Namespace" {
			t.Errorf("%s", text)
		}
		for method, want := range map[string]int{"POST": http.StatusMethodNotAllowed, "DELETE": http.StatusMethodNotAllowed} {
			if r := b.request(method, at+map[string]string{"DELETE": "/stones"}[method], b.admin, "{}"); r.status != want || !strings.Contains(r.text("message"), "made and removed with the clusters") {
				t.Errorf("%s: %d %s", method, r.status, r.raw)
			}
		}
		if r := b.get(at + "/nothing"); r.status != 404 {
			t.Errorf("%d %s", r.status, r.raw)
		}
	}
	if r := b.request("GET", "/api/v1/namespaces", b.user, ""); r.status != 200 || strings.Contains(string(r.raw), "stones") {
		t.Errorf("somebody without rights: %d %s", r.status, r.raw)
	}
	if r := b.get("/api/v1"); !strings.Contains(string(r.raw), `"verbs":["get","list","watch"]`) {
		t.Errorf("discovery: %s", r.raw)
	}

	config := b.kubeServer(t, "")
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	of := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	list, err := of.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Fatalf("%v %v", list, err)
	}
	w, err := of.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	b.addCluster("pier", "c-m-p1er0000", nil)                            // in a namespace that there is
	b.addCluster("pit", "c-m-p1t00000", moved("stones", start))          // the same
	kiln := b.addCluster("kiln", "c-m-k1ln0000", moved("bricks", start)) // in a new one
	b.addCluster("oven", "c-m-0ven0000", moved("bricks", start))         // in the same
	fleet := records.Fleet{Object: records.Object{Namespace: records.FleetNamespace, Name: "edge", Created: start}, ID: "f-edge0000"}
	if _, err := b.st.Fleets.Create(t.Context(), fleet.Key(), fleet); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"bricks/oven", "stones/pit", kiln.Key()} {
		if err := b.st.Clusters.Delete(t.Context(), key, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.st.Fleets.Delete(t.Context(), fleet.Key(), 0); err != nil {
		t.Fatal(err)
	}
	// What comes and goes before it is shown may be left out of the middle, but not out of the end.
	var seen []string
	for e := range w.ResultChan() {
		o, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("%v", e)
		}
		seen = append(seen, string(e.Type)+" "+o.GetName())
		if o.GetResourceVersion() <= list.GetResourceVersion() {
			t.Errorf("%s at %s, after a list at %s", seen[len(seen)-1], o.GetResourceVersion(), list.GetResourceVersion())
		}
		if e.Type == watch.Deleted && o.GetName() == records.FleetNamespace {
			break
		}
	}
	for _, one := range seen {
		if strings.HasSuffix(one, " stones") || strings.HasSuffix(one, " fleet-default") {
			t.Errorf("%s, which neither came nor went: %v", one, seen)
		}
	}
	if text := strings.Join(seen, ", "); !strings.Contains(text, "DELETED bricks") {
		t.Errorf("seen: %s", text)
	}
	again, err := of.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(again.Items) != 2 {
		t.Errorf("%v %v", again, err)
	}
	// A namespace that stays is shown as it comes.
	kilns := b.addCluster("kiln", "c-m-k1ln0001", moved("bricks", start))
	for e := range w.ResultChan() {
		if o, ok := e.Object.(*unstructured.Unstructured); ok && o.GetName() == "bricks" && e.Type == watch.Added {
			break
		} else if e.Type != watch.Deleted {
			t.Fatalf("%v after %s", e, kilns.Key())
		}
	}
}
