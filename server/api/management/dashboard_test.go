package management_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/apibed"
)

// TestFirstRequestsOfTheDashboard: what Rancher's own dashboard asks for after a login is answered, to everybody alike.
func TestFirstRequestsOfTheDashboard(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	apibed.Harbour(b)
	annID, ann := b.Person("ann", "user")
	_, ben := b.Person("ben", "user-base")
	for _, prefix := range []string{"", "/k8s/clusters/local"} {
		r := b.Request("POST", prefix+"/v1/ext.cattle.io.selfuser", ann, `{}`)
		status, _ := r.Body["status"].(map[string]any)
		if r.Status != http.StatusCreated || status["userID"] != annID || r.Text("type") != "ext.cattle.io.selfuser" {
			t.Errorf("selfuser: %d %s", r.Status, r.Raw)
		}
		for _, kind := range []string{
			"userpreferences", "management.cattle.io.fleetworkspaces", "catalog.cattle.io.uiplugins", "catalog.cattle.io.clusterrepos", "cluster.x-k8s.io.machinedeployments",
			"rke.cattle.io.rkecontrolplanes", "ext.cattle.io.kubeconfigs",
		} {
			for _, token := range []string{ann, ben, b.Admin} {
				r := b.Request("GET", prefix+"/v1/"+kind, token, "")
				if r.Status != http.StatusOK || r.Text("resourceType") != strings.TrimSuffix(kind, "s") || kind != "userpreferences" && len(r.Data()) != 0 || kind == "userpreferences" && len(r.Data()) != 1 {
					t.Errorf("%s: %d %s", kind, r.Status, r.Raw)
				}
			}
			if r := b.Request("GET", prefix+"/v1/schemas/"+strings.TrimSuffix(kind, "s"), ann, ""); r.Status != http.StatusOK {
				t.Errorf("schema of %s: %d", kind, r.Status)
			}
		}
		if r := b.Request("GET", prefix+"/v1/namespaces", b.Admin, ""); r.Status != http.StatusOK || r.IDs() != "fleet-default" || r.Data()[0]["type"] != "namespace" {
			t.Errorf("namespaces: %d %s", r.Status, r.Raw)
		}
	}
	if r := b.Request("POST", "/v1/ext.cattle.io.selfuser", "", `{}`); r.Status != http.StatusUnauthorized {
		t.Errorf("nobody: %d", r.Status)
	}

	// The preferences of a user are those of /v3, in one object.
	if r := b.Request("POST", "/v3/preferences", ann, `{"name":"theme","value":"dark"}`); r.Status != http.StatusCreated {
		t.Fatal(r.Status)
	}
	mine := b.Request("GET", "/v1/userpreferences", ann, "").Data()[0]
	links, _ := mine["links"].(map[string]any)
	at, _ := links["update"].(string)
	data, _ := mine["data"].(map[string]any)
	if mine["id"] != annID || data["theme"] != "dark" || at == "" {
		t.Fatalf("%v", mine)
	}
	r := b.Request("PUT", apibed.Path(t, at), ann, `{"id":"`+annID+`","type":"userpreference","data":{"locale":"en-us","theme":"","after-login-route":"\"home\""}}`)
	if data, _ := r.Body["data"].(map[string]any); r.Status != 200 || data["locale"] != "en-us" || data["theme"] != nil || data["after-login-route"] != `"home"` {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	if r := b.Request("GET", "/v3/preferences/locale", ann, ""); r.Text("value") != "en-us" {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	if r := b.Request("PUT", apibed.Path(t, at), ann, `{"data":{"locale":"de-de","theme":""}}`); r.Status != 200 {
		t.Errorf("again: %d %s", r.Status, r.Raw)
	}
	for body, want := range map[string]int{`{"data":{"a/b":"c"}}`: 422, `{"data":{"a":"` + strings.Repeat("x", 33<<10) + `"}}`: 422, `{"data":[]}`: 422, `{`: 422} {
		if r := b.Request("PUT", apibed.Path(t, at), ann, body); r.Status != want {
			t.Errorf("%.40s: %d %s", body, r.Status, r.Raw)
		}
	}
	for _, method := range []string{"GET", "PUT"} {
		if r := b.Request(method, apibed.Path(t, at), ben, `{"data":{"locale":"x"}}`); r.Status != 404 {
			t.Errorf("%s of another's: %d %s", method, r.Status, r.Raw)
		}
	}
}

// TestTypesThatAreMadeOtherwise: clients find the types, try to make one, and are told the way.
func TestTypesThatAreMadeOtherwise(t *testing.T) {
	b := apibed.New(t)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	at := "/v3/projects/" + cl.ID + ":p-8lsr5/"
	for id, words := range map[string]string{
		"namespacedSecret": "as a secret of the project", "dockerCredential": "kubectl create secret docker-registry", "certificate": "kubectl create secret tls",
		"namespacedCertificate": "kubectl create secret tls", "namespacedDockerCredential": "kubectl create secret docker-registry",
	} {
		schema := b.Want(http.StatusOK, "GET", at+"schemas/"+id, "")
		links, _ := schema.Body["links"].(map[string]any)
		collection, _ := links["collection"].(string)
		if !strings.Contains(string(schema.Raw), `"POST"`) || collection == "" {
			t.Fatalf("%s", schema.Raw)
		}
		if r := b.Request("POST", apibed.Path(t, collection), b.Admin, `{"name":"x"}`); r.Status != 422 || !strings.Contains(r.Text("message"), words) {
			t.Errorf("%s: %d %s", id, r.Status, r.Raw)
		}
	}
}
