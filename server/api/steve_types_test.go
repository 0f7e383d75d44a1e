package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

// TestPeopleOverV1: users, roles, bindings, projects and settings are read and followed over /v1, by the same rights as elsewhere.
func TestPeopleOverV1(t *testing.T) {
	b := newBench(t)
	administrated(b)
	cl, _ := harbour(b)
	annID, ann := b.person("ann", "user-base")
	const of = "/v1/management.cattle.io."
	for _, c := range []struct {
		token, target string
		status        int
		says          string
	}{
		{b.admin, of + "users", 200, annID},
		{b.admin, of + "users/" + annID, 200, `"username":"ann"`},
		{b.admin, of + "roletemplates/cluster-owner", 200, `"context":"cluster"`},
		{b.admin, of + "globalroles", 200, `"id":"user-base"`},
		{b.admin, of + "projects/" + cl.ID, 200, `"displayName":"Default"`},
		{b.admin, of + "settings/ui-pl", 200, `"default":"drover"`},
		{b.admin, of + "users?filter=username=ann", 200, `"count":1`},
		{ann, of + "settings", 200, `"id":"server-url"`},
		{ann, of + "users", 404, ""},
		{ann, of + "globalrolebindings", 404, ""},
		{b.admin, "/v1/counts", 200, `"management.cattle.io.user":{"summary":{"count":`},
		{b.admin, "/v1/schemas/management.cattle.io.clusterroletemplatebinding", 200, `"namespaced":true`},
		{b.admin, "/k8s/clusters/local" + of + "users/" + annID, 200, annID},
	} {
		r := b.request("GET", c.target, c.token, "")
		if r.status != c.status || !strings.Contains(strings.ReplaceAll(string(r.raw), `": `, `":`), c.says) {
			t.Errorf("%s: %d, want %d and %s: %.400s", c.target, r.status, c.status, c.says, r.raw)
		}
	}
	if r := b.request("DELETE", of+"users/"+annID, b.admin, ""); r.status != http.StatusMethodNotAllowed {
		t.Errorf("removed over /v1: %d %s", r.status, r.raw)
	}

	server := serveBench(b)
	conn, _ := b.socket(server, "/v1/subscribe", b.admin)
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
	id := b.bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member","userId":%q}`, cl.ID, annID))
	slashed := strings.Replace(id, ":", "/", 1)
	if f := read(t, conn); f.Name != "resource.create" || f.Data["id"] != slashed || f.Data["roleTemplateName"] != "cluster-member" {
		t.Errorf("%+v", f)
	}
	hers, _ := b.socket(server, "/v1/subscribe", ann)
	watch(hers, "provisioning.cattle.io.clusters")
	b.want(http.StatusNoContent, "DELETE", "/v3/clusterroletemplatebindings/"+id, "")
	if f := read(t, conn); f.Name != "resource.remove" || f.Data["id"] != slashed {
		t.Errorf("%+v", f)
	}
	if f := read(t, hers); f.Name != "resource.remove" || f.Data["id"] != "fleet-default/harbour" || len(f.Data) != 2 {
		t.Errorf("what she may not see any more: %+v", f)
	}
}
