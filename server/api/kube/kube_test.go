package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/openapi3"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

var (
	clustersGVR   = schema.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"}
	machinesGVR   = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "machines"}
	managementGVR = schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3", Resource: "clusters"}
	settingsGVR   = schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3", Resource: "settings"}
)

// kubeClient is a real client of Kubernetes.
func kubeClient(t *testing.T, b *apibed.Bed) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(b.KubeServer(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func kubeObject(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "metadata": map[string]any{"name": name, "namespace": "fleet-default"}, "spec": spec,
	}}
}

func plainSpec() map[string]any {
	return map[string]any{"kubernetesVersion": "v1.34.4+k3s1", "rkeConfig": map[string]any{}}
}

func TestKubeDiscovery(t *testing.T) {
	b := apibed.New(t)
	for _, below := range []string{"", "/k8s/clusters/local"} {
		config := b.KubeServer(t, below)
		aggregated, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		plain.UseLegacyDiscovery = true
		var found [2][]string
		for i, c := range []*discovery.DiscoveryClient{aggregated, plain} {
			_, lists, err := c.ServerGroupsAndResources()
			if err != nil {
				t.Fatal(err)
			}
			for _, list := range lists {
				for _, r := range list.APIResources {
					found[i] = append(found[i], list.GroupVersion+" "+r.Name+" "+r.Kind+" "+strings.Join(r.Verbs, ","))
				}
			}
		}
		slices.Sort(found[0])
		slices.Sort(found[1])
		if diff := cmp.Diff(found[0], found[1]); diff != "" || len(found[0]) != 20 {
			t.Errorf("%d resources; aggregated and plain discovery differ: %s", len(found[0]), diff)
		}
		root := openapi3.NewRoot(aggregated.OpenAPIV3())
		spec, err := root.GVSpec(clustersGVR.GroupVersion())
		if err != nil {
			t.Fatal(err)
		}
		one := spec.Components.Schemas["io.cattle.provisioning.v1.Cluster"]
		if one == nil || one.Properties["spec"].Properties["rkeConfig"].Properties["etcd"].Properties["s3"].Properties["bucket"].Type[0] != "string" {
			t.Errorf("schema %+v", one)
		}
		if _, hidden := one.Properties["spec"].Properties["rancherKubernetesEngineConfig"]; hidden {
			t.Error("the schema has what clusters of this group do not take")
		}
	}
}

// TestKubeWatch: what a client sees of changes, from a list on.
func TestKubeWatch(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	clusters := kubeClient(t, b).Resource(clustersGVR).Namespace("fleet-default")
	list, err := clusters.List(t.Context(), metav1.ListOptions{LabelSelector: "tier=one"})
	if err != nil || len(list.Items) != 0 {
		t.Fatalf("%v %v", list, err)
	}
	w, err := clusters.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), LabelSelector: "tier=one"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	made, err := clusters.Create(t.Context(), kubeObject("pier", plainSpec()), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	label := func(value string) *unstructured.Unstructured {
		t.Helper()
		o, err := clusters.Patch(t.Context(), "pier", types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":`+value+`}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	expect := func(kind watch.EventType, o *unstructured.Unstructured) {
		t.Helper()
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				t.Fatalf("the watch ended, want %s", kind)
			}
			got, _ := e.Object.(*unstructured.Unstructured)
			if got == nil || e.Type != kind || got.GetName() != o.GetName() || o.GetResourceVersion() != "" && got.GetResourceVersion() != o.GetResourceVersion() {
				t.Fatalf("%s %v, want %s %v", e.Type, e.Object, kind, o)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("no event, want %s", kind)
		}
	}
	expect(watch.Added, label(`"one"`))
	expect(watch.Deleted, label(`"two"`))
	expect(watch.Added, label(`"one"`))
	expect(watch.Modified, func() *unstructured.Unstructured {
		o, err := clusters.Patch(t.Context(), "pier", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}())
	if err := b.State.Clusters.Delete(t.Context(), "fleet-default/pier", 0); err != nil {
		t.Fatal(err)
	}
	made.SetResourceVersion("")
	expect(watch.Deleted, made)

	if _, err := clusters.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from before the server began: %v", err)
	}
	if _, err := clusters.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "99999999"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from the future: %v", err)
	}
}

