package kube_test

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
	"github.com/drover-project/drover/test/apibed"
)

// TestKubeNamespaces: namespaces have a status, the age of the oldest document in them, and a watch that shows those that come with
// their first document and go with the last one, and nothing else.
func TestKubeNamespaces(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	moved := func(namespace string, created time.Time) func(*records.Cluster) {
		return func(cl *records.Cluster) { cl.Namespace, cl.Created = namespace, created }
	}
	b.AddCluster("quarry", "c-m-qu4rry00", moved("stones", apibed.Start.Add(-48*time.Hour)))
	b.Pass(72 * time.Hour)
	for _, at := range []string{"/api/v1/namespaces", "/k8s/clusters/local/api/v1/namespaces"} {
		table := b.Request("GET", at, b.Admin, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		if text := string(table.Raw); table.Status != 200 || !strings.Contains(text, `["fleet-default","Active","3d"]`) || !strings.Contains(text, `["stones","Active","5d"]`) {
			t.Errorf("%s: %d %s", at, table.Status, text)
		}
		one := b.Get(at + "/stones")
		if text := string(one.Raw); !strings.Contains(text, `"phase":"Active"`) || !strings.Contains(text, `"creationTimestamp":"2026-08-30T10:00:00Z"`) || one.Text("apiVersion") != "v1" || one.Text("kind") != "Namespace" {
			t.Errorf("%s", text)
		}
		for method, want := range map[string]int{"POST": http.StatusMethodNotAllowed, "DELETE": http.StatusMethodNotAllowed} {
			if r := b.Request(method, at+map[string]string{"DELETE": "/stones"}[method], b.Admin, "{}"); r.Status != want || !strings.Contains(r.Text("message"), "made and removed with the clusters") {
				t.Errorf("%s: %d %s", method, r.Status, r.Raw)
			}
		}
		if r := b.Get(at + "/nothing"); r.Status != 404 {
			t.Errorf("%d %s", r.Status, r.Raw)
		}
	}
	if r := b.Request("GET", "/api/v1/namespaces", b.User, ""); r.Status != 200 || strings.Contains(string(r.Raw), "stones") {
		t.Errorf("somebody without rights: %d %s", r.Status, r.Raw)
	}
	if r := b.Get("/api/v1"); !strings.Contains(string(r.Raw), `"verbs":["get","list","watch"]`) {
		t.Errorf("discovery: %s", r.Raw)
	}

	config := b.KubeServer(t, "")
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
	b.AddCluster("pier", "c-m-p1er0000", nil)                                   // in a namespace that there is
	b.AddCluster("pit", "c-m-p1t00000", moved("stones", apibed.Start))          // the same
	kiln := b.AddCluster("kiln", "c-m-k1ln0000", moved("bricks", apibed.Start)) // in a new one
	b.AddCluster("oven", "c-m-0ven0000", moved("bricks", apibed.Start))         // in the same
	fleet := records.Fleet{Object: records.Object{Namespace: records.FleetNamespace, Name: "edge", Created: apibed.Start}, ID: "f-edge0000"}
	if _, err := b.State.Fleets.Create(t.Context(), fleet.Key(), fleet); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"bricks/oven", "stones/pit", kiln.Key()} {
		if err := b.State.Clusters.Delete(t.Context(), key, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.State.Fleets.Delete(t.Context(), fleet.Key(), 0); err != nil {
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
	kilns := b.AddCluster("kiln", "c-m-k1ln0001", moved("bricks", apibed.Start))
	for e := range w.ResultChan() {
		if o, ok := e.Object.(*unstructured.Unstructured); ok && o.GetName() == "bricks" && e.Type == watch.Added {
			break
		} else if e.Type != watch.Deleted {
			t.Fatalf("%v after %s", e, kilns.Key())
		}
	}
}
