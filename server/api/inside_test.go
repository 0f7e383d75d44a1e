package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/test/apibed"
)

// recorded has the server know the project of a namespace of namespaceIn, as if a person had moved it there.
func recorded(b *apibed.Bed, clusterID, name, project string) {
	b.T.Helper()
	m := &state.Membership{State: b.State, Now: time.Now}
	uid := "uid-" + name
	if err := m.Move(b.T.Context(), clusterID, uid, name, m.In(clusterID).Of(uid, name), project); err != nil {
		b.T.Fatal(err)
	}
}

func namespaceIn(name, project string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	if project != "" {
		n.Annotations = map[string]string{"field.cattle.io/projectId": project}
	}
	return n
}

type typedNamespace struct {
	typedResource
	Description string
	ProjectID   *string `json:"projectId"`
}

// TestNamespaces: who sees, makes, moves and removes which namespaces, with typed decoding.
func TestNamespaces(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, _ := apibed.Harbour(b)
	annID, ann := b.Person("ann", "user")
	benID, ben := b.Person("ben", "user-base")
	project := func(name string) string {
		return b.Want(http.StatusCreated, "POST", "/v3/projects", fmt.Sprintf(`{"clusterId":%q,"name":%q}`, cl.ID, name)).Text("id")
	}
	shop, bank := project("shop"), project("bank")
	b.Bind("projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":"project-owner","userId":%q}`, shop, annID))
	b.Bind("projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":"read-only","userId":%q}`, bank, annID))
	b.Bind("projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":"read-only","userId":%q}`, shop, benID))
	at := "/v3/cluster/" + cl.ID + "/namespaces"
	if r := b.Request("GET", at, ann, ""); r.Status != 503 || r.Text("code") != "ClusterUnavailable" || !strings.Contains(r.Text("message"), "no tunnel is open") {
		t.Errorf("of a cluster that is away: %d %s", r.Status, r.Raw)
	}
	client := b.InCluster(namespaceIn("web", shop), namespaceIn("vault", bank), namespaceIn("loose", ""), namespaceIn("lost", cl.ID+":p-gone1"))
	recorded(b, cl.ID, "web", shop)
	recorded(b, cl.ID, "vault", bank)
	status := func(token, method, target, body string, want int) apibed.Result {
		t.Helper()
		r := b.Request(method, at+target, token, body)
		if r.Status != want {
			t.Errorf("%s %s: %d, want %d: %s", method, target, r.Status, want, r.Raw)
		}
		return r
	}
	if got := status(b.Admin, "GET", "", "", 200).IDs(); got != "loose lost vault web" {
		t.Errorf("the administrator sees %s", got)
	}
	if got := status(ann, "GET", "", "", 200).IDs(); got != "vault web" {
		t.Errorf("ann sees %s", got)
	}
	if got := status(ann, "GET", "?projectId="+shop+"&"+apibed.ListQ, "", 200).IDs(); got != "web" {
		t.Errorf("of the project ann sees %s", got)
	}
	var one typedNamespace
	if err := json.Unmarshal(status(ann, "GET", "/web", "", 200).Raw, &one); err != nil || one.ProjectID == nil || *one.ProjectID != shop || one.Actions["move"] == "" || one.Links["remove"] == "" {
		t.Errorf("%+v, %v", one, err)
	}
	if r := status(b.Admin, "GET", "/lost", "", 200); r.Body["projectId"] != nil {
		t.Errorf("a removed project is shown: %s", r.Raw)
	}
	status(ann, "GET", "/loose", "", 404)
	status(ann, "GET", "/nothing", "", 404)
	status(ann, "GET", "/..%2Fx", "", 404)
	status(ben, "GET", "/vault", "", 404)
	if r := status(ben, "GET", "/web", "", 200); r.Has("links", "remove") || r.Has("actions", "move") {
		t.Errorf("ben is offered %s", r.Raw)
	}
	status(ben, "POST", "/web?action=move", `{"projectId":null}`, 403)
	status(ben, "DELETE", "/web", "", 403)

	made := status(ann, "POST", "", fmt.Sprintf(`{"name":"web-2","projectId":%q,"description":"the next","labels":{"a":"b","field.cattle.io/projectId":"p-other"}}`, shop), 201)
	if made.Text("projectId") != shop || made.Text("description") != "the next" || made.Text("creatorId") != annID {
		t.Errorf("made %s", made.Raw)
	}
	if n, err := client.CoreV1().Namespaces().Get(t.Context(), "web-2", metav1.GetOptions{}); err != nil || cl.ID+":"+n.Labels["field.cattle.io/projectId"] != shop || n.Labels["a"] != "b" {
		t.Errorf("in the cluster: %+v, %v", n, err)
	}
	status(ann, "POST", "", fmt.Sprintf(`{"name":"web-2","projectId":%q}`, shop), 409)
	status(ann, "POST", "", `{"name":"mine"}`, 403)
	status(ann, "POST", "", fmt.Sprintf(`{"name":"mine","projectId":%q}`, bank), 403)
	status(ann, "POST", "", `{"name":"mine","projectId":"c-m-h4rb0r55:p-nope1"}`, 422)
	status(ann, "POST", "", fmt.Sprintf(`{"name":"Mine!","projectId":%q}`, shop), 422)

	status(ann, "POST", "/web-2?action=move", fmt.Sprintf(`{"projectId":%q}`, bank), 403)
	status(ann, "POST", "/web-2?action=move", `{"projectId":null}`, 403)
	if r := status(b.Admin, "POST", "/web-2?action=move", fmt.Sprintf(`{"projectId":%q}`, bank), 200); r.Text("projectId") != bank {
		t.Errorf("moved to %s", r.Raw)
	}
	status(ann, "PUT", "/web-2", `{"description":"no"}`, 403)
	if r := status(b.Admin, "POST", "/web-2?action=move", `{"projectId":null}`, 200); r.Body["projectId"] != nil {
		t.Errorf("moved to %s", r.Raw)
	}
	if r := status(b.Admin, "PUT", "/web-2", fmt.Sprintf(`{"projectId":%q,"labels":{"a":null}}`, shop), 200); r.Text("projectId") != shop || r.Has("labels", "a") {
		t.Errorf("changed to %s", r.Raw)
	}
	status(ann, "DELETE", "/web-2", "", 204)
	status(ann, "GET", "/web-2", "", 404)

	// The type is published where clients look for it.
	r := b.Get("/v3/clusters/" + cl.ID + "/schemas/namespace")
	if r.Status != 200 || !strings.Contains(string(r.Raw), `"POST"`) || !strings.Contains(string(r.Raw), `/v3/cluster/`+cl.ID+`/namespaces"`) {
		t.Errorf("schema %s", r.Raw)
	}
	if cl.Projects.Default == shop {
		t.Error("a project of one's own has the ID of one of the cluster's")
	}
}