// TestKubeStreamedList: a watch that begins with all there is, and says when that is complete.
func TestKubeStreamedList(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	all := true
	w, err := kubeClient(t, b).Resource(machinesGVR).Watch(t.Context(), metav1.ListOptions{SendInitialEvents: &all, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for n := 0; ; n++ {
		e := <-w.ResultChan()
		o, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("%+v", e)
		}
		if e.Type == watch.Bookmark {
			if o.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" || o.GetResourceVersion() == "" || n != 9 {
				t.Errorf("after %d machines: %v", n, o)
			}
			return
		}
	}
}

// TestKubeWait: kubectl wait --for=condition=Ready, by what it is made of.
func TestKubeWait(t *testing.T) {
	b := apibed.New(t)
	cl := b.AddCluster("pier", "c-m-11111111", nil)
	client := kubeClient(t, b).Resource(clustersGVR).Namespace("fleet-default")
	list, err := client.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=pier"})
	if err != nil || len(list.Items) != 1 {
		t.Fatal(list, err)
	}
	watcher := &cacheWatcher{client}
	go func() {
		_, _ = b.State.Clusters.Modify(context.WithoutCancel(t.Context()), cl.Key(), func(c records.Cluster) (records.Cluster, error) { apibed.Active(&c); return c, nil })
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = watchtools.Until(ctx, list.GetResourceVersion(), watcher, func(e watch.Event) (bool, error) {
		o, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			return false, errors.New("not an object")
		}
		conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if m, ok := c.(map[string]any); ok && m["type"] == "Ready" && m["status"] == "True" {
				return true, err
			}
		}
		return false, err
	})
	if err != nil {
		t.Error(err)
	}
}

type cacheWatcher struct{ client dynamic.ResourceInterface }

func (w *cacheWatcher) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return w.client.Watch(context.Background(), o)
}

func TestKubePages(t *testing.T) {
	b := apibed.New(t)
	cl := b.AddCluster("pier", "c-m-11111111", nil)
	b.AddMachines(cl, 25)
	machines := kubeClient(t, b).Resource(machinesGVR)
	var names []string
	next, first := "", ""
	for {
		list, err := machines.List(t.Context(), metav1.ListOptions{Limit: 10, Continue: next})
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = list.GetResourceVersion()
		}
		if list.GetResourceVersion() != first || next == "" && *list.GetRemainingItemCount() != 15 {
			t.Errorf("resourceVersion %s of a page, %s of the first one", list.GetResourceVersion(), first)
		}
		for _, o := range list.Items {
			names = append(names, o.GetName())
		}
		if next = list.GetContinue(); next == "" {
			break
		}
		b.AddMachine(cl, fmt.Sprintf("%012x", 1000+len(names)), nil) // while a client pages
	}
	if len(names) < 25 {
		t.Errorf("%d machines", len(names))
	}
	for i := range names[1:] {
		if names[i] >= names[i+1] {
			t.Errorf("%s comes before %s", names[i], names[i+1])
		}
	}
	if _, err := machines.List(t.Context(), metav1.ListOptions{Continue: "x"}); !apierrors.IsBadRequest(err) {
		t.Error(err)
	}
}

