package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestCreateOverV3: a cluster of RKE1 is made by POST of /v3/clusters, owned by its maker with the answer.
func TestCreateOverV3(t *testing.T) {
	b := newBench(t)
	administrated(b)
	_, ann := b.person("ann", "user")
	_, ben := b.person("ben", "user-base")
	body := `{"links":null,"actions":null,"name":"quarry","description":"stones","labels":{"a":"b"},"rancherKubernetesEngineConfig":{"kubernetesVersion":"v1.30.8-rancher1-1","network":{"plugin":"canal"}}}`
	if r := b.request("POST", "/v3/clusters", ben, body); r.status != 403 {
		t.Errorf("ben makes a cluster: %d", r.status)
	}
	r := b.request("POST", "/v3/clusters", ann, body)
	var made typedCluster
	if err := json.Unmarshal(r.raw, &made); err != nil || r.status != http.StatusCreated {
		t.Fatalf("%d %v %s", r.status, err, r.raw)
	}
	if !strings.HasPrefix(made.ID, "c-") || len(made.ID) != 7 || made.Driver != "rancherKubernetesEngine" || made.Description != "stones" || made.Labels["a"] != "b" || made.Links["remove"] == "" {
		t.Errorf("%s", r.raw)
	}
	if token := b.request("GET", "/v3/clusterregistrationtokens/"+made.ID+":default-token", ann, ""); token.status != 200 || token.text("nodeCommand") == "" {
		t.Errorf("its token: %d %s", token.status, token.raw)
	}
	for name, c := range map[string]struct{ body, code, field string }{
		"the same name": {body, "NotUnique", "name"},
		"no name":       {`{"rancherKubernetesEngineConfig":{}}`, "MissingRequired", "name"},
		"a bad version": {`{"name":"other","rancherKubernetesEngineConfig":{"kubernetesVersion":7}}`, "InvalidBodyContent", "spec.rancherKubernetesEngineConfig.kubernetes_version"},
	} {
		r := b.request("POST", "/v3/clusters", ann, c.body)
		if field, _ := r.body["fieldName"].(string); r.status != 422 || r.text("code") != c.code || field != c.field {
			t.Errorf("%s: %d %s", name, r.status, r.raw)
		}
	}
}
