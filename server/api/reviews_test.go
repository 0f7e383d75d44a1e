package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestReviewsKnowNamespaces: kubectl auth can-i says yes where the request itself would be allowed.
func TestReviewsKnowNamespaces(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	apibed.Harbour(b)
	const cluster = "c-m-h4rb0r55"
	project := b.Get("/v3/projects?clusterId=" + cluster).Data()[0]["id"].(string)
	inside := strings.Replace(project, ":", "-", 1)
	in := func(name, body string) string {
		id, token := b.Person(name, "user-base")
		b.Bind(map[bool]string{true: "clusterroletemplatebindings", false: "projectroletemplatebindings"}[strings.Contains(body, "clusterId")], fmt.Sprintf(`{%s,"userId":%q}`, body, id))
		return token
	}
	owner := in("owner", `"clusterId":"`+cluster+`","roleTemplateId":"cluster-owner"`)
	member := in("member", `"clusterId":"`+cluster+`","roleTemplateId":"cluster-member"`)
	head := in("head", `"projectId":"`+project+`","roleTemplateId":"project-owner"`)
	for _, c := range []struct {
		who, token, verb, resource, namespace, name string
		want                                        bool
	}{
		{"owner", owner, "create", "clusterroletemplatebindings", cluster, "", true},
		{"owner", owner, "create", "clusterroletemplatebindings", "c-m-qqqqqqqq", "", false},
		{"owner", owner, "create", "clusterroletemplatebindings", "", "", false},
		{"owner", owner, "create", "projectroletemplatebindings", inside, "", true},
		{"owner", owner, "delete", "projects", cluster, "p-none1", true},
		{"member", member, "create", "projects", cluster, "", true},
		{"member", member, "create", "projects", cluster, "p-wish1", true},
		{"member", member, "create", "clusterroletemplatebindings", cluster, "", false},
		{"member", member, "get", "clusterroletemplatebindings", cluster, "", true},
		{"head", head, "create", "projectroletemplatebindings", inside, "", true},
		{"head", head, "create", "projectroletemplatebindings", cluster + "-p-other", "", false},
		{"head", head, "create", "projects", cluster, "", false},
		{"admin", b.Admin, "create", "clusterroletemplatebindings", "", "", true},
		{"bob", b.User, "create", "projects", cluster, "", false},
	} {
		body := fmt.Sprintf(`{"spec":{"resourceAttributes":{"verb":%q,"group":"management.cattle.io","resource":%q,"namespace":%q,"name":%q}}}`, c.verb, c.resource, c.namespace, c.name)
		r := b.Request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", c.token, body)
		if status, _ := r.Body["status"].(map[string]any); status["allowed"] != c.want {
			t.Errorf("%s %s %s %s/%s: %s", c.who, c.verb, c.resource, c.namespace, c.name, r.Raw)
		}
	}
	r := b.Request("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", member, `{"spec":{"namespace":"`+cluster+`"}}`)
	var rules struct {
		Status struct {
			ResourceRules []struct{ Verbs, Resources []string }
		}
	}
	if err := json.Unmarshal(r.Raw, &rules); err != nil {
		t.Fatal(err)
	}
	may := false
	for _, rule := range rules.Status.ResourceRules {
		may = may || slices.Contains(rule.Resources, "projects") && slices.Contains(rule.Verbs, "create")
	}
	if !may {
		t.Errorf("the list leaves out what is allowed in the namespace: %s", r.Raw)
	}

	// Who a user is in a cluster includes the groups of directories.
	if _, err := b.State.Users.Modify(t.Context(), "u-bob", func(u records.User) (records.User, error) {
		u.Groups = []string{"openldap_group://cn=ops"}
		return u, nil
	}); err != nil {
		t.Fatal(err)
	}
	if r := b.Request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", b.User, `{}`); !strings.Contains(string(r.Raw), `"groups":["openldap_group://cn=ops","system:authenticated","system:cattle:authenticated"]`) {
		t.Errorf("whoami: %s", r.Raw)
	}
}
