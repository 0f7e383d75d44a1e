package api

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/rke1/pki/pkitest"
	"github.com/drover-project/drover/rke1/state"
	rke1versions "github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/rke/desired"
)

const quarry = `
cluster_name: quarry
kubernetes_version: v1.30.5-rancher1-1
nodes: [{address: 10.0.0.1, user: core, hostname_override: n1, role: [controlplane, etcd, worker]}]
`

// files are those of a cluster that the rke command line made, as the body of an import.
func quarryFiles(t *testing.T) (body string, s *state.State) {
	t.Helper()
	known, err := rke1versions.Load(t.Context(), "", rke1versions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, []byte(quarry))
	if err != nil {
		t.Fatal(err)
	}
	c := config.WithDefaults(file.Cluster, desired.Known(known))
	s, _, err = run.Init(run.Work{Config: &c, Kubeconfig: "k"}, pkitest.Source(start, 0))
	if err != nil {
		t.Fatal(err)
	}
	s = s.Deployed()
	text, err := state.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(map[string]string{"config": quarry, "state": string(text)})
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded), s
}

// TestHandover takes a cluster in, gives it away and takes it up, as a user who may and as a user who may not.
func TestHandover(t *testing.T) {
	b := newBench(t)
	body, s := quarryFiles(t)
	const path = "/v1-drover/clusters/fleet-default/quarry"
	for token, status := range map[string]int{"": 401, b.user: 403} {
		if r := b.request("POST", path+"/import-rke", token, body); r.status != status {
			t.Errorf("import: %d, want %d", r.status, status)
		}
	}
	if r := b.request("POST", path+"/import-rke", b.admin, `{"state": "{}", "stat": 1}`); r.status != 422 {
		t.Errorf("an unknown field: %d %s", r.status, r.raw)
	}
	if r := b.request("POST", path+"/import-rke", b.admin, strings.Replace(body, "cluster_name", "cluster_nam", 1)); r.status != 422 && r.status != 200 {
		t.Errorf("a wrong config: %d %s", r.status, r.raw)
	}
	r := b.want(http.StatusOK, "POST", path+"/import-rke", body)
	id := r.text("id")
	if hosts, _ := r.body["hosts"].([]any); len(hosts) != 1 || id == "" || strings.Contains(string(r.raw), "BEGIN") {
		t.Fatalf("%s", r.raw)
	}
	v3 := b.get("/v3/clusters/" + id)
	if v3.text("transitioning") != "no" || !strings.Contains(string(v3.raw), `"type":"Exported"`) {
		t.Errorf("/v3: %s", v3.raw)
	}
	for token, status := range map[string]int{"": 401, b.user: 404} {
		if r := b.request("POST", path+"/export", token, "{}"); r.status != status {
			t.Errorf("export: %d, want %d", r.status, status)
		}
	}
	// The answer is a tar, with what is to be said of it in headers.
	exported := func(body io.Reader) *httptest.ResponseRecorder {
		w, q := httptest.NewRecorder(), httptest.NewRequest("POST", path+"/export", body)
		q.Header.Set("Authorization", "Bearer "+b.admin)
		b.handler.ServeHTTP(w, q)
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
	logs := b.logs.String()
	if !strings.Contains(logs, "cluster exported with all of its keys") || !strings.Contains(logs, "user=user-admin") || strings.Contains(logs, "BEGIN") {
		t.Errorf("log: %s", logs)
	}
	if key := s.Desired.Certificates["kube-ca"].KeyPEM; !strings.Contains(w.Body.String(), strings.Split(key, "\n")[1]) {
		t.Error("the archive lacks the key of the CA")
	}
	doc := `{"apiVersion":"management.cattle.io/v3","kind":"Cluster","metadata":{"name":"quarry"},"spec":{"rancherKubernetesEngineConfig":{"network":{"plugin":"flannel"}}}}`
	for target, body := range map[string]string{"/v1-drover/apply": doc, path + "/resume": "", path + "/resume?dryRun=true": ""} {
		if r := b.request("POST", target, b.admin, body); r.status != 409 {
			t.Errorf("%s: %d %s", target, r.status, r.raw)
		}
	}
	if r := b.request("DELETE", "/v3/clusters/"+id+"?uninstall=true", b.admin, ""); r.status != 409 || !strings.Contains(r.text("message"), "drover clusters resume quarry") {
		t.Errorf("uninstall: %d %s", r.status, r.raw)
	}
	b.pass(time.Minute)
	if r := b.want(http.StatusOK, "POST", path+"/resume?force=true", ""); r.body["exported"] != nil || len(r.body["notes"].([]any)) != 2 {
		t.Errorf("%s", r.raw)
	}
	if r := b.want(http.StatusOK, "POST", path+"/resume", ""); r.body["same"] != true {
		t.Errorf("the end of a pause that is none: %s", r.raw)
	}
}
