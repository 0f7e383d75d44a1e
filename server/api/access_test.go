package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestAccess asks each thing without a login, as a user without rights, with a token that is
// limited to a cluster, and as an administrator.
func TestAccess(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	limited := b.Token("user-admin", records.Token{ClusterID: "c-m-h4rb0r55"})
	const cluster, node = "/v3/clusters/c-m-h4rb0r55", "/v3/nodes/c-m-h4rb0r55:m-000000000001"
	doc := `{"apiVersion":"provisioning.cattle.io/v1","kind":"Cluster","metadata":{"name":"new"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{}}}`
	for _, c := range []struct {
		method, target, body string
		nobody, user, admin  int
	}{
		{"GET", "/", "", 200, 200, 200},
		{"GET", "/v3", "", 401, 200, 200},
		{"GET", "/v3/schemas", "", 401, 200, 200},
		{"GET", "/v3/nothing", "", 401, 404, 404},
		{"GET", "/v3/clusters", "", 401, 200, 200},
		{"GET", "/v3/clusters/", "", 401, 200, 200},
		{"GET", cluster, "", 401, 404, 200},
		{"GET", cluster + "/schemas", "", 401, 404, 200},
		{"GET", cluster + "/nodes", "", 401, 404, 200},
		{"GET", cluster + "/namespaces", "", 401, 404, 503},
		{"GET", cluster + "/nothing", "", 401, 404, 404},
		{"POST", "/v3/clusters", `{"name":"x"}`, 401, 403, 422},
		{"PATCH", cluster, `{}`, 401, 405, 405},
		{"PUT", cluster, `{"name":"harbour"}`, 401, 404, 200},
		{"POST", cluster + "?action=generateKubeconfig", "", 401, 404, 200},
		{"POST", cluster + "?action=explode", "", 401, 404, 404},
		{"POST", cluster, "", 401, 405, 405},
		{"GET", node, "", 401, 404, 200},
		{"GET", node + "/nodeconfig", "", 401, 404, 404},
		{"PUT", node, "{}", 401, 404, 422},
		{"DELETE", node, "", 401, 404, 200},
		{"GET", "/v3/clusterRegistrationTokens/c-m-h4rb0r55:default-token", "", 401, 404, 200},
		{"POST", "/v3/clusterregistrationtokens", `{"clusterId":"c-m-h4rb0r55"}`, 401, 403, 201},
		{"DELETE", "/v3/clusterregistrationtokens/c-m-h4rb0r55:default-token", "", 401, 404, 204},
		{"GET", "/v3/settings", "", 401, 200, 200},
		{"GET", "/v3/settings/server-url", "", 401, 200, 200},
		{"GET", "/v3/settings/cacerts", "", 200, 200, 200},
		{"GET", "/v3/settings/first-login", "", 200, 200, 200},
		{"GET", "/v3/settings/nothing", "", 401, 404, 404},
		{"PUT", "/v3/settings/ui-pl", `{"value":"x"}`, 401, 403, 200},
		{"PUT", "/v3/settings/cacerts", `{"value":"x"}`, 401, 403, 405},
		{"DELETE", "/v3/settings/ui-pl", "", 401, 405, 405},
		{"GET", "/v3/users", "", 401, 200, 200},
		{"GET", "/v3/users/user-admin", "", 401, 404, 200},
		{"GET", "/v3/users/u-bob", "", 401, 200, 200},
		{"POST", "/v3/users/u-bob?action=setpassword", `{"newPassword":"battery staple"}`, 401, 403, 200},
		{"POST", "/v3/users/user-admin?action=setpassword", `{"newPassword":"battery staple"}`, 401, 404, 200},
		{"POST", "/v3/users?action=nothing", "{}", 401, 404, 404},
		{"GET", "/v3/tokens", "", 401, 200, 200},
		{"GET", "/v3/tokens/token-admin", "", 401, 404, 200},
		{"GET", "/v3/tokens/token-boblo", "", 401, 200, 404}, // tokens are their owners', for every caller
		{"DELETE", "/v3/tokens/nothing", "", 401, 404, 404},
		{"POST", "/v3/tokens", `{}`, 401, 201, 201},
		{"GET", "/v1", "", 401, 200, 200},
		{"GET", "/v1/schemas", "", 401, 200, 200},
		{"GET", "/v1/provisioning.cattle.io.clusters", "", 401, 404, 200},
		{"GET", "/v1/provisioning.cattle.io.clusters/fleet-default/harbour", "", 401, 404, 200},
		{"GET", "/v1/cluster.x-k8s.io.machines", "", 401, 404, 200},
		{"POST", "/v1/cluster.x-k8s.io.machines", "{}", 401, 404, 405},
		{"DELETE", "/v1/management.cattle.io.clusters/c-m-h4rb0r55", "", 401, 404, 405},
		{"POST", "/v1/provisioning.cattle.io.clusters", doc, 401, 404, 201},
		{"GET", "/k8s/clusters/local/v1", "", 401, 200, 200},
		{"GET", "/k8s/clusters/local/v1/provisioning.cattle.io.clusters", "", 401, 404, 200},
		{"POST", "/v1-drover/apply", doc, 401, 403, 200},
		{"GET", "/v1-drover/apply", "", 401, 405, 405},
		{"GET", "/v1-drover/machines/fleet-default/custom-000000000001", "", 401, 404, 200},
		{"GET", "/v1-drover/machines/fleet-default/custom-000000000001/output", "", 401, 404, 503},
		{"GET", "/v1-drover/machines/fleet-default/custom-000000000001/status", "", 401, 404, 503},
		{"POST", "/v1-drover/machines/fleet-default/custom-000000000001/output", "{}", 401, 405, 405},
		{"GET", "/v1-drover/nothing", "", 401, 404, 404},
		{"GET", "/v3/subscribe", "", 401, 426, 426},
		{"GET", "/v1/subscribe", "", 401, 426, 426},
		{"GET", "/v3-public/authProviders", "", 200, 200, 200},
		{"GET", "/v1-public/authtokens/x", "", 404, 404, 404},
		{"GET", "/nothing", "", 404, 404, 404},
		{"DELETE", cluster, "", 401, 404, 200},
	} {
		t.Run(c.method+" "+c.target, func(t *testing.T) {
			asAdmin := c.admin
			if c.nobody == 200 || c.nobody == 404 { // no login is looked at
				asAdmin = c.admin
			}
			limitedWants := 401
			if c.nobody != 401 {
				limitedWants = c.nobody
			}
			for _, who := range []struct {
				name, token string
				want        int
			}{{"nobody", "", c.nobody}, {"bad token", "token-admin:x", c.nobody}, {"limited", limited, limitedWants}, {"user", b.User, c.user}, {"admin", b.Admin, asAdmin}} {
				r := b.Request(c.method, c.target, who.token, c.body)
				if r.Status != who.want {
					t.Errorf("%s: status %d, want %d: %s", who.name, r.Status, who.want, r.Raw)
				}
				if r.Status >= 400 && (r.Text("type") != "error" || r.Body["status"] != float64(r.Status) || r.Text("code") == "" || r.Text("message") == "") {
					t.Errorf("%s: body %s", who.name, r.Raw)
				}
				if r.Header.Get("Expires") != "Wed 24 Feb 1982 18:42:00 GMT" {
					t.Errorf("%s: no header Expires", who.name)
				}
				if who.name == "limited" && limitedWants == 401 && !strings.Contains(r.Text("message"), "limited to cluster c-m-h4rb0r55") {
					t.Errorf("message %q", r.Text("message"))
				}
			}
		})
	}
}

