package people_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/apibed"
)

// TestDirectoriesByTerraform plays rancher2_auth_config_*: the config by its id, its type, then the action or PUT, and what a second plan
// reads, which has to be what was sent. No secret comes back.
func TestDirectoriesByTerraform(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	read := func(kind string) map[string]any {
		t.Helper()
		r := b.Want(200, "GET", "/v3/authConfigs/"+kind, "")
		var got map[string]any
		if err := json.Unmarshal(r.Raw, &got); err != nil || strings.Contains(string(r.Raw), "mark-secret") {
			t.Fatalf("%v %s", err, r.Raw)
		}
		return got
	}
	const ldap = `"accessMode":"unrestricted","enabled":true,"servers":["ldap.pier.example"],"port":1636,"tls":true,"serviceAccountDistinguishedName":"cn=reader,dc=pier","serviceAccountPassword":"mark-secret","userSearchBase":"ou=people,dc=pier","groupSearchBase":"ou=groups,dc=pier","nestedGroupMembershipEnabled":true,"connectionTimeout":5000`
	for _, c := range []struct {
		kind, typ, method, path, body string
		sent                          map[string]any
	}{
		{"openldap", "openLdapConfig", "PUT", "", `{"type":"openLdapConfig","name":"openldap",` + ldap + `}`,
			map[string]any{"port": 1636.0, "tls": true, "serviceAccountDistinguishedName": "cn=reader,dc=pier", "userSearchBase": "ou=people,dc=pier", "nestedGroupMembershipEnabled": true}},
		{"activedirectory", "activeDirectoryConfig", "PUT", "", `{"enabled":true,"servers":["ad.pier.example"],"port":389,"starttls":true,"serviceAccountUsername":"PIER\\reader","serviceAccountPassword":"mark-secret","userSearchBase":"dc=pier"}`,
			map[string]any{"port": 389.0, "tls": false, "serviceAccountUsername": `PIER\reader`}},
		{"github", "githubConfig", "POST", "?action=testAndApply", `{"code":"c","enabled":true,"githubConfig":{"enabled":true,"accessMode":"unrestricted","clientId":"app-7","clientSecret":"mark-secret","hostname":"git.pier.example","tls":true}}`,
			map[string]any{"clientId": "app-7", "hostname": "git.pier.example", "tls": true}},
		{"genericoidc", "genericOIDCConfig", "PUT", "", `{"enabled":true,"clientId":"app-8","clientSecret":"mark-secret","issuer":"https://id.pier.example","rancherUrl":"https://drover.example/verify-auth","scope":"openid groups","groupsClaim":"roles"}`,
			map[string]any{"clientId": "app-8", "issuer": "https://id.pier.example", "rancherUrl": "https://drover.example/verify-auth", "scope": "openid groups", "groupsClaim": "roles"}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			before := read(c.kind)
			actions, _ := before["actions"].(map[string]any)
			if before["type"] != c.typ || before["enabled"] != false || actions["testAndApply"] == nil || actions["disable"] == nil {
				t.Fatalf("%v", before)
			}
			if r := b.Request(c.method, "/v3/authConfigs/"+c.kind+c.path, b.User, c.body); r.Status != 404 && r.Status != 403 {
				t.Errorf("by no administrator: %d %s", r.Status, r.Raw)
			}
			b.Want(200, c.method, "/v3/authConfigs/"+c.kind+c.path, c.body)
			got := read(c.kind)
			if got["enabled"] != true {
				t.Errorf("%v", got)
			}
			for field, want := range c.sent {
				if got[field] != want {
					t.Errorf("%s is %v, and was sent as %v", field, got[field], want)
				}
			}
			if r := b.Request("POST", "/v3/authConfigs/"+c.kind+"?action=disable", b.User, ""); r.Status != 404 && r.Status != 403 {
				t.Errorf("disabled by no administrator: %d %s", r.Status, r.Raw)
			}
			b.Want(200, "POST", "/v3/authConfigs/"+c.kind+"?action=disable", "")
			after := read(c.kind)
			for field, want := range c.sent {
				if after["enabled"] != false || after[field] != want {
					t.Errorf("disabled: %v", after)
				}
			}
		})
	}
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"two servers", "PUT", "openldap", `{"servers":["a","b"],"tls":true}`, 422, "one server"},
		{"without encryption", "PUT", "openldap", `{"servers":["a"],"tls":false}`, 422, "without encryption"},
		{"a field that nothing acts on", "PUT", "openldap", `{"servers":["a"],"tls":true,"userEnabledAttribute":"x"}`, 422, "userSearchFilter"},
		{"another callback", "PUT", "genericoidc", `{"rancherUrl":"https://other.example/verify-auth"}`, 422, "https://drover.example/verify-auth"},
		{"what drover's own documents refuse", "PUT", "genericoidc", `{"issuer":"http://id.example"}`, 422, "oidc.issuer"},
		{"another type", "PUT", "openldap", `{"servers":"mark-secret"}`, 422, "is not of the form"},
		{"the local one", "PUT", "local", `{}`, 405, "is not configured here"},
		{"a kind that is not served", "PUT", "azuread", `{}`, 404, "azuread"},
		{"a test without a person", "POST", "openldap?action=testAndApply", `{"ldapConfig":{` + ldap + `}}`, 422, "tried with it"},
		{"a test of nothing", "POST", "openldap?action=testAndApply", `{"username":"a"}`, 422, "ldapConfig"},
		{"a server that is not there", "POST", "openldap?action=testAndApply", `{"username":"ann","password":"mark-secret","ldapConfig":{"enabled":true,"servers":["localhost"],"port":9,"tls":true,"serviceAccountDistinguishedName":"cn=r","serviceAccountPassword":"mark-secret","userSearchBase":"dc=x"}}`, 503, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.Request(c.method, "/v3/authConfigs/"+c.path, b.Admin, c.body)
			if r.Status != c.status || !strings.Contains(string(r.Raw), c.says) || strings.Contains(string(r.Raw), "mark-secret") {
				t.Errorf("%d %s", r.Status, r.Raw)
			}
		})
	}
	if got := read("openldap"); got["enabled"] != false || got["userSearchBase"] != "ou=people,dc=pier" {
		t.Errorf("what failed its test was stored: %v", got)
	}
}
