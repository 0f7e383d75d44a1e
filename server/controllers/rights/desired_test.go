package rights

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/server/roles"
)

const cluster, web, shop = "c-m-abcd2345", "c-m-abcd2345:p-web01", "c-m-abcd2345:p-sto01"

// snapshot has two projects and two people: u-ann01 and u-bob01.
func snapshot(bindings ...roles.Binding) Snapshot {
	own := map[string]roles.Role{
		"rt-child": {ID: "rt-child", Name: "child", Context: roles.Cluster, Inherits: []string{"nodes-view", "rt-child"},
			Rules: []roles.Rule{{APIGroups: []string{"Example.com", roles.Management}, Resources: []string{"Boats"}, Verbs: []string{"GET"}}}},
	}
	return Snapshot{
		Bindings: bindings,
		Find: func(kind roles.Kind, id string) (roles.Role, bool) {
			if r, ok := own[id]; ok && kind == roles.RoleTemplate {
				return r, true
			}
			return roles.Builtin(kind, id)
		},
		User: func(principal string) (string, bool) {
			id, ok := roles.LocalUserID(principal)
			return id, ok && slices.Contains([]string{"u-ann01", "u-bob01"}, id)
		},
		Namespaces: map[string]string{"web": web, "web-db": web, "store": shop, "loose": ""},
	}
}

func inCluster(id, role, user string) roles.Binding {
	return roles.Binding{ID: cluster + ":" + id, Role: role, ClusterID: cluster, Subject: roles.Subject{User: roles.LocalUser(user)}}
}

func inProject(id, role, user, project string) roles.Binding {
	b := inCluster(id, role, user)
	b.ID, b.ProjectID = project[strings.IndexByte(project, ':')+1:]+":"+id, project
	return b
}

// lines are the objects in short: roles with their rules, bindings with role, subject and owner.
func lines(o Objects) []string {
	var all []string
	for name, r := range o.ClusterRoles {
		for _, rule := range r.Rules {
			all = append(all, fmt.Sprintf("role %s: %v %v %v %v", name, rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames))
		}
	}
	for _, b := range o.Bindings {
		where := b.Namespace
		if where == "" {
			where = "cluster"
		}
		all = append(all, fmt.Sprintf("%s: %s %s is %s, for %s", where, b.Subjects[0].Kind, b.Subjects[0].Name, b.RoleRef.Name, b.Labels[OwnerLabel]))
	}
	slices.Sort(all)
	return all
}

