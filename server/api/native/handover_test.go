package native_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/test/apibed"
)

// TestHandover takes a cluster in, gives it away and takes it up, as a user who may and as a user who may not.
func TestHandover(t *testing.T) {
	b := apibed.New(t)
	body, s := apibed.QuarryFiles(t)
	const path = "/v1-drover/clusters/fleet-default/quarry"
	for token, status := range map[string]int{"": 401, b.User: 403} {
		if r := b.Request("POST", path+"/import-rke", token, body); r.Status != status {
			t.Errorf("import: %d, want %d", r.Status, status)
		}
	}
	if r := b.Request("POST", path+"/import-rke", b.Admin, `{"state": "{}", "stat": 1}`); r.Status != 422 {
		t.Errorf("an unknown field: %d %s", r.Status, r.Raw)
	}
	if r := b.Request("POST", path+"/import-rke", b.Admin, strings.Replace(body, "cluster_name", "cluster_nam", 1)); r.Status != 422 && r.Status != 200 {
		t.Errorf("a wrong config: %d %s", r.Status, r.Raw)
	}
	r := b.Want(http.StatusOK, "POST", path+"/import-rke", body)
	id := r.Text("id")
	if hosts, _ := r.Body["hosts"].([]any); len(hosts) != 1 || id == "" || strings.Contains(string(r.Raw), "BEGIN") {
		t.Fatalf("%s", r.Raw)
	}
	v3 := b.Get("/v3/clusters/" + id)
	if v3.Text("transitioning") != "no" || !strings.Contains(string(v3.Raw), `"type":"Exported"`) {
		t.Errorf("/v3: %s", v3.Raw)
	}
	for token, status := range map[string]int{"": 401, b.User: 404} {
		if r := b.Request("POST", path+"/export", token, "{}"); r.Status != status {
			t.Errorf("export: %d, want %d", r.Status, status)
		}
	}
	// The answer is a tar, with what is to be said of it in headers.
	exported := func(body io.Reader) *httptest.ResponseRecorder {
		w, q := httptest.NewRecorder(), httptest.NewRequest("POST", path+"/export", body)
		q.Header.Set("Authorization", "Bearer "+b.Admin)
		b.Handler.ServeHTTP(w, q)
		return w
	}
	for name, c := range map[string]struct {
		body   io.Reader
		status int
	}{
		"nothing": {http.NoBody, 200}, "nothing, of no length": {io.MultiReader(), 200}, "a blank": {strings.NewReader(" \n"), 200},
		"half a body": {strings.NewReader(`{"keep"`), 422}, "half a body, of no length": {io.MultiReader(strings.NewReader(`{"keep"`)), 422}, "two": {strings.NewReader("{} {}"), 422},
	} {
		if w := exported(c.body); w.Code != c.status {
			t.Errorf("%s: %d, want %d", name, w.Code, c.status)
		}
	}
	w := exported(strings.NewReader(`{"keep": true}`))
	files, err := export.Untar(bytes.NewReader(w.Body.Bytes()))
	if err != nil || w.Code != 200 || w.Header().Get("Content-Type") != "application/x-tar" || w.Header().Get("X-Drover-Exported") != "true" || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%v: %d %v", err, w.Code, w.Header())
	}
	if err := export.Complete(files); err != nil {
		t.Error(err)
	}
	logs := b.Logs.String()
	if !strings.Contains(logs, "cluster exported with all of its keys") || !strings.Contains(logs, "user=user-admin") || strings.Contains(logs, "BEGIN") {
		t.Errorf("log: %s", logs)
	}
	if key := s.Desired.Certificates["kube-ca"].KeyPEM; !strings.Contains(w.Body.String(), strings.Split(key, "\n")[1]) {
		t.Error("the archive lacks the key of the CA")
	}
	doc := `{"apiVersion":"management.cattle.io/v3","kind":"Cluster","metadata":{"name":"quarry"},"spec":{"rancherKubernetesEngineConfig":{"network":{"plugin":"flannel"}}}}`
	for target, body := range map[string]string{"/v1-drover/apply": doc, path + "/resume": "", path + "/resume?dryRun=true": ""} {
		if r := b.Request("POST", target, b.Admin, body); r.Status != 409 {
			t.Errorf("%s: %d %s", target, r.Status, r.Raw)
		}
	}
	if r := b.Request("DELETE", "/v3/clusters/"+id+"?uninstall=true", b.Admin, ""); r.Status != 409 || !strings.Contains(r.Text("message"), "drover clusters resume quarry") {
		t.Errorf("uninstall: %d %s", r.Status, r.Raw)
	}
	b.Pass(time.Minute)
	if r := b.Want(http.StatusOK, "POST", path+"/resume?force=true", ""); r.Body["exported"] != nil || len(r.Body["notes"].([]any)) != 2 {
		t.Errorf("%s", r.Raw)
	}
	if r := b.Want(http.StatusOK, "POST", path+"/resume", ""); r.Body["same"] != true {
		t.Errorf("the end of a pause that is none: %s", r.Raw)
	}
}
