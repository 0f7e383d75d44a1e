package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/test/apibed"
)

// TestSettingsForAdministrators walks all settings with a caller who may change settings and is no administrator: those
// that lead to more are refused by every API, for a new value and for the return to the default, with what is needed. The
// others are theirs.
func TestSettingsForAdministrators(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	_, manager := b.Person("mia", "user", "settings-manage")
	_, alike := b.Person("max", b.Want(http.StatusCreated, "POST", "/v3/globalroles",
		`{"name":"all settings","rules":[{"apiGroups":["management.cattle.io"],"resources":["settings"],"verbs":["*"]}]}`).Text("id"))
	_, second := b.Person("ada", "admin")
	const document = `{"apiVersion":"management.cattle.io/v3","kind":"Setting","metadata":{"name":%q},"value":%q}`
	surfaces := []struct {
		name string
		put  func(token, name, value string) apibed.Result
	}{
		{"/v3", func(token, name, value string) apibed.Result {
			return b.Request("PUT", "/v3/settings/"+name, token, fmt.Sprintf(`{"value":%q}`, value))
		}},
		{"/apis, update", func(token, name, value string) apibed.Result {
			return b.Request("PUT", "/apis/management.cattle.io/v3/settings/"+name, token, fmt.Sprintf(document, name, value))
		}},
		{"/apis, patch", func(token, name, value string) apibed.Result {
			return b.Request("PATCH", "/apis/management.cattle.io/v3/settings/"+name, token, fmt.Sprintf(`{"value":%q}`, value), "Content-Type", "application/merge-patch+json")
		}},
		{"/apis, apply", func(token, name, value string) apibed.Result {
			return b.Request("PATCH", "/apis/management.cattle.io/v3/settings/"+name+"?fieldManager=me&force=true", token, fmt.Sprintf(document, name, value), "Content-Type", "application/apply-patch+yaml")
		}},
		{"local cluster", func(token, name, value string) apibed.Result {
			return b.Request("PATCH", "/k8s/clusters/local/apis/management.cattle.io/v3/settings/"+name, token, fmt.Sprintf(`{"value":%q}`, value), "Content-Type", "application/merge-patch+json")
		}},
		{"page", func(token, name, value string) apibed.Result {
			return b.Do("set-setting/"+name, token, url.Values{"value": {value}})
		}},
		{"/v1", func(token, name, value string) apibed.Result {
			return b.Request("PUT", "/v1/management.cattle.io.settings/"+name, token, fmt.Sprintf(document, name, value))
		}},
	}
	refused := func(r apibed.Result) bool {
		return r.Status == http.StatusForbidden || r.Status == http.StatusMethodNotAllowed || r.Status == http.StatusNotFound
	}
	for _, s := range b.Settings.List() {
		before := b.Settings.Get(s.Name)
		if s.ReadOnly {
			continue
		}
		for _, surface := range surfaces {
			for _, value := range []string{"1", ""} {
				for who, token := range map[string]string{"settings-manage": manager, "a role of one's own": alike} {
					r := surface.put(token, s.Name, value)
					switch needs := settings.ForAdministrators(s.Name); {
					case needs && !refused(r):
						t.Errorf("%s by %s with %s: %d %s", s.Name, surface.name, who, r.Status, r.Raw)
					case needs && r.Status == http.StatusForbidden && surface.name != "page" && !strings.Contains(r.Text("message"), "only an administrator (global role admin) changes it"):
						t.Errorf("%s by %s: the refusal does not say what is needed: %s", s.Name, surface.name, r.Raw)
					case needs && b.Settings.Get(s.Name) != before:
						t.Errorf("%s by %s: it was changed", s.Name, surface.name)
					case !needs && surface.name != "/v1" && r.Status == http.StatusForbidden:
						t.Errorf("%s by %s with %s is refused: %s", s.Name, surface.name, who, r.Raw)
					}
				}
			}
			if r := surface.put(second, s.Name, ""); surface.name != "/v1" && refused(r) {
				t.Errorf("%s by %s: an administrator is refused: %d %s", s.Name, surface.name, r.Status, r.Raw)
			}
		}
	}
	// It is known from the object what can be done with it.
	for name, can := range map[string]bool{"agent-image": false, "ui-pl": true} {
		if r := b.Request("GET", "/v3/settings/"+name, manager, ""); r.Has("links", "update") != can {
			t.Errorf("%s: %s", name, r.Raw)
		}
		review := fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"group":"management.cattle.io","resource":"settings","verb":"update","name":%q}}}`, name)
		r := b.Request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", manager, review)
		if got := strings.Contains(string(r.Raw), `"allowed":true`); got != can {
			t.Errorf("%s: a review: %d %s", name, r.Status, r.Raw)
		}
	}
}

// TestDirectoriesForAdministrators: a directory of a user's own would make them administrator.
func TestDirectoriesForAdministrators(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	role := b.Want(http.StatusCreated, "POST", "/v3/globalroles", `{"name":"directories","rules":[{"apiGroups":["management.cattle.io"],"resources":["authconfigs"],"verbs":["*"]}]}`).Text("id")
	_, token := b.Person("dora", "user", role)
	for path, body := range map[string]string{"set": "kind: github\n", "github/remove": "", "github/test": "{}"} {
		r := b.Request("POST", "/v1-drover/directories/"+path, token, body)
		if r.Status == http.StatusNotFound && path != "set" {
			continue // none is there
		}
		if r.Status != http.StatusForbidden || !strings.Contains(r.Text("message"), "only an administrator (global role admin) changes it") {
			t.Errorf("%s: %d %s", path, r.Status, r.Raw)
		}
	}
	if r := b.Request("GET", "/v1-drover/directories", token, ""); r.Status != http.StatusOK {
		t.Errorf("to see them: %d %s", r.Status, r.Raw)
	}
}