// TestLinksFollowRights: no user is shown what they may not do.
func TestLinksFollowRights(t *testing.T) {
	b := apibed.NewWith(t, apibed.Options{ServerURL: "https://drover.example", Environ: map[string]string{"CATTLE_UI_BRAND": "x"}})
	apibed.Harbour(b)
	for _, c := range []struct {
		name, target, token string
		update, remove      bool
		actions             string
	}{
		{"cluster", "/v3/clusters/c-m-h4rb0r55", b.Admin, true, true, "[generateKubeconfig]"},
		{"node", "/v3/nodes/c-m-h4rb0r55:m-000000000001", b.Admin, false, true, "[]"},
		{"project", "/v3/projects/" + apibed.BuiltIn("c-m-h4rb0r55").Default, b.Admin, false, false, "[]"},
		{"setting", "/v3/settings/ui-pl", b.Admin, true, false, "[]"},
		{"setting of the environment", "/v3/settings/ui-brand", b.Admin, false, false, "[]"},
		{"setting that is never written", "/v3/settings/cacerts", b.Admin, false, false, "[]"},
		{"setting seen by nobody", "/v3/settings/ui-pl", "", false, false, "[]"},
		{"setting seen by a user", "/v3/settings/ui-pl", b.User, false, false, "[]"},
		{"another user", "/v3/users/u-bob", b.Admin, true, true, "[setpassword]"},
		{"oneself", "/v3/users/u-bob", b.User, false, false, "[]"},
		{"own token", "/v3/tokens/token-boblo", b.User, true, true, "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.Request("GET", c.target, c.token, "")
			if r.Status != http.StatusOK || r.Has("links", "update") != c.update || r.Has("links", "remove") != c.remove {
				t.Errorf("status %d, links %v", r.Status, r.Body["links"])
			}
			names := []string{}
			actions, _ := r.Body["actions"].(map[string]any)
			for name := range actions {
				names = append(names, name)
			}
			if fmt.Sprint(names) != c.actions {
				t.Errorf("actions %v", names)
			}
		})
	}
	if r := b.Get("/v3/clusterregistrationtokens"); !r.Has("createTypes", "clusterRegistrationToken") {
		t.Error("an administrator is not offered to create")
	}
	r := b.Request("GET", "/v3/clusterregistrationtokens", b.User, "")
	if _, ok := r.Body["createTypes"]; ok || string(r.Raw[:1]) != "{" || r.IDs() != "" {
		t.Errorf("a user is offered to create: %s", r.Raw)
	}
	if r := b.Request("GET", "/v1/schemas", b.User, ""); r.IDs() != "management.cattle.io.setting secret management.cattle.io.token management.cattle.io.preference userpreference management.cattle.io.feature "+
		"management.cattle.io.fleetworkspace catalog.cattle.io.uiplugin catalog.cattle.io.clusterrepo cluster.x-k8s.io.machinedeployment rke.cattle.io.rkecontrolplane ext.cattle.io.kubeconfig" { // which everybody may read, of Secrets, tokens and preferences their own
		t.Errorf("a user sees types of /v1: %s", r.Raw)
	}
}

