package discovery

import (
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServe(t *testing.T) {
	d := New(
		Group{Version: "v1", Resources: []metav1.APIResource{{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: metav1.Verbs{"get"}}}},
		Group{Name: "a.example", Version: "v2", Resources: []metav1.APIResource{{Name: "things", Kind: "Thing", Verbs: metav1.Verbs{"list"}}}, OpenAPI: []byte(`{"openapi":"3.0.0"}`)},
	)
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=%;as=APIGroupDiscoveryList"
	v2, v2beta1 := strings.Replace(aggregated, "%", "v2", 1), strings.Replace(aggregated, "%", "v2beta1", 1)
	for _, c := range []struct{ path, accept, kind, has string }{
		{"/version", "", "application/json", Spoken},
		{"/api", "application/json", "application/json", `"versions":["v1"]`},
		{"/api", v2 + "," + v2beta1 + ",application/json", v2, `"resource":"secrets"`},
		{"/api/", "*/*", "application/json", `"APIVersions"`},
		{"/api/v1", v2, "application/json", `"name":"secrets"`},
		{"/apis", "", "application/json", `"name":"a.example"`},
		{"/apis", v2beta1 + "," + v2, v2beta1, `"apiVersion":"apidiscovery.k8s.io/v2beta1"`},
		{"/apis", "application/json," + v2, "application/json", `"APIGroupList"`},
		{"/apis", strings.Replace(aggregated, "%", "v9", 1), "application/json", `"APIGroupList"`},
		{"/apis/a.example", "", "application/json", `"preferredVersion":{"groupVersion":"a.example/v2"`},
		{"/apis/a.example/v2", "", "application/json", `"kind":"Thing"`},
		{"/openapi/v3", "", "application/json", `"apis/a.example/v2":{"serverRelativeURL":"/openapi/v3/apis/a.example/v2?hash=`},
		{"/openapi/v3/apis/a.example/v2", "", "application/json", `"3.0.0"`},
		{"/apis/b.example", "", "", ""},
		{"/openapi/v3/api/v1", "", "", ""},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", c.path, nil)
		r.Header.Set("Accept", c.accept)
		if found := d.Serve(w, r, c.path); found != (c.kind != "") {
			t.Errorf("%s: found %v", c.path, found)
		}
		if w.Header().Get("Content-Type") != c.kind || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s by %q: %s: %s", c.path, c.accept, w.Header().Get("Content-Type"), w.Body)
		}
	}
}
