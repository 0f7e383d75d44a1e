package api

import (
	"net/http"
	"strings"
	"testing"
)

// TestFirstRequestsOfTheDashboard: what Rancher's own dashboard asks for after a login is answered, to everybody alike.
func TestFirstRequestsOfTheDashboard(t *testing.T) {
	b := newBench(t)
	administrated(b)
	harbour(b)
	annID, ann := b.person("ann", "user")
	_, ben := b.person("ben", "user-base")
	for _, prefix := range []string{"", "/k8s/clusters/local"} {
		r := b.request("POST", prefix+"/v1/ext.cattle.io.selfuser", ann, `{}`)
		status, _ := r.body["status"].(map[string]any)
		if r.status != http.StatusCreated || status["userID"] != annID || r.text("type") != "ext.cattle.io.selfuser" {
			t.Errorf("selfuser: %d %s", r.status, r.raw)
		}
		for _, kind := range []string{
			"userpreferences", "management.cattle.io.fleetworkspaces", "catalog.cattle.io.uiplugins", "catalog.cattle.io.clusterrepos", "cluster.x-k8s.io.machinedeployments",
			"rke.cattle.io.rkecontrolplanes", "ext.cattle.io.kubeconfigs",
		} {
			for _, token := range []string{ann, ben, b.admin} {
				r := b.request("GET", prefix+"/v1/"+kind, token, "")
				if r.status != http.StatusOK || r.text("resourceType") != strings.TrimSuffix(kind, "s") || kind != "userpreferences" && len(r.data()) != 0 || kind == "userpreferences" && len(r.data()) != 1 {
					t.Errorf("%s: %d %s", kind, r.status, r.raw)
				}
			}
			if r := b.request("GET", prefix+"/v1/schemas/"+strings.TrimSuffix(kind, "s"), ann, ""); r.status != http.StatusOK {
				t.Errorf("schema of %s: %d", kind, r.status)
			}
		}
		if r := b.request("GET", prefix+"/v1/namespaces", b.admin, ""); r.status != http.StatusOK || r.ids() != "fleet-default" || r.data()[0]["type"] != "namespace" {
			t.Errorf("namespaces: %d %s", r.status, r.raw)
		}
	}
	if r := b.request("POST", "/v1/ext.cattle.io.selfuser", "", `{}`); r.status != http.StatusUnauthorized {
		t.Errorf("nobody: %d", r.status)
	}

	// The preferences of a user are those of /v3, in one object.
	if r := b.request("POST", "/v3/preferences", ann, `{"name":"theme","value":"dark"}`); r.status != http.StatusCreated {
		t.Fatal(r.status)
	}
	mine := b.request("GET", "/v1/userpreferences", ann, "").data()[0]
	links, _ := mine["links"].(map[string]any)
	at, _ := links["update"].(string)
	data, _ := mine["data"].(map[string]any)
	if mine["id"] != annID || data["theme"] != "dark" || at == "" {
		t.Fatalf("%v", mine)
	}
	r := b.request("PUT", path(t, at), ann, `{"id":"`+annID+`","type":"userpreference","data":{"locale":"en-us","theme":"","after-login-route":"\"home\""}}`)
	if data, _ := r.body["data"].(map[string]any); r.status != 200 || data["locale"] != "en-us" || data["theme"] != nil || data["after-login-route"] != `"home"` {
		t.Errorf("%d %s", r.status, r.raw)
	}
	if r := b.request("GET", "/v3/preferences/locale", ann, ""); r.text("value") != "en-us" {
		t.Errorf("%d %s", r.status, r.raw)
	}
	if r := b.request("PUT", path(t, at), ann, `{"data":{"locale":"de-de","theme":""}}`); r.status != 200 {
		t.Errorf("again: %d %s", r.status, r.raw)
	}
	for body, want := range map[string]int{`{"data":{"a/b":"c"}}`: 422, `{"data":{"a":"` + strings.Repeat("x", 33<<10) + `"}}`: 422, `{"data":[]}`: 422, `{`: 422} {
		if r := b.request("PUT", path(t, at), ann, body); r.status != want {
			t.Errorf("%.40s: %d %s", body, r.status, r.raw)
		}
	}
	for _, method := range []string{"GET", "PUT"} {
		if r := b.request(method, path(t, at), ben, `{"data":{"locale":"x"}}`); r.status != 404 {
			t.Errorf("%s of another's: %d %s", method, r.status, r.raw)
		}
	}
}

// TestTypesThatAreMadeOtherwise: clients find the types, try to make one, and are told the way.
func TestTypesThatAreMadeOtherwise(t *testing.T) {
	b := newBench(t)
	cl := b.addCluster("harbour", "c-m-h4rb0r55", active)
	at := "/v3/projects/" + cl.ID + ":p-8lsr5/"
	for id, words := range map[string]string{
		"namespacedSecret": "as a secret of the project", "dockerCredential": "kubectl create secret docker-registry", "certificate": "kubectl create secret tls",
		"namespacedCertificate": "kubectl create secret tls", "namespacedDockerCredential": "kubectl create secret docker-registry",
	} {
		schema := b.want(http.StatusOK, "GET", at+"schemas/"+id, "")
		links, _ := schema.body["links"].(map[string]any)
		collection, _ := links["collection"].(string)
		if !strings.Contains(string(schema.raw), `"POST"`) || collection == "" {
			t.Fatalf("%s", schema.raw)
		}
		if r := b.request("POST", path(t, collection), b.admin, `{"name":"x"}`); r.status != 422 || !strings.Contains(r.text("message"), words) {
			t.Errorf("%s: %d %s", id, r.status, r.raw)
		}
	}
}