// TestNoSecrets looks for hashes and keys in everything that can be read, and in the log.
func TestNoSecrets(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	user, _ := b.State.Users.Get("user-admin")
	user.Value.PasswordHash = "c0ffee-password-hash"
	if _, err := b.State.Users.Update(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	stored, _ := b.State.Tokens.Get("token-admin")
	_, key, _ := strings.Cut(b.Admin, ":")
	b.Request("POST", "/v3-public/localProviders/local?action=login", "", `{"username":"admin","password":"hunter2 hunter2"}`)
	b.Request("POST", "/v3/users?action=changepassword", b.User, `{"currentPassword":"hunter2 hunter2","newPassword":"x"}`)
	b.Request("POST", "/v3/clusters/c-m-h4rb0r55?action=generateKubeconfig", b.Admin, "")
	secrets := []string{"c0ffee", stored.Value.KeyHash, key, "hunter2"}
	var all []string
	for _, target := range []string{
		"/v3", "/v3/clusters", "/v3/nodes", "/v3/projects", "/v3/settings", "/v3/tokens", "/v3/users", "/v3/clusterregistrationtokens",
		"/v1/provisioning.cattle.io.clusters", "/v1/management.cattle.io.clusters", "/v1/cluster.x-k8s.io.machines",
		"/v1-drover/machines/fleet-default/custom-0f31c2aa9d10",
	} {
		r := b.Want(http.StatusOK, "GET", target, "")
		all = append(all, string(r.Raw))
	}
	all = append(all, b.Logs.String())
	for _, secret := range secrets {
		if i := slices.IndexFunc(all, func(s string) bool { return strings.Contains(s, secret) }); i >= 0 {
			t.Errorf("%q is shown, in text %d of %d", secret, i, len(all))
		}
	}
	if token, _ := b.State.RegistrationTokens.Get("c-m-h4rb0r55/default-token"); strings.Contains(b.Logs.String(), token.Value.Token) {
		t.Error("a registration token is in the log")
	}
}
