package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/settings"
)

// TestSettingsForAdministrators walks all settings with a caller who may change settings and is no administrator: those
// that lead to more are refused by every API, for a new value and for the return to the default, with what is needed. The
// others are theirs.
func TestSettingsForAdministrators(t *testing.T) {
	b := newBench(t)
	administrated(b)
	_, manager := b.person("mia", "user", "settings-manage")
	_, alike := b.person("max", b.want(http.StatusCreated, "POST", "/v3/globalroles",
		`{"name":"all settings","rules":[{"apiGroups":["management.cattle.io"],"resources":["settings"],"verbs":["*"]}]}`).text("id"))
	_, second := b.person("ada", "admin")
	const document = `{"apiVersion":"management.cattle.io/v3","kind":"Setting","metadata":{"name":%q},"value":%q}`
	surfaces := []struct {
		name string
		put  func(token, name, value string) result
	}{
		{"/v3", func(token, name, value string) result {
			return b.request("PUT", "/v3/settings/"+name, token, fmt.Sprintf(`{"value":%q}`, value))
		}},
		{"/apis, update", func(token, name, value string) result {
			return b.request("PUT", "/apis/management.cattle.io/v3/settings/"+name, token, fmt.Sprintf(document, name, value))
		}},
		{"/apis, patch", func(token, name, value string) result {
			return b.request("PATCH", "/apis/management.cattle.io/v3/settings/"+name, token, fmt.Sprintf(`{"value":%q}`, value), "Content-Type", "application/merge-patch+json")
		}},
		{"/apis, apply", func(token, name, value string) result {
			return b.request("PATCH", "/apis/management.cattle.io/v3/settings/"+name+"?fieldManager=me&force=true", token, fmt.Sprintf(document, name, value), "Content-Type", "application/apply-patch+yaml")
		}},
		{"local cluster", func(token, name, value string) result {
			return b.request("PATCH", "/k8s/clusters/local/apis/management.cattle.io/v3/settings/"+name, token, fmt.Sprintf(`{"value":%q}`, value), "Content-Type", "application/merge-patch+json")
		}},
		{"page", func(token, name, value string) result {
			return b.do("set-setting/"+name, token, url.Values{"value": {value}})
		}},
		{"/v1", func(token, name, value string) result {
			return b.request("PUT", "/v1/management.cattle.io.settings/"+name, token, fmt.Sprintf(document, name, value))
		}},
	}
	refused := func(r result) bool {
		return r.status == http.StatusForbidden || r.status == http.StatusMethodNotAllowed || r.status == http.StatusNotFound
	}
	for _, s := range b.set.List() {
		before := b.set.Get(s.Name)
		if s.ReadOnly {
			continue
		}
		for _, surface := range surfaces {
			for _, value := range []string{"1", ""} {
				for who, token := range map[string]string{"settings-manage": manager, "a role of one's own": alike} {
					r := surface.put(token, s.Name, value)
					switch needs := settings.ForAdministrators(s.Name); {
					case needs && !refused(r):
						t.Errorf("%s by %s with %s: %d %s", s.Name, surface.name, who, r.status, r.raw)
					case needs && r.status == http.StatusForbidden && surface.name != "page" && !strings.Contains(r.text("message"), "only an administrator (global role admin) changes it"):
						t.Errorf("%s by %s: the refusal does not say what is needed: %s", s.Name, surface.name, r.raw)
					case needs && b.set.Get(s.Name) != before:
						t.Errorf("%s by %s: it was changed", s.Name, surface.name)
					case !needs && surface.name != "/v1" && r.status == http.StatusForbidden:
						t.Errorf("%s by %s with %s is refused: %s", s.Name, surface.name, who, r.raw)
					}
				}
			}
			if r := surface.put(second, s.Name, ""); surface.name != "/v1" && refused(r) {
				t.Errorf("%s by %s: an administrator is refused: %d %s", s.Name, surface.name, r.status, r.raw)
			}
		}
	}
	// It is known from the object what can be done with it.
	for name, can := range map[string]bool{"agent-image": false, "ui-pl": true} {
		if r := b.request("GET", "/v3/settings/"+name, manager, ""); r.has("links", "update") != can {
			t.Errorf("%s: %s", name, r.raw)
		}
		review := fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"group":"management.cattle.io","resource":"settings","verb":"update","name":%q}}}`, name)
		r := b.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", manager, review)
		if got := strings.Contains(string(r.raw), `"allowed":true`); got != can {
			t.Errorf("%s: a review: %d %s", name, r.status, r.raw)
		}
	}
}

// TestDirectoriesForAdministrators: a directory of a user's own would make them administrator.
func TestDirectoriesForAdministrators(t *testing.T) {
	b := newBench(t)
	administrated(b)
	role := b.want(http.StatusCreated, "POST", "/v3/globalroles", `{"name":"directories","rules":[{"apiGroups":["management.cattle.io"],"resources":["authconfigs"],"verbs":["*"]}]}`).text("id")
	_, token := b.person("dora", "user", role)
	for path, body := range map[string]string{"set": "kind: github\n", "github/remove": "", "github/test": "{}"} {
		r := b.request("POST", "/v1-drover/directories/"+path, token, body)
		if r.status == http.StatusNotFound && path != "set" {
			continue // none is there
		}
		if r.status != http.StatusForbidden || !strings.Contains(r.text("message"), "only an administrator (global role admin) changes it") {
			t.Errorf("%s: %d %s", path, r.status, r.raw)
		}
	}
	if r := b.request("GET", "/v1-drover/directories", token, ""); r.status != http.StatusOK {
		t.Errorf("to see them: %d %s", r.status, r.raw)
	}
}
