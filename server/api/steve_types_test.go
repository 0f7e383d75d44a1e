package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestPeopleOverV1: users, roles, bindings, projects and settings are read and followed over /v1, by the same rights as elsewhere.
func TestPeopleOverV1(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, _ := apibed.Harbour(b)
	annID, ann := b.Person("ann", "user-base")
	const of = "/v1/management.cattle.io."
	for _, c := range []struct {
		token, target string
		status        int
		says          string
	}{
		{b.Admin, of + "users", 200, annID},
		{b.Admin, of + "users/" + annID, 200, `"username":"ann"`},
		{b.Admin, of + "roletemplates/cluster-owner", 200, `"context":"cluster"`},
		{b.Admin, of + "globalroles", 200, `"id":"user-base"`},
		{b.Admin, of + "projects/" + cl.ID, 200, `"displayName":"Default"`},
		{b.Admin, of + "settings/ui-pl", 200, `"default":"drover"`},
		{b.Admin, of + "users?filter=username=ann", 200, `"count":1`},
		{ann, of + "settings", 200, `"id":"server-url"`},
		{ann, of + "users", 404, ""},
		{ann, of + "globalrolebindings", 404, ""},
		{b.Admin, "/v1/counts", 200, `"management.cattle.io.user":{"summary":{"count":`},
		{b.Admin, "/v1/schemas/management.cattle.io.clusterroletemplatebinding", 200, `"namespaced":true`},
		{b.Admin, "/k8s/clusters/local" + of + "users/" + annID, 200, annID},
	} {
		r := b.Request("GET", c.target, c.token, "")
		if r.Status != c.status || !strings.Contains(strings.ReplaceAll(string(r.Raw), `": `, `":`), c.says) {
			t.Errorf("%s: %d, want %d and %s: %.400s", c.target, r.Status, c.status, c.says, r.Raw)
		}
	}
	if r := b.Request("DELETE", of+"users/"+annID, b.Admin, ""); r.Status != http.StatusMethodNotAllowed {
		t.Errorf("removed over /v1: %d %s", r.Status, r.Raw)
	}

	server := serveBench(b)
	conn, _ := socket(b, server, "/v1/subscribe", b.Admin)
	watch := func(conn *websocket.Conn, kind string) {
		t.Helper()
		if err := conn.WriteJSON(map[string]string{"resourceType": kind}); err != nil {
			t.Fatal(err)
		}
		if f := read(t, conn); f.Name != "resource.start" {
			t.Fatalf("%+v", f)
		}
	}
	watch(conn, "management.cattle.io.clusterroletemplatebindings")
	id := b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member","userId":%q}`, cl.ID, annID))
	slashed := strings.Replace(id, ":", "/", 1)
	if f := read(t, conn); f.Name != "resource.create" || f.Data["id"] != slashed || f.Data["roleTemplateName"] != "cluster-member" {
		t.Errorf("%+v", f)
	}
	hers, _ := socket(b, server, "/v1/subscribe", ann)
	watch(hers, "provisioning.cattle.io.clusters")
	b.Want(http.StatusNoContent, "DELETE", "/v3/clusterroletemplatebindings/"+id, "")
	if f := read(t, conn); f.Name != "resource.remove" || f.Data["id"] != slashed {
		t.Errorf("%+v", f)
	}
	if f := read(t, hers); f.Name != "resource.remove" || f.Data["id"] != "fleet-default/harbour" || len(f.Data) != 2 {
		t.Errorf("what she may not see any more: %+v", f)
	}
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member","userId":%q}`, cl.ID, annID))
	if f := read(t, hers); f.Name != "resource.create" || f.Data["id"] != "fleet-default/harbour" || f.Data["spec"] == nil {
		t.Errorf("what she sees again: %+v", f)
	}
}

// TestRecordsOverV1: nodes by who may see them, tokens and preferences by their owners, without keys; features by everybody.
func TestRecordsOverV1(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, machines := apibed.Harbour(b)
	annID, ann := b.Person("ann", "user-base")
	b.Want(http.StatusCreated, "POST", "/v3/preferences", `{"name":"theme","value":"dark"}`)
	if r := b.Request("POST", "/v3/preferences", ann, `{"name":"theme","value":"light"}`); r.Status != 201 {
		t.Fatalf("%s", r.Raw)
	}
	const of = "/v1/management.cattle.io."
	node := strings.Replace(k8sobjects.NodeID(machines[0]), ":", "/", 1)
	for _, c := range []struct {
		token, target string
		status        int
		says, not     string
	}{
		{b.Admin, of + "nodes", 200, `"id":"` + node + `"`, ""},
		{b.Admin, of + "nodes/" + node, 200, `"namespace":"` + cl.ID + `"`, ""},
		{b.Admin, of + "nodes/" + cl.ID, 200, `"count":9`, ""},
		{b.Admin, of + "nodes/" + cl.ID + "/m-00000000000f", 404, "", ""},
		{ann, of + "nodes", 404, "", node},
		{ann, of + "nodes/" + node, 404, "", ""},
		{ann, of + "tokens", 200, `"userId":"` + annID + `"`, "token-admin"},
		{ann, of + "tokens/token-admin", 404, "", ""},
		{b.Admin, of + "tokens/token-admin", 200, `"enabled":true`, "keyHash"},
		{ann, of + "preferences", 200, `"value":"light"`, "dark"},
		{b.Admin, of + "preferences", 200, `"value":"dark"`, "light"},
		{ann, of + "features/provisioningv2", 200, `"lockedValue":true`, ""},
		{ann, of + "features/none", 404, "", ""},
		{b.Admin, "/v1/counts", 200, `"management.cattle.io.node":{"summary":{"count":9`, ""},
		{ann, "/v1/schemas/management.cattle.io.preference", 200, `"namespaced":true`, ""},
	} {
		r := b.Request("GET", c.target, c.token, "")
		text := strings.ReplaceAll(string(r.Raw), `": `, `":`)
		if r.Status != c.status || !strings.Contains(text, c.says) || c.not != "" && strings.Contains(text, c.not) {
			t.Errorf("%s: %d, want %d and %s: %.600s", c.target, r.Status, c.status, c.says, r.Raw)
		}
	}

	server := serveBench(b)
	conn, _ := socket(b, server, "/v1/subscribe", b.Admin)
	for _, kind := range []string{"nodes", "tokens"} {
		if err := conn.WriteJSON(map[string]string{"resourceType": "management.cattle.io." + kind}); err != nil {
			t.Fatal(err)
		}
		if f := read(t, conn); f.Name != "resource.start" {
			t.Fatalf("%+v", f)
		}
	}
	added := b.AddMachine(cl, "00000000000e", func(*records.Machine) {})
	if f := read(t, conn); f.Name != "resource.create" || f.Data["id"] != strings.Replace(k8sobjects.NodeID(added), ":", "/", 1) {
		t.Errorf("a machine: %+v", f)
	}
	if err := b.State.Machines.Delete(t.Context(), added.Key(), 0); err != nil {
		t.Fatal(err)
	}
	if f := read(t, conn); f.Name != "resource.remove" || f.Data["id"] != strings.Replace(k8sobjects.NodeID(added), ":", "/", 1) {
		t.Errorf("a machine that is gone: %+v", f)
	}
	made := b.Want(http.StatusCreated, "POST", "/v3/tokens", `{"description":"ci"}`)
	if f := read(t, conn); f.Name != "resource.create" || f.Data["id"] != made.Text("id") || f.Data["description"] != "ci" || f.Data["token"] != nil {
		t.Errorf("a token: %+v", f)
	}
}
