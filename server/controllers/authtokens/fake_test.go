package authtokens

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// apiServer keeps objects by path as an API server does: applied ones are merged into what is there. It has a record
// of what was changed, and one failure that can be injected.
type apiServer struct {
	client kubernetes.Interface

	mu      sync.Mutex
	objects map[string]map[string]any
	changes []string
	lists   int
	fails   string // "PATCH secrets/x": what is answered with 500
	changed chan struct{}
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{objects: map[string]map[string]any{}, changed: make(chan struct{}, 1000)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	s.client = client
	return s
}

// short is the kind and name of a path.
func short(path string) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	path := r.URL.Path
	if s.fails != "" && s.fails == r.Method+" "+short(path) {
		s.status(w, http.StatusInternalServerError)
		return
	}
	// The types are served when their definitions are there.
	if left, ok := strings.CutPrefix(path, "/apis/cluster.cattle.io/v3/namespaces/cattle-system/"); ok {
		resource, _, _ := strings.Cut(left, "/")
		if s.objects["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+resource+".cluster.cattle.io"] == nil {
			s.status(w, http.StatusNotFound)
			return
		}
	}
	switch r.Method {
	case http.MethodGet:
		s.get(w, path, r.URL.Query().Get("labelSelector"))
	case http.MethodPatch:
		var o map[string]any
		if q := r.URL.Query(); r.Header.Get("Content-Type") != "application/apply-patch+yaml" || q.Get("fieldManager") != "drover" || json.Unmarshal(body, &o) != nil {
			s.status(w, http.StatusBadRequest)
			return
		}
		before, _ := json.Marshal(s.objects[path])
		if s.objects[path] == nil {
			s.objects[path] = map[string]any{}
		}
		maps.Copy(s.objects[path], o)
		if after, _ := json.Marshal(s.objects[path]); string(before) != string(after) {
			s.did("applied " + short(path))
		}
		json.NewEncoder(w).Encode(s.objects[path])
	case http.MethodDelete:
		if s.objects[path] == nil {
			s.status(w, http.StatusNotFound)
			return
		}
		delete(s.objects, path)
		s.did("deleted " + short(path))
		io.WriteString(w, "{}")
	}
}

func (s *apiServer) get(w http.ResponseWriter, path, selector string) {
	if o := s.objects[path]; o != nil {
		json.NewEncoder(w).Encode(o)
		return
	}
	if selector == "" {
		s.status(w, http.StatusNotFound)
		return
	}
	s.lists++
	items := []any{}
	for _, p := range slices.Sorted(maps.Keys(s.objects)) {
		if p[:strings.LastIndexByte(p, '/')] == path && matches(s.objects[p], selector) {
			items = append(items, s.objects[p])
		}
	}
	json.NewEncoder(w).Encode(map[string]any{"items": items})
}

func matches(o map[string]any, selector string) bool {
	meta, _ := o["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	for one := range strings.SplitSeq(selector, ",") {
		if key, value, _ := strings.Cut(one, "="); fmt.Sprint(labels[key]) != value {
			return false
		}
	}
	return true
}

func (s *apiServer) did(what string) {
	s.changes = append(s.changes, what)
	s.changed <- struct{}{}
}

func (s *apiServer) status(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	reason := map[int]string{404: "NotFound", 500: "InternalError", 400: "BadRequest"}[code]
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"no"}`, reason, code)
}

// took are the changes since the last call.
func (s *apiServer) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.changes
	s.changes = nil
	return all
}

func (s *apiServer) object(path string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[path]
}

func (s *apiServer) put(path string, o map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[path] = o
}