// TestKubeTable: what kubectl prints is made by the server.
func TestKubeTable(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	got := b.Request("GET", "/apis/management.cattle.io/v3/settings/ui-pl", b.Admin, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	var table metav1.Table
	if err := json.Unmarshal(got.Raw, &table); err != nil || table.Kind != "Table" || len(table.Rows) != 1 || len(table.ColumnDefinitions) != len(table.Rows[0].Cells) || table.Rows[0].Cells[1] != "drover" {
		t.Errorf("%s %v", got.Raw, err)
	}
	got = b.Request("GET", "/apis/cluster.x-k8s.io/v1beta1/machines", b.Admin, "", "Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
	var partial metav1.PartialObjectMetadataList
	if err := json.Unmarshal(got.Raw, &partial); err != nil || len(partial.Items) != 9 || partial.Items[0].UID == "" || strings.Contains(string(got.Raw), `"spec"`) {
		t.Errorf("%s %v", got.Raw, err)
	}
	if got := b.Request("GET", "/apis/management.cattle.io/v3/settings", b.Admin, "", "Accept", "application/vnd.kubernetes.protobuf"); got.Status != http.StatusNotAcceptable {
		t.Errorf("%d %s", got.Status, got.Raw)
	}
}

// TestKubeConflicts: what was made of another version of an object is refused.
func TestKubeConflicts(t *testing.T) {
	b := apibed.New(t)
	client := kubeClient(t, b)
	clusters := client.Resource(clustersGVR).Namespace("fleet-default")
	made, err := clusters.Create(t.Context(), kubeObject("pier", plainSpec()), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stale := made.DeepCopy()
	made.SetLabels(map[string]string{"a": "b"})
	changed, err := clusters.Update(t.Context(), made, metav1.UpdateOptions{})
	if err != nil || changed.GetLabels()["a"] != "b" || changed.GetGeneration() != 1 {
		t.Fatal(changed, err)
	}
	if _, err := clusters.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a stale update: %v", err)
	}
	stale.SetResourceVersion("")
	if _, err := clusters.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an update of no version: %v", err)
	}
	if _, err := clusters.Create(t.Context(), kubeObject("pier", plainSpec()), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("made twice: %v", err)
	}
	uid, version := types.UID("other"), stale.GetResourceVersion()+"1"
	if err := clusters.Delete(t.Context(), "pier", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); !apierrors.IsConflict(err) {
		t.Errorf("another object of that name is deleted: %v", err)
	}
	if err := clusters.Delete(t.Context(), "pier", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}}); !apierrors.IsConflict(err) {
		t.Errorf("another version of it is deleted: %v", err)
	}
	if err := clusters.Delete(t.Context(), "pier", metav1.DeleteOptions{DryRun: []string{"All"}}); err != nil {
		t.Error(err)
	}
	if d, _ := b.State.Clusters.Get("fleet-default/pier"); !d.Value.Deleting.IsZero() {
		t.Error("a dry run deletes")
	}
	if err := client.Resource(managementGVR).Delete(t.Context(), changed.Object["status"].(map[string]any)["clusterName"].(string), metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	going, err := clusters.Get(t.Context(), "pier", metav1.GetOptions{})
	if err != nil || going.GetDeletionTimestamp() == nil || len(going.GetFinalizers()) != 1 {
		t.Error(going, err)
	}
	going.SetLabels(nil)
	if _, err := clusters.Update(t.Context(), going, metav1.UpdateOptions{}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "is being removed") {
		t.Errorf("a cluster that goes is changed: %v", err)
	}
}

// TestKubeDryRun: a dry run says what would be, and stores nothing.
func TestKubeDryRun(t *testing.T) {
	b := apibed.New(t)
	client := kubeClient(t, b)
	clusters := client.Resource(clustersGVR).Namespace("fleet-default")
	would, err := clusters.Create(t.Context(), kubeObject("pier", plainSpec()), metav1.CreateOptions{DryRun: []string{"All"}})
	if err != nil || would.GetUID() == "" || would.GetName() != "pier" {
		t.Error(would, err)
	}
	if _, stored := b.State.Clusters.Get("fleet-default/pier"); stored {
		t.Error("a dry run stores")
	}
	setting, err := client.Resource(settingsGVR).Patch(t.Context(), "ui-pl", types.MergePatchType, []byte(`{"value":"x"}`), metav1.PatchOptions{DryRun: []string{"All"}})
	if err != nil || setting.Object["value"] != "x" || b.Settings.Get("ui-pl").Value != "drover" {
		t.Error(setting, err)
	}
}

