package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/test/apibed"
)

// kubeAPI is what of a cluster's API the surface /v1 of clusters needs: objects by their paths, in the form of Kubernetes.
type kubeAPI struct {
	mu      sync.Mutex
	objects map[string]map[string]any
	seen    []string // requests, and as whom
	answer  func(w http.ResponseWriter, r *http.Request) bool
}

func (k *kubeAPI) refuse(w http.ResponseWriter, code int, reason, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "code": code, "reason": reason, "message": message})
}

func (k *kubeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = append(k.seen, r.Method+" "+r.URL.RequestURI()+" as "+r.Header.Get("Impersonate-User")+" by "+r.Header.Get("Authorization"))
	w.Header().Set("Content-Type", "application/json")
	if k.answer != nil && k.answer(w, r) {
		return
	}
	var given map[string]any
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		d := json.NewDecoder(r.Body)
		d.UseNumber()
		if err := d.Decode(&given); err != nil {
			k.refuse(w, 400, "BadRequest", err.Error())
			return
		}
	}
	path := r.URL.Path
	switch o := k.objects[path]; {
	case r.Method == http.MethodPost:
		meta, _ := given["metadata"].(map[string]any)
		meta["resourceVersion"] = "7"
		path += "/" + fmt.Sprint(meta["name"])
		if k.objects[path] != nil {
			k.refuse(w, 409, "AlreadyExists", "there is one")
			return
		}
		k.objects[path] = given
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(given)
	case r.Method == http.MethodGet && o == nil && strings.Count(path, "/") <= 6 && slices.Contains([]string{"secrets", "configmaps", "storageclasses", "namespaces", "deployments"}, path[strings.LastIndex(path, "/")+1:]):
		items := []any{}
		for at, o := range k.objects {
			if strings.Contains(at, path[strings.LastIndex(path, "/"):]+"/") {
				items = append(items, o)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": "9"}, "items": items})
	case o == nil:
		k.refuse(w, 404, "NotFound", "not found")
	case r.Method == http.MethodPut:
		k.objects[path] = given
		_ = json.NewEncoder(w).Encode(given)
	case r.Method == http.MethodDelete:
		delete(k.objects, path)
		_, _ = io.WriteString(w, `{"kind":"Status","status":"Success"}`)
	default:
		_ = json.NewEncoder(w).Encode(o)
	}
}

// behind is a bench whose cluster harbour has an API that is reached over HTTP.
func behind(t *testing.T) (*apibed.Bed, *kubeAPI) {
	k := &kubeAPI{objects: map[string]map[string]any{}}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	b := apibed.NewWith(t, apibed.Options{ServerURL: "https://drover.example", Way: roundTrip(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
		return transport.RoundTrip(r)
	})})
	b.AddCluster("harbour", "c-m-h4rb0r55", nil)
	return b, k
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

const harbourV1 = "/k8s/clusters/c-m-h4rb0r55/v1"

// TestV1OfAClusterAsTerraformAsks plays what the provider rancher2 does for secret_v2, config_map_v2 and storage_class_v2 of a cluster:
// the root, the schemas that its header names, and then the links of the schema.
func TestV1OfAClusterAsTerraformAsks(t *testing.T) {
	b, k := behind(t)
	root := b.Want(200, "GET", harbourV1, "")
	schemas := strings.TrimPrefix(root.Header.Get("X-API-Schemas"), "https://drover.example")
	if schemas != harbourV1+"/schemas" {
		t.Fatalf("the schemas are at %q", schemas)
	}
	var published struct {
		Data []struct {
			ID, PluralName                     string
			Links                              map[string]string
			CollectionMethods, ResourceMethods []string
		}
	}
	if err := json.Unmarshal(b.Want(200, "GET", schemas, "").Raw, &published); err != nil {
		t.Fatal(err)
	}
	collections := map[string]string{}
	for _, s := range published.Data {
		if slices.Contains(s.CollectionMethods, "POST") && slices.Contains(s.ResourceMethods, "PUT") && slices.Contains(s.ResourceMethods, "DELETE") {
			collections[s.ID] = strings.TrimPrefix(s.Links["collection"], "https://drover.example")
		}
		if strings.HasPrefix(s.ID, "catalog.") && len(s.CollectionMethods)+len(s.ResourceMethods) > 0 {
			t.Errorf("%s is offered", s.ID)
		}
	}
	for _, c := range []struct{ id, body, at, name, shows string }{
		{"secret", `{"id":"","kind":"Secret","apiVersion":"v1","type":"kubernetes.io/basic-auth","_type":"kubernetes.io/basic-auth","metadata":{"name":"quay","namespace":"web"},"stringData":{"username":"ann"}}`, "/api/v1/namespaces/web/secrets/quay", "web/quay", `"_type":"kubernetes.io/basic-auth"`},
		{"configmap", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"tide","namespace":"web"},"data":{"at":"noon"},"big":9007199254740993}`, "/api/v1/namespaces/web/configmaps/tide", "web/tide", `"big":9007199254740993`},
		{"storage.k8s.io.storageclass", `{"metadata":{"name":"slow"},"provisioner":"p"}`, "/apis/storage.k8s.io/v1/storageclasses/slow", "slow", `"kind":"StorageClass"`},
		{"namespace", `{"metadata":{"name":"docks"}}`, "/api/v1/namespaces/docks", "docks", `"kind":"Namespace"`},
		{"apps.deployment", `{"metadata":{"name":"crane","namespace":"web"},"spec":{"replicas":2}}`, "/apis/apps/v1/namespaces/web/deployments/crane", "web/crane", `"replicas":2`},
	} {
		t.Run(c.id, func(t *testing.T) {
			at := collections[c.id]
			if at == "" {
				t.Fatal("no schema has it")
			}
			var made struct {
				ID, Type string
				Links    map[string]string
			}
			r := b.Want(201, "POST", at, c.body)
			if err := json.Unmarshal(r.Raw, &made); err != nil || made.ID != c.name || made.Type != c.id || !strings.Contains(string(r.Raw), c.shows) || !strings.Contains(string(r.Raw), `"state":{`) {
				t.Fatalf("%v: %s", err, r.Raw)
			}
			stored, err := json.Marshal(k.objects[c.at])
			if err != nil || k.objects[c.at] == nil {
				t.Fatalf("%v: the cluster has %v", err, k.objects)
			}
			for _, foreign := range []string{`"_type"`, `"links"`, `"id"`, `"state"`} {
				if strings.Contains(string(stored), foreign) {
					t.Errorf("%s reached the cluster: %s", foreign, stored)
				}
			}
			b.Want(409, "POST", at, c.body)
			self := strings.TrimPrefix(made.Links["self"], "https://drover.example")
			if self != at+"/"+c.name {
				t.Errorf("it is at %s", self)
			}
			got := b.Want(200, "GET", self, "")
			b.Want(200, "PUT", self, string(got.Raw))
			if again, err := json.Marshal(k.objects[c.at]); err != nil || string(again) != string(stored) {
				t.Errorf("what was read and written is\n%s, %v, and was\n%s", again, err, stored)
			}
			if list := b.Want(200, "GET", at+"?filter=metadata.name="+c.name[strings.LastIndex(c.name, "/")+1:], ""); !strings.Contains(string(list.Raw), `"id":"`+c.name+`"`) || !strings.Contains(string(list.Raw), `"count":1`) {
				t.Errorf("the list is %s", list.Raw)
			}
			b.Want(204, "DELETE", self, "")
			b.Want(404, "GET", self, "")
		})
	}
	for _, line := range k.seen {
		if !strings.HasSuffix(line, " by Bearer of-the-account") || strings.Contains(line, " as  by") {
			t.Errorf("not as the caller: %s", line)
		}
	}
}

// TestV1OfAClusterNeverKeepsWaiting holds that whatever is in the way, the root of /v1 of a cluster answers with neither of what the
// provider takes for "not yet" (403, 404, 500), and everything below in the form of errors of /v1.
func TestV1OfAClusterNeverKeepsWaiting(t *testing.T) {
	b, k := behind(t)
	say := func(code int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	for _, c := range []struct {
		name, method, path, body string
		answer                   func(http.ResponseWriter, *http.Request) bool
		status                   int
		says                     string
	}{
		{name: "no such cluster", path: "/k8s/clusters/c-m-gone2222/v1", status: 410, says: "there is no cluster"},
		{name: "schemas of no cluster", path: "/k8s/clusters/c-m-gone2222/v1/schemas", status: 410, says: "there is no cluster"},
		{name: "an app", path: harbourV1 + "/catalog.cattle.io.apps/web/a", status: 405, says: "use helm"},
		{name: "another type", path: harbourV1 + "/fleet.cattle.io.bundles", status: 404, says: "use kubectl"},
		{name: "changes", path: harbourV1 + "/subscribe", status: 404, says: "use kubectl"},
		{name: "a deeper path", path: harbourV1 + "/secrets/web/a/log", status: 404, says: "there is no link"},
		{name: "out of the type", path: harbourV1 + "/secrets/web/..%2F..%2Fnodes", status: 404, says: "there is no link"},
		{name: "out by the namespace", method: "POST", path: harbourV1 + "/secrets", body: `{"metadata":{"name":"a","namespace":"../../x"}}`, status: 422, says: "is not the name of a namespace"},
		{name: "in no namespace", method: "POST", path: harbourV1 + "/secrets", body: `{"metadata":{"name":"a"}}`, status: 422, says: "which namespace"},
		{name: "in two namespaces", method: "POST", path: harbourV1 + "/secrets/b", body: `{"metadata":{"name":"a","namespace":"c"}}`, status: 422, says: "not the namespace of the URL"},
		{name: "not an object", method: "POST", path: harbourV1 + "/secrets", body: `[1]`, status: 422, says: "not one JSON object"},
		{name: "the root is changed", method: "POST", path: harbourV1, status: 405, says: "POST is not possible"},
		{name: "a patch", method: "PATCH", path: harbourV1 + "/secrets/web/a", status: 405, says: "PATCH is not possible"},
		{name: "refused by the cluster", path: harbourV1 + "/secrets/web/a", answer: say(403, `{"reason":"Forbidden","message":"u-1 may not"}`), status: 403, says: "u-1 may not"},
		{name: "not in the cluster's own form", path: harbourV1 + "/secrets/web/a", answer: say(404, "404 page not found"), status: 404, says: "does not say why"},
		{name: "a fault of the cluster", path: harbourV1 + "/secrets/web/a", answer: say(500, `{"message":"etcd is lost"}`), status: 502, says: "etcd is lost"},
		{name: "long words", path: harbourV1 + "/secrets/web/a", answer: say(403, `{"message":"`+strings.Repeat("x", 1<<20)+`"}`), status: 403, says: strings.Repeat("x", 1<<10) + `"`},
		{name: "no object", path: harbourV1 + "/secrets/web/a", answer: say(200, `null`), status: 502, says: "what is no object"},
		{name: "half an object", path: harbourV1 + "/secrets/web/a", answer: say(200, `{"metadata":`), status: 502, says: "what is no object"},
		{name: "a list of nothing", path: harbourV1 + "/configmaps", answer: say(200, `{"items":[null]}`), status: 502, says: "what is no object"},
		{name: "odd metadata", path: harbourV1 + "/configmaps", answer: say(200, `{"items":[{"metadata":7}]}`), status: 200, says: `"id":"/"`},
		{name: "a list without end", path: harbourV1 + "/configmaps", answer: say(200, `{"metadata":{"continue":"more"},"items":[]}`), status: 502, says: "is itself"},
		{name: "an object without end", path: harbourV1 + "/configmaps/web/a", answer: say(200, `{"a":"`+strings.Repeat("x", 5<<20)+`"}`), status: 502, says: "more than 4 MiB"},
		{name: "another place", path: harbourV1 + "/configmaps/web/a", answer: func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
			return true
		}, status: 502, says: "a redirect"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k.mu.Lock()
			k.answer = c.answer
			k.mu.Unlock()
			if c.method == "" {
				c.method = "GET"
			}
			r := b.Request(c.method, c.path, b.Admin, c.body)
			if r.Status != c.status || !strings.Contains(string(r.Raw), c.says) || c.status != 200 && !strings.Contains(string(r.Raw), `"type":"error"`) {
				t.Errorf("%d %.600s", r.Status, r.Raw)
			}
		})
	}
	k.mu.Lock()
	asked := len(k.seen)
	k.mu.Unlock()
	// A person who may not use the cluster is told no more than of one that does not exist, and the cluster is not asked.
	for path := range map[string]bool{harbourV1: true, harbourV1 + "/secrets": true} {
		if r := b.Request("GET", path, b.User, ""); r.Status != 410 {
			t.Errorf("%s: %d %s", path, r.Status, r.Raw)
		}
	}
	if len(k.seen) != asked {
		t.Errorf("the cluster was asked for %v", k.seen[asked:])
	}
}

func TestV1OfAClusterThatIsAway(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-h4rb0r55", nil)
	b.Want(200, "GET", harbourV1, "")
	if r := b.Get(harbourV1 + "/secrets"); r.Status != 503 || !strings.Contains(string(r.Raw), "cannot be reached") {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
}