// TestAProjectIsWhatWasRecorded: what a namespace says of itself changes no rights, and a move needs rights in both projects.
func TestAProjectIsWhatWasRecorded(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, _ := apibed.Harbour(b)
	annID, ann := b.Person("ann", "user")
	benID, ben := b.Person("ben", "user-base")
	eveID, eve := b.Person("eve", "user-base")
	project := func(name string) string {
		return b.Want(http.StatusCreated, "POST", "/v3/projects", fmt.Sprintf(`{"clusterId":%q,"name":%q}`, cl.ID, name)).Text("id")
	}
	shop, bank := project("shop"), project("bank")
	for _, in := range []string{shop, bank} {
		b.Bind("projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":"project-owner","userId":%q}`, in, annID))
	}
	b.Bind("projectroletemplatebindings", fmt.Sprintf(`{"projectId":%q,"roleTemplateId":"project-owner","userId":%q}`, shop, benID))
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member","userId":%q}`, cl.ID, eveID))
	client := b.InCluster(namespaceIn("web", bank), namespaceIn("eves", cl.Projects.System), namespaceIn("default", ""), namespaceIn("loose", shop))
	recorded(b, cl.ID, "web", shop)
	at := "/v3/cluster/" + cl.ID + "/namespaces"
	move := func(token, name, to string, want int) apibed.Result {
		t.Helper()
		r := b.Request("POST", at+"/"+name+"?action=move", token, fmt.Sprintf(`{"projectId":%q}`, to))
		if r.Status != want {
			t.Errorf("move %s to %q: %d, want %d: %s", name, to, r.Status, want, r.Raw)
		}
		return r
	}
	in := func(name string) any { t.Helper(); return b.Want(200, "GET", at+"/"+name, "").Body["projectId"] }
	for name, want := range map[string]any{"web": shop, "eves": nil, "default": cl.Projects.Default, "loose": nil} {
		if got := in(name); got != want {
			t.Errorf("%s is in %v, want %v", name, got, want)
		}
	}
	move(ben, "web", bank, 422)   // which ben does not even see
	move(ben, "loose", shop, 404) // in none: that needs rights on the namespaces of the cluster
	move(ben, "default", shop, 404)
	for _, to := range []string{cl.Projects.Default, cl.Projects.System, shop} { // a member of the cluster has no rights in any
		if r := b.Request("POST", at, eve, fmt.Sprintf(`{"name":"new","projectId":%q}`, to)); r.Status != 422 && r.Status != 403 {
			t.Errorf("a member of the cluster makes a namespace in %s: %d %s", to, r.Status, r.Raw)
		}
		if r := b.Request("POST", at+"/eves?action=move", eve, fmt.Sprintf(`{"projectId":%q}`, to)); r.Status < 400 {
			t.Errorf("a member of the cluster moves a namespace to %s: %d %s", to, r.Status, r.Raw)
		}
	}
	// The namespace of people's accounts in the cluster: its owner acts as any of them.
	for _, name := range []string{"cattle-impersonation-system", "cattle-system", "longhorn-system"} {
		if r := b.Request("POST", at, ann, fmt.Sprintf(`{"name":%q,"projectId":%q}`, name, shop)); r.Status != 403 {
			t.Errorf("%s in a project of one's own: %d %s", name, r.Status, r.Raw)
		}
	}
	if r := b.Want(201, "POST", at, fmt.Sprintf(`{"name":"longhorn-system","projectId":%q}`, bank)); r.Text("projectId") != bank { // by an administrator
		t.Errorf("made: %s", r.Raw)
	}
	if r := move(ann, "web", bank, 200); r.Text("projectId") != bank || r.Body["annotations"].(map[string]any)["field.cattle.io/projectId"] != bank {
		t.Errorf("moved: %s", r.Raw)
	}
	if r := b.Request("GET", at+"/web", ben, ""); r.Status != 404 {
		t.Errorf("ben sees what left their project: %d", r.Status)
	}
	// Made again it is in none, and in what it says even less.
	if err := client.CoreV1().Namespaces().Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := namespaceIn("web", shop)
	again.UID = "another"
	if err := client.Tracker().Add(again); err != nil {
		t.Fatal(err)
	}
	if got := in("web"); got != nil {
		t.Errorf("made again it is in %v", got)
	}
	// With a project its namespaces leave it: who makes another one of its ID gets none of them.
	move(b.Admin, "web", shop, 200)
	b.Want(204, "DELETE", "/v3/projects/"+shop, "")
	_, short, _ := strings.Cut(shop, ":")
	p := records.Project{ID: shop, ClusterID: cl.ID, Name: "again"}
	if _, err := b.State.Projects.Create(t.Context(), records.ProjectKey(cl.ID+":"+short), p); err != nil {
		t.Fatal(err)
	}
	if got := in("web"); got != nil {
		t.Errorf("in a project that was made again: %v", got)
	}
	// A cluster that names no UID has none of its namespaces in a project.
	nameless := namespaceIn("nameless", "")
	nameless.UID = ""
	if err := client.Tracker().Add(nameless); err != nil {
		t.Fatal(err)
	}
	if r := move(b.Admin, "nameless", bank, 500); in("nameless") != nil {
		t.Errorf("without a UID: %s", r.Raw)
	}
}