// TestKubeRefuses: bad input, and what it gets.
func TestKubeRefuses(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	const at, one = "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters", "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters/harbour"
	good := `{"metadata":{"name":"x"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{}}}`
	for _, c := range []struct {
		method, target, kind, body string
		status                     int
		reason, says               string
	}{
		{"POST", at, "application/json", `{`, 400, "BadRequest", "not a JSON object"},
		{"POST", at, "application/json", `null`, 400, "BadRequest", "not a JSON object"},
		{"POST", at, "application/yaml", "a: b: c", 400, "BadRequest", "not YAML"},
		{"POST", at, "application/vnd.kubernetes.protobuf", good, 415, "UnsupportedMediaType", "unknown format"},
		{"POST", at, "application/json", `{"spec":{}}`, 422, "Invalid", "name is required"},
		{"POST", at, "application/json", `{"metadata":"x"}`, 400, "BadRequest", "metadata is not an object"},
		{"POST", at, "application/json", `{"metadata":{"generateName":"x-"}}`, 422, "Invalid", "names are not generated"},
		{"POST", at, "application/json", `{"metadata":{"name":"x","finalizers":["a/b"]}}`, 422, "Invalid", "a/b is not kept here"},
		{"POST", at, "application/json", `{"metadata":{"name":"x","ownerReferences":[{}]}}`, 422, "Invalid", "not kept here"},
		{"POST", at, "application/json", `{"metadata":{"name":"x","namespace":"y"}}`, 400, "BadRequest", "does not match the namespace on the URL"},
		{"POST", at, "application/json", `{"apiVersion":"apps/v1","metadata":{"name":"x"}}`, 400, "BadRequest", "apiVersion"},
		{"POST", at, "application/json", `{"metadata":{"name":"x","resourceVersion":"5"}}`, 400, "BadRequest", "resourceVersion"},
		{"POST", at + "?fieldValidation=Strict", "application/json", strings.Replace(good, `"spec":{`, `"spec":{"kubeVersion":"1",`, 1), 400, "BadRequest", `unknown field \"spec.kubeVersion\"`},
		{"POST", at + "?fieldValidation=Strict", "application/json", strings.Replace(good, `"spec":{`, `"spec":{"rkeConfig":{},`, 1), 400, "BadRequest", "duplicate field"},
		{"POST", at + "?fieldValidation=Ignore", "application/json", strings.Replace(good, `"spec":{`, `"spec":{"enableNetworkPolicy":true,`, 1), 422, "Invalid", "not supported by this version"},
		{"POST", at + "?fieldValidation=Never", "application/json", good, 422, "Invalid", "fieldValidation"},
		{"POST", at + "?dryRun=Some", "application/json", good, 422, "Invalid", "dryRun"},
		{"POST", at + "?fieldManager=" + strings.Repeat("x", 200), "application/json", good, 422, "Invalid", "fieldManager"},
		{"POST", at, "application/json", `{"metadata":{"name":"` + strings.Repeat("x", 3<<20) + `"}}`, 413, "RequestEntityTooLarge", "longer than"},
		{"PUT", one, "application/json", `{"metadata":{"name":"other"}}`, 400, "BadRequest", "does not match the name on the URL"},
		{"PUT", at + "/nothing", "application/json", good, 404, "NotFound", "not found"},
		{"PATCH", one, "application/strategic-merge-patch+json", `{}`, 415, "UnsupportedMediaType", "merge-patch"},
		{"PATCH", one, "application/json-patch+json", `[{"op":"test","path":"/kind","value":"x"}]`, 422, "Invalid", "test"},
		{"PATCH", one, "application/merge-patch+json", `{"metadata":{"uid":"other"}}`, 409, "Conflict", "UID"},
		{"PATCH", one, "application/merge-patch+json", `{"metadata":{"name":"other"}}`, 400, "BadRequest", "does not match"},
		{"PATCH", one, "application/apply-patch+yaml", `spec: {}`, 422, "Invalid", "fieldManager"},
		{"PATCH", one + "?fieldManager=a&force=maybe", "application/apply-patch+yaml", `spec: {}`, 400, "BadRequest", "force"},
		{"PATCH", one + "?fieldManager=a", "application/apply-patch+yaml", `metadata: {managedFields: [{manager: a}]}`, 400, "BadRequest", "managedFields must be nil"},
		{"DELETE", at, "", "", 405, "MethodNotAllowed", "not possible here"},
		{"DELETE", one, "application/json", "{", 400, "BadRequest", "DeleteOptions"},
		{"POST", "/apis/cluster.x-k8s.io/v1beta1/namespaces/fleet-default/machines", "application/json", `{}`, 405, "MethodNotAllowed", "not possible here"},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json", `{"kind":"Pod","apiVersion":"v1"}`, 400, "BadRequest", "SelfSubjectAccessReview"},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json", `{}`, 400, "BadRequest", "resourceAttributes"},
		{"GET", "/apis/apps/v1/deployments", "", "", 404, "NotFound", "this is drover"},
	} {
		r := b.Request(c.method, c.target, b.Admin, c.body, "Content-Type", c.kind)
		if r.Status != c.status || r.Text("kind") != "Status" || r.Text("reason") != c.reason || !strings.Contains(string(r.Raw), c.says) {
			t.Errorf("%s %.120s: %d %.500s", c.method, c.target, r.Status, r.Raw)
		}
	}
}

