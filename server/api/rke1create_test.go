package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/apibed"
)

// TestCreateOverV3: a cluster of RKE1 is made by POST of /v3/clusters, owned by its maker with the answer.
func TestCreateOverV3(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	_, ann := b.Person("ann", "user")
	_, ben := b.Person("ben", "user-base")
	body := `{"links":null,"actions":null,"name":"quarry","description":"stones","labels":{"a":"b"},"rancherKubernetesEngineConfig":{"kubernetesVersion":"v1.30.8-rancher1-1","network":{"plugin":"canal"}}}`
	if r := b.Request("POST", "/v3/clusters", ben, body); r.Status != 403 {
		t.Errorf("ben makes a cluster: %d", r.Status)
	}
	r := b.Request("POST", "/v3/clusters", ann, body)
	var made typedCluster
	if err := json.Unmarshal(r.Raw, &made); err != nil || r.Status != http.StatusCreated {
		t.Fatalf("%d %v %s", r.Status, err, r.Raw)
	}
	if !strings.HasPrefix(made.ID, "c-") || len(made.ID) != 7 || made.Driver != "rancherKubernetesEngine" || made.Description != "stones" || made.Labels["a"] != "b" || made.Links["remove"] == "" {
		t.Errorf("%s", r.Raw)
	}
	if token := b.Request("GET", "/v3/clusterregistrationtokens/"+made.ID+":default-token", ann, ""); token.Status != 200 || token.Text("nodeCommand") == "" {
		t.Errorf("its token: %d %s", token.Status, token.Raw)
	}
	for name, c := range map[string]struct{ body, code, field string }{
		"the same name": {body, "NotUnique", "name"},
		"no name":       {`{"rancherKubernetesEngineConfig":{}}`, "MissingRequired", "name"},
		"a bad version": {`{"name":"other","rancherKubernetesEngineConfig":{"kubernetesVersion":7}}`, "InvalidBodyContent", "spec.rancherKubernetesEngineConfig.kubernetes_version"},
	} {
		r := b.Request("POST", "/v3/clusters", ann, c.body)
		if field, _ := r.Body["fieldName"].(string); r.Status != 422 || r.Text("code") != c.code || field != c.field {
			t.Errorf("%s: %d %s", name, r.Status, r.Raw)
		}
	}
}