func TestWhatBindingsComeTo(t *testing.T) {
	team := inCluster("crtb-team1", "nodes-view", "")
	team.Subject = roles.Subject{Group: "github_team://777"}
	nodesView := "role nodes-view: [get list watch] [] [nodes] []"
	for _, tc := range []struct {
		name    string
		binding []roles.Binding
		want    []string
	}{
		{"nobody has a role", nil, nil},
		{"an administrator", []roles.Binding{{ID: "grb-1", Role: "admin", Subject: roles.Subject{User: "local://u-ann01"}}}, []string{"cluster: User u-ann01 is cluster-admin, for grb-1"}},
		{"a global role that is not all", []roles.Binding{{ID: "grb-1", Role: "user", Subject: roles.Subject{User: "local://u-ann01"}}}, nil},
		{"an owner", []roles.Binding{inCluster("crtb-own01", "cluster-owner", "u-ann01")}, []string{
			"cluster: User u-ann01 is cluster-owner, for " + cluster + "_crtb-own01", "role cluster-owner: [*] [*] [*] []", "role cluster-owner: [*] [] [] []",
		}},
		{"a group", []roles.Binding{team}, []string{"cluster: Group github_team://777 is nodes-view, for " + cluster + "_crtb-team1", nodesView}},
		{"what is inherited, and rules of the server left out", []roles.Binding{inCluster("crtb-child", "rt-child", "u-bob01")}, []string{
			"cluster: User u-bob01 is nodes-view, for " + cluster + "_crtb-child", "cluster: User u-bob01 is rt-child, for " + cluster + "_crtb-child",
			nodesView, "role rt-child: [get] [Example.com] [boats] []",
		}},
		{"two bindings of one role to one person", []roles.Binding{inCluster("crtb-two", "nodes-view", "u-bob01"), inCluster("crtb-one", "nodes-view", "u-bob01")}, []string{
			"cluster: User u-bob01 is nodes-view, for " + cluster + "_crtb-one", nodesView,
		}},
		{"a user who is gone", []roles.Binding{inCluster("crtb-gone1", "cluster-owner", "u-gone1")}, nil},
		{"a role that is gone", []roles.Binding{inCluster("crtb-gone1", "rt-gone", "u-ann01")}, nil},
		{"a role of projects in a cluster", []roles.Binding{inCluster("crtb-odd01", "read-only", "u-ann01")}, nil},
		{"a project that has no namespace", []roles.Binding{inProject("prtb-empty", "workloads-view", "u-ann01", cluster+":p-new01")}, workloadsRole(t)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lines(Desired(snapshot(tc.binding...)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// workloadsRole are the rules of a role that nothing else is checked of here.
func workloadsRole(t *testing.T) []string {
	t.Helper()
	r, ok := roles.Builtin(roles.RoleTemplate, "workloads-view")
	if !ok {
		t.Fatal("there is no role workloads-view")
	}
	var all []string
	for _, rule := range r.Rules {
		all = append(all, fmt.Sprintf("role workloads-view: %v %v %v []", rule.Verbs, rule.APIGroups, rule.Resources))
	}
	slices.Sort(all)
	return all
}

func TestMembersOfAProject(t *testing.T) {
	bindings := func(o Objects) []string {
		return slices.DeleteFunc(lines(o), func(l string) bool { return strings.HasPrefix(l, "role ") && !strings.Contains(l, "[namespaces]") })
	}
	reader := Desired(snapshot(inProject("prtb-read1", "read-only", "u-ann01", web)))
	if diff := cmp.Diff([]string{
		"cluster: User u-ann01 is p-web01-namespaces-readonly, for p-web01_prtb-read1",
		"role p-web01-namespaces-readonly: [get] [] [namespaces] [web web-db]",
		"role read-only: [get list watch] [] [namespaces] []",
		"web-db: User u-ann01 is read-only, for p-web01_prtb-read1", "web-db: User u-ann01 is view, for p-web01_prtb-read1",
		"web: User u-ann01 is read-only, for p-web01_prtb-read1", "web: User u-ann01 is view, for p-web01_prtb-read1",
	}, bindings(reader)); diff != "" {
		t.Error(diff)
	}
	owner := bindings(Desired(snapshot(inProject("prtb-own01", "project-owner", "u-bob01", shop))))
	for _, want := range []string{
		"cluster: User u-bob01 is create-ns, for p-sto01_prtb-own01", "cluster: User u-bob01 is p-sto01-namespaces-edit, for p-sto01_prtb-own01",
		"role p-sto01-namespaces-edit: [*] [] [namespaces] [store]", "role create-ns: [create] [] [namespaces] []", "store: User u-bob01 is admin, for p-sto01_prtb-own01",
	} {
		if !slices.Contains(owner, want) {
			t.Errorf("an owner lacks %q of %q", want, owner)
		}
	}
	if slices.ContainsFunc(owner, func(l string) bool { return strings.HasPrefix(l, "web") }) {
		t.Errorf("the owner of one project has something in another: %q", owner)
	}
}

// TestWhatIsInNoNamespace: of the rules of a role of projects those that let a user read what claims and pods need hold in the whole
// cluster, and nothing else does.
func TestWhatIsInNoNamespace(t *testing.T) {
	rule := func(group, resources, verbs string, names ...string) roles.Rule {
		return roles.Rule{APIGroups: []string{group}, Resources: strings.Fields(resources), Verbs: strings.Fields(verbs), ResourceNames: names}
	}
	own := map[string]roles.Role{
		"rt-plain":  {ID: "rt-plain", Context: roles.Project, Rules: []roles.Rule{rule("", "pods", "*")}},
		"rt-nodes":  {ID: "rt-nodes", Context: roles.Project, Rules: []roles.Rule{rule("", "Nodes pods", "GET list delete"), rule("apps", "deployments", "*")}},
		"rt-child":  {ID: "rt-child", Context: roles.Project, Inherits: []string{"rt-nodes"}, Rules: []roles.Rule{rule("storage.k8s.io", "storageclasses", "get", "fast")}},
		"rt-writes": {ID: "rt-writes", Context: roles.Project, Rules: []roles.Rule{rule("", "persistentvolumes", "create update delete")}},
		"rt-all":    {ID: "rt-all", Context: roles.Project, Rules: []roles.Rule{rule("*", "*", "*")}},
		"rt-wide":   {ID: "rt-wide", Context: roles.Cluster, Rules: []roles.Rule{rule("", "nodes", "get")}},
	}
	member := []string{
		"cluster: User u-ann01 is project-member-promoted, for p-web01_prtb-a", "role project-member-promoted: [get list watch] [] [persistentvolumes] []",
		"role project-member-promoted: [get list watch] [storage.k8s.io] [storageclasses] []",
	}
	for _, tc := range []struct {
		role string
		want []string
	}{
		{"rt-plain", nil},
		{"rt-writes", nil},
		{"rt-nodes", []string{"cluster: User u-ann01 is rt-nodes-promoted, for p-web01_prtb-a", "role rt-nodes-promoted: [get list] [] [nodes] []"}},
		{"rt-child", []string{
			"cluster: User u-ann01 is rt-child-promoted, for p-web01_prtb-a", "cluster: User u-ann01 is rt-nodes-promoted, for p-web01_prtb-a",
			"role rt-child-promoted: [get] [storage.k8s.io] [storageclasses] [fast]", "role rt-nodes-promoted: [get list] [] [nodes] []",
		}},
		{"rt-all", []string{
			"cluster: User u-ann01 is rt-all-promoted, for p-web01_prtb-a", "role rt-all-promoted: [get list watch] [] [nodes] []", "role rt-all-promoted: [get list watch] [] [persistentvolumes] []",
			"role rt-all-promoted: [get list watch] [apiregistration.k8s.io] [apiservices] []", "role rt-all-promoted: [get list watch] [networking.k8s.io] [ingressclasses] []",
			"role rt-all-promoted: [get list watch] [node.k8s.io] [runtimeclasses] []", "role rt-all-promoted: [get list watch] [scheduling.k8s.io] [priorityclasses] []",
			"role rt-all-promoted: [get list watch] [storage.k8s.io] [storageclasses] []",
		}},
		{"project-member", member},
		{"read-only", nil},
	} {
		t.Run(tc.role, func(t *testing.T) {
			s := snapshot(inProject("prtb-a", tc.role, "u-ann01", web))
			s.Find = func(kind roles.Kind, id string) (roles.Role, bool) {
				if r, ok := own[id]; ok {
					return r, true
				}
				return roles.Builtin(kind, id)
			}
			got := slices.DeleteFunc(lines(Desired(s)), func(l string) bool { return !strings.Contains(l, "-promoted") })
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	s := snapshot(inCluster("crtb-a", "rt-wide", "u-ann01"))
	s.Find = func(roles.Kind, string) (roles.Role, bool) { return own["rt-wide"], true }
	if got := lines(Desired(s)); len(got) != 2 {
		t.Errorf("a role of a cluster, which holds in all of it: %q", got)
	}
}

// TestNames holds names that clusters of Rancher have.
func TestNames(t *testing.T) {
	bob := rbacv1.Subject{Kind: rbacv1.UserKind, Name: "u-bob01"}
	for want, got := range map[string]string{
		"crb-dzaxnipqpj": "crb-" + short("", "cluster-member", bob),
		"rb-ei2rc2eheo":  "rb-" + short("web", "project-member", bob),
		"rb-26lfjvhbp3":  "rb-" + short("web", "edit", bob),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	o := Desired(snapshot(inCluster("crtb-m", "cluster-member", "u-bob01")))
	if names := slices.Collect(maps.Keys(o.Bindings)); !slices.Equal(names, []types.NamespacedName{{Name: "crb-dzaxnipqpj"}}) {
		t.Errorf("bindings %v", names)
	}
}
