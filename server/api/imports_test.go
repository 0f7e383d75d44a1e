package api

import (
	"strings"
	"testing"
)

// TestAClusterIsImportedOverV3, as the rancher command line and Terraform do it.
func TestAClusterIsImportedOverV3(t *testing.T) {
	b := newBench(t)
	made := b.request("POST", "/v3/clusters", b.admin, `{"name":"office","description":"of the office"}`)
	id := made.text("id")
	if made.status != 201 || !strings.HasPrefix(id, "c-") || strings.HasPrefix(id, "c-m-") || made.text("driver") != "" || made.text("state") != "pending" || made.text("description") != "of the office" {
		t.Fatalf("%d %s", made.status, made.raw)
	}
	token := b.get("/v3/clusterregistrationtokens/" + id + ":default-token")
	manifest := token.text("manifestUrl")
	if !strings.HasSuffix(manifest, "/v3/import/"+token.text("token")+"_"+id+".yaml") || token.text("command") != "kubectl apply -f "+manifest ||
		token.text("insecureCommand") != "curl --insecure -sfL "+manifest+" | kubectl apply -f -" || token.text("nodeCommand") == "" {
		t.Errorf("token: %s", token.raw)
	}
	if again := b.get("/v3/clusterregistrationtokens/" + id + ":default-token"); again.text("command") != token.text("command") {
		t.Error("the command is another one the second time")
	}
	for body, code := range map[string]string{
		`{"name":"office"}`: "NotUnique", `{}`: "MissingRequired", `{"name":"other","rke2Config":{}}`: "InvalidOption",
	} {
		if r := b.request("POST", "/v3/clusters", b.admin, body); r.status != 422 || r.text("code") != code {
			t.Errorf("%s: %d %s", body, r.status, r.raw)
		}
	}
	if join := b.get("/v1-drover/clusters/fleet-default/office/join"); !strings.Contains(join.text("command"), "kubectl apply -f") || !strings.Contains(join.text("command"), manifest) {
		t.Errorf("join: %s", join.raw)
	}
	if r := b.request("POST", "/v1-drover/clusters/fleet-default/office/agent/forget", b.admin, ""); r.status != 200 {
		t.Errorf("forget: %d %s", r.status, r.raw)
	}
	if r := b.request("DELETE", "/v3/clusters/"+id, b.admin, ""); r.status != 200 && r.status != 204 {
		t.Errorf("remove: %d %s", r.status, r.raw)
	}
}