// TestKubeHides: what a user may not see is not there, and what they may not do is refused, in Kubernetes' words.
func TestKubeHides(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	const at = "/apis/provisioning.cattle.io/v1/namespaces/fleet-default/clusters"
	for _, c := range []struct {
		method, target, token string
		status                int
		reason                string
	}{
		{"GET", at, "", 401, "Unauthorized"}, {"GET", at, b.User, 200, ""}, {"GET", at + "/harbour", b.User, 404, "NotFound"}, {"GET", at + "/none", b.User, 404, "NotFound"},
		{"PUT", at + "/harbour", b.User, 404, "NotFound"}, {"DELETE", at + "/harbour", b.User, 404, "NotFound"}, {"POST", at, b.User, 403, "Forbidden"},
		{"GET", "/apis/management.cattle.io/v3/settings/ui-pl", b.User, 200, ""}, {"PATCH", "/apis/management.cattle.io/v3/settings/ui-pl", b.User, 403, "Forbidden"},
		{"GET", at, b.Token("user-admin", records.Token{ClusterID: "c-m-h4rb0r55"}), 401, "Unauthorized"},
	} {
		r := b.Request(c.method, c.target, c.token, "{}", "Content-Type", "application/merge-patch+json")
		if r.Status != c.status || r.Text("reason") != c.reason {
			t.Errorf("%s %s: %d %s", c.method, c.target, r.Status, r.Raw)
		}
		if items, _ := r.Body["items"].([]any); r.Status == 200 && strings.HasSuffix(c.target, "clusters") && len(items) > 0 {
			t.Errorf("%d clusters are seen", len(items))
		}
	}
	allowed := func(token, verb, group, resource string) bool {
		body := `{"spec":{"resourceAttributes":{"verb":"` + verb + `","group":"` + group + `","resource":"` + resource + `"}}}`
		r := b.Request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", token, body, "Content-Type", "application/json")
		status, _ := r.Body["status"].(map[string]any)
		return r.Status == 201 && status["allowed"] == true
	}
	for _, c := range []struct {
		verb, group, resource string
		user, admin           bool
	}{
		{"create", "provisioning.cattle.io", "clusters", false, true}, {"list", "provisioning.cattle.io", "clusters", true, true}, {"get", "management.cattle.io", "settings", true, true},
		{"update", "management.cattle.io", "settings", false, true}, {"*", "*", "*", false, true}, {"get", "", "secrets", false, true}, {"list", "", "namespaces", false, true},
		{"delete", "cluster.x-k8s.io", "machines", false, false}, {"get", "apps", "deployments", false, false},
	} {
		if user, admin := allowed(b.User, c.verb, c.group, c.resource), allowed(b.Admin, c.verb, c.group, c.resource); user != c.user || admin != c.admin {
			t.Errorf("%s %s.%s: user %v, admin %v", c.verb, c.resource, c.group, user, admin)
		}
	}
}