// TestNodeActions: what is done to nodes through their cluster's API.
func TestNodeActions(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, machines := apibed.Harbour(b)
	annID, ann := b.Person("ann", "user")
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"nodes-view","userId":%q}`, cl.ID, annID))
	m := machines[0]
	client := b.InCluster()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Status.Node.Name, Labels: map[string]string{"rack": "a"}}}
	if err := client.Tracker().Add(node); err != nil {
		t.Fatal(err)
	}
	hour := corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("64Mi")}}
	if err := client.Tracker().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "clock"}, Spec: corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Resources: hour}}}}); err != nil {
		t.Fatal(err)
	}
	cordoned := false
	b.ClusterAPI = func(records.ClusterKey) observed.API {
		return observed.API{Reachable: true, Details: map[string]observed.NodeDetails{m.UID: {
			Cordoned: cordoned, Labels: map[string]string{"rack": "a"}, Capacity: map[string]string{"cpu": "4"}, Allocatable: map[string]string{"cpu": "3500m"},
		}}}
	}
	at := "/v3/nodes/" + cl.ID + ":m-0f31c2aa9d10"
	is := func() *corev1.Node {
		t.Helper()
		n, err := client.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := b.Want(200, "GET", at, "")
	if !first.Has("actions", "cordon") || !first.Has("actions", "drain") || first.Has("actions", "uncordon") || !first.Has("capacity", "cpu") {
		t.Errorf("offered %s", first.Raw)
	}
	if r := b.Want(200, "GET", "/v3/clusters/"+cl.ID, ""); !r.Has("capacity", "cpu") || !r.Has("allocatable", "cpu") {
		t.Errorf("the cluster has %s", r.Raw)
	}
	asks := map[string]string{"cpu": "250m", "memory": "65536Ki", "pods": "1"}
	whole, one := as[typedCluster](t, b.Get("/v3/clusters/"+cl.ID), 200), as[typedNode](t, b.Get(at), 200)
	if !maps.Equal(whole.Requested, asks) || !maps.Equal(one.Requested, asks) {
		t.Errorf("pods ask for %v of the cluster and %v of the node, want %v", whole.Requested, one.Requested, asks)
	}
	if err := client.CoreV1().Pods("web").Delete(t.Context(), "clock", metav1.DeleteOptions{}); err != nil { // which would hold the drain
		t.Fatal(err)
	}
	if r := b.Request("POST", at+"?action=cordon", ann, ""); r.Status != 403 {
		t.Errorf("who may look cordons: %d", r.Status)
	}
	b.Want(200, "POST", at+"?action=cordon", "")
	if !is().Spec.Unschedulable {
		t.Error("not cordoned")
	}
	b.Want(404, "POST", at+"?action=uncordon", "") // which the watch does not know of yet
	cordoned = true
	if r := b.Want(200, "GET", at, ""); r.Text("state") != "cordoned" || r.Body["unschedulable"] != true || r.Has("actions", "cordon") {
		t.Errorf("cordoned: %s", r.Raw)
	}
	b.Want(200, "POST", at+"?action=uncordon", "")
	if is().Spec.Unschedulable {
		t.Error("still cordoned")
	}
	cordoned = false
	b.Want(422, "POST", at+"?action=drain", `{"timeout":0}`)
	b.Want(422, "POST", at+"?action=drain", `{"gracePeriod":-5}`)
	if r := b.Want(200, "POST", at+"?action=drain", `{"force":true,"ignoreDaemonSets":true,"timeout":5}`); r.Text("state") != "draining" {
		t.Errorf("drain: %s", r.Raw)
	}
	cordoned = true
	waitFor(t, func() bool { return b.Get(at).Text("state") == "drained" })
	if r := b.Want(200, "PUT", at, `{"labels":{"rack":"b","row":"7"},"annotations":{"x":"y"}}`); !r.Has("labels", "row") {
		t.Errorf("labels: %s", r.Raw)
	}
	if n := is(); n.Labels["rack"] != "b" || n.Labels["row"] != "7" || n.Annotations["x"] != "y" {
		t.Errorf("the node has %v %v", n.Labels, n.Annotations)
	}
	b.Want(200, "PUT", at, `{"labels":{"rack":null}}`)
	if _, ok := is().Labels["rack"]; ok {
		t.Error("a label is not removed")
	}
	b.Want(422, "PUT", at, `{"labels":{"rke.cattle.io/machine":"another"}}`)
}

// waitFor waits for what happens beside requests.
func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}
