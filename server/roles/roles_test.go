package roles

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// made is a lookup of the built-in roles and of role templates that a user made.
func made(own ...Role) Lookup {
	return func(kind Kind, id string) (Role, bool) {
		for _, r := range own {
			if r.ID == id && KindOf(r.Context) == kind {
				return r, true
			}
		}
		return Builtin(kind, id)
	}
}

func TestAllows(t *testing.T) {
	rules := []Rule{
		on(Management, read, "nodes"),
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: []string{"mine"}},
		{APIGroups: []string{"apps"}, Resources: []string{"*/status"}, Verbs: []string{"*"}},
	}
	for _, c := range []struct {
		name string
		q    Request
		want bool
	}{
		{"a verb of a resource", Request{Management, "nodes", "get", "n"}, true},
		{"another verb", Request{Management, "nodes", "delete", "n"}, false},
		{"another resource", Request{Management, "nodepools", "get", "n"}, false},
		{"another group", Request{"", "nodes", "get", "n"}, false},
		{"a part of it", Request{Management, "nodes/log", "get", "n"}, false},
		{"an object by name", Request{"", "secrets", "get", "mine"}, true},
		{"an object of another name", Request{"", "secrets", "get", "yours"}, false},
		{"no object in particular", Request{"", "secrets", "get", ""}, false},
		{"that part of anything", Request{"apps", "deployments/status", "patch", "d"}, true},
		{"the thing itself", Request{"apps", "deployments", "patch", "d"}, false},
	} {
		if got := Allows(rules, c.q); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestCovers(t *testing.T) {
	reads := []Rule{on(Management, read, "nodes", "projects")}
	for _, c := range []struct {
		name       string
		have, want []Rule
		ok         bool
	}{
		{"nothing is covered by nothing", nil, nil, true},
		{"something is not", nil, reads, false},
		{"the same", reads, reads, true},
		{"less", reads, []Rule{on(Management, "get", "nodes")}, true},
		{"one verb more", reads, []Rule{on(Management, "get delete", "nodes")}, false},
		{"one resource more", reads, []Rule{on(Management, "get", "nodes", "users")}, false},
		{"all verbs are more than those there are", reads, []Rule{on(Management, "*", "nodes")}, false},
		{"all resources are more", reads, []Rule{on(Management, "get", "*")}, false},
		{"in two rules", []Rule{on("a", "get", "x"), on("a", "get", "y")}, []Rule{on("a", "get", "x", "y")}, true},
		{"everything", everything(), append(everything(), reads...), true},
		{"all is more than much", []Rule{on("*", "*", "pods")}, everything(), false},
		{
			"names are less than all", []Rule{on("", "get", "secrets")},
			[]Rule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: []string{"a"}}}, true,
		},
		{
			"all are more than names",
			[]Rule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: []string{"a"}}},
			[]Rule{on("", "get", "secrets")}, false,
		},
		{"a path below", []Rule{{NonResourceURLs: []string{"/healthz/*"}, Verbs: []string{"get"}}}, []Rule{{NonResourceURLs: []string{"/healthz/etcd"}, Verbs: []string{"get"}}}, true},
		{"a path beside", []Rule{{NonResourceURLs: []string{"/healthz/*"}, Verbs: []string{"get"}}}, []Rule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}, false},
		{"resources do not allow paths", []Rule{on("*", "*", "*")}, []Rule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}, false},
	} {
		if missing, ok := Covers(c.have, c.want); ok != c.ok || !ok && missing.singles() == 0 {
			t.Errorf("%s: %v, missing %+v", c.name, ok, missing)
		}
	}
}

func TestGrantsHoldWhereTheBindingSays(t *testing.T) {
	anna := Subject{User: LocalUser("u-anna")}
	g := Of([]Binding{
		{Role: "user", Subject: anna},
		{Role: "cluster-owner", Subject: anna, ClusterID: "c-1"},
		{Role: "project-member", Subject: anna, ClusterID: "c-2", ProjectID: "c-2:p-1"},
		{Role: "gone", Subject: anna, ClusterID: "c-3"},
		{Role: "project-owner", Subject: anna, ClusterID: "c-4"}, // of another context
		{Role: "cluster-owner", Subject: anna},                   // the same
	}, made())
	for _, c := range []struct {
		name string
		q    Request
		at   Place
		want bool
	}{
		{"create clusters", Request{Management, "clusters", "create", ""}, Place{}, true},
		{"see any cluster", Request{Management, "clusters", "get", ""}, Place{}, false},
		{"the owner deletes it", Request{Management, "clusters", "delete", "c-1"}, Place{Cluster: "c-1"}, true},
		{"but no other", Request{Management, "clusters", "delete", "c-2"}, Place{Cluster: "c-2"}, false},
		{"a member of a project sees its cluster", Request{Management, "clusters", "get", "c-2"}, Place{Cluster: "c-2"}, true},
		{"and nothing else of it", Request{Management, "nodes", "get", "n"}, Place{Cluster: "c-2"}, false},
		{"the project", Request{Management, "projects", "get", "p-1"}, Place{"c-2", "c-2:p-1"}, true},
		{"another project", Request{Management, "projects", "get", "p-2"}, Place{"c-2", "c-2:p-2"}, false},
		{"a role that is gone gives nothing", Request{Management, "clusters", "get", "c-3"}, Place{Cluster: "c-3"}, false},
		{"a role of a project in a cluster gives nothing", Request{Management, "clusters", "get", "c-4"}, Place{Cluster: "c-4"}, false},
		{"a role template gives nothing at the server", Request{Management, "users", "get", "u"}, Place{}, false},
	} {
		if got := g.Allow(c.q, c.at); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	nodes := Request{Management, "nodes", "get", ""}
	if !g.Somewhere(nodes, Cluster) || g.Somewhere(nodes, Global) || (*Grants)(nil).Somewhere(nodes, Project) {
		t.Error("where nodes are seen is wrong")
	}
	if g.Everything() || !Of([]Binding{{Role: "admin"}}, made()).Everything() {
		t.Error("who may do everything is wrong")
	}
}

func TestGive(t *testing.T) {
	of := func(all ...Binding) *Grants { return Of(all, made()) }
	rules := func(kind Kind, id string) []Rule { r, _ := Builtin(kind, id); return r.Rules }
	owner := of(Binding{Role: "cluster-owner", ClusterID: "c-1"})
	project := of(Binding{Role: "project-owner", ClusterID: "c-1", ProjectID: "c-1:p-1"})
	at, in := Place{Cluster: "c-1"}, Place{Cluster: "c-1", Project: "c-1:p-1"}
	for _, c := range []struct {
		name  string
		g     *Grants
		rules []Rule
		at    Place
		want  bool
	}{
		{"an administrator gives anything", of(Binding{Role: "admin"}), everything(), at, true},
		{"the owner of a cluster makes another", owner, rules(RoleTemplate, "cluster-owner"), at, true},
		{"not in another cluster", owner, rules(RoleTemplate, "cluster-member"), Place{Cluster: "c-2"}, false},
		{"not at the server", owner, rules(GlobalRole, "user"), Place{}, false},
		{"in a project of the cluster", owner, rules(RoleTemplate, "project-owner"), in, true},
		{"the owner of a project", project, rules(RoleTemplate, "project-member"), in, true},
		{"and who reads it", project, rules(RoleTemplate, "read-only"), in, true},
		{"and who has a part of it", project, rules(RoleTemplate, "secrets-manage"), in, true},
		{"not in its cluster", project, rules(RoleTemplate, "nodes-view"), at, false},
		{"a member gives no ownership", of(Binding{Role: "project-member", ClusterID: "c-1", ProjectID: "c-1:p-1"}), rules(RoleTemplate, "project-owner"), in, false},
		{"a manager of users gives no administration", of(Binding{Role: "users-manage"}), rules(GlobalRole, "admin"), Place{}, false},
		{"rules of the server are not those inside a cluster", of(Binding{Role: "users-manage"}), []Rule{on(Management, "get", "users")}, at, false},
		{"nobody gives nothing", nil, nil, at, true},
		{"nobody gives something", nil, rules(RoleTemplate, "read-only"), in, false},
	} {
		if missing, ok := c.g.Give(c.rules, c.at); ok != c.want {
			t.Errorf("%s: %v, missing %+v", c.name, ok, missing)
		}
	}
	if !of(Binding{Role: "admin"}).Contain(owner) || owner.Contain(of(Binding{Role: "admin"})) || !owner.Contain(project) || project.Contain(owner) {
		t.Error("who has at least what another has is wrong")
	}
	global := of(Binding{Role: "users-manage"})
	both, none := project.And(global), (*Grants)(nil)
	if !both.Contain(project) || !both.Contain(global) || project.Contain(global) || global.Contain(project) {
		t.Error("what two grants allow together is less, or has changed one of the two")
	}
	if !none.And(project).Contain(project) || !project.And(none).Contain(project) {
		t.Error("no grants take something away")
	}
}

func TestInheritance(t *testing.T) {
	find := made(
		Role{ID: "rt-a", Context: Cluster, Rules: []Rule{on("a", "get", "a")}, Inherits: []string{"rt-b"}},
		Role{ID: "rt-b", Context: Cluster, Rules: []Rule{on("b", "get", "b")}, Inherits: []string{"rt-a", "gone"}}, // a cycle that got in
	)
	got := Resolve(Role{ID: "rt-c", Context: Cluster, Rules: []Rule{on("c", "get", "c")}, Inherits: []string{"rt-a", "rt-b"}}, find)
	if diff := cmp.Diff([]Rule{on("c", "get", "c"), on("a", "get", "a"), on("b", "get", "b")}, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func TestCheck(t *testing.T) {
	good := func(change func(*Role)) Role {
		r := Role{ID: "rt-new", Name: "New", Context: Cluster, Rules: []Rule{on("", "get", "pods")}}
		change(&r)
		return r
	}
	find := made(Role{ID: "rt-a", Context: Cluster, Inherits: []string{"rt-b"}}, Role{ID: "rt-b", Context: Cluster, Inherits: []string{"rt-new"}})
	many := func(n int) []string { return strings.Split(strings.Repeat("x ", n-1)+"x", " ") }
	for _, c := range []struct {
		name        string
		change      func(*Role)
		field, text string
	}{
		{"good", func(*Role) {}, "", ""},
		{"inherits", func(r *Role) { r.Inherits = []string{"cluster-member"} }, "", ""},
		{"no name", func(r *Role) { r.Name = " " }, "name", "is empty"},
		{"a name with a line break", func(r *Role) { r.Name = "a\nb" }, "name", "control character"},
		{"a long name", func(r *Role) { r.Name = strings.Repeat("x", 257) }, "name", "at most 256"},
		{"no context", func(r *Role) { r.Context = "planet" }, "context", "neither cluster nor project"},
		{"no verbs", func(r *Role) { r.Rules[0].Verbs = nil }, "rules[0].verbs", "at least one verb"},
		{"no resources", func(r *Role) { r.Rules[0].Resources = nil }, "rules[0]", "needs apiGroups and resources"},
		{"an empty resource", func(r *Role) { r.Rules[0].Resources = []string{""} }, "rules[0].resources", "empty text"},
		{"resources and paths", func(r *Role) { r.Rules[0].NonResourceURLs = []string{"/metrics"} }, "rules[0]", "make two rules"},
		{"too many rules", func(r *Role) { r.Rules = make([]Rule, 257) }, "rules", "at most 256"},
		{"too many verbs", func(r *Role) { r.Rules[0].Verbs = many(129) }, "rules[0].verbs", "at most 128"},
		{"a rule that comes to too many", func(r *Role) {
			r.Rules[0].Verbs, r.Rules[0].Resources, r.Rules[0].APIGroups = many(100), many(100), many(2)
		}, "rules[0]", "more than 16384"},
		{"inherits what is not there", func(r *Role) { r.Inherits = []string{"nothing"} }, "roleTemplateIds", `no role template "nothing"`},
		{"inherits of a project", func(r *Role) { r.Inherits = []string{"read-only"} }, "roleTemplateIds", "read-only is of a project"},
		{"inherits itself", func(r *Role) { r.Inherits = []string{"rt-new"} }, "roleTemplateIds", "inherit itself"},
		{"inherits itself by others", func(r *Role) { r.Inherits = []string{"rt-a"} }, "roleTemplateIds", "rt-new inherits rt-a, which inherits rt-b, which inherits rt-new"},
		{"a global role inherits", func(r *Role) { r.Context, r.Inherits = Global, []string{"user"} }, "roleTemplateIds", "inherits nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Check(good(c.change), find)
			bad, _ := errors.AsType[*InvalidError](err)
			if c.field == "" && err == nil {
				return
			}
			if bad == nil || bad.Field != c.field || !strings.Contains(bad.Reason, c.text) {
				t.Errorf("error %v, want %s: %s", err, c.field, c.text)
			}
		})
	}
}

func TestCheckSubject(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Subject
		ok   bool
	}{
		{"a user", Subject{User: "local://u-anna"}, true},
		{"a group", Subject{Group: "openldap_group://cn=ops,dc=example"}, true},
		{"nobody", Subject{}, false},
		{"both", Subject{User: "local://u-anna", Group: "x://y"}, false},
		{"no principal", Subject{User: "u-anna"}, false},
		{"a long one", Subject{Group: "x://" + strings.Repeat("y", 512)}, false},
	} {
		if err := CheckSubject(c.s); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestBuiltin holds the built-in roles to the rules for those of people, and the few that the
// server itself names.
func TestBuiltin(t *testing.T) {
	for _, kind := range []Kind{GlobalRole, RoleTemplate} {
		seen := map[string]bool{}
		for _, r := range Builtins(kind) {
			if err := Check(r, made()); err != nil || !r.Builtin || seen[r.ID] || KindOf(r.Context) != kind {
				t.Errorf("%s: %v", r.ID, err)
			}
			seen[r.ID] = true
		}
	}
	for _, id := range []string{ClusterOwner, ProjectOwner} {
		if r, ok := Builtin(RoleTemplate, id); !ok || r.ClusterCreatorDefault != (id == ClusterOwner) || r.ProjectCreatorDefault != (id == ProjectOwner) {
			t.Errorf("%s: %+v", id, r)
		}
	}
	if r, ok := Builtin(GlobalRole, Admin); !ok || r.NewUserDefault {
		t.Errorf("%+v", r)
	}
	if r, _ := Builtin(RoleTemplate, "cluster-member"); r.Overlaid(Role{Locked: true, Rules: everything()}).Locked == false ||
		len(r.Overlaid(Role{Rules: everything()}).Rules) != len(r.Rules) {
		t.Error("a stored role changes what a built-in one may do, or does not lock it")
	}
}

// TestNoBuiltinRoleOfProjectsEscalates: who may change roles in a namespace gives there no more than they have.
func TestNoBuiltinRoleOfProjectsEscalates(t *testing.T) {
	for _, r := range Builtins(RoleTemplate) {
		for _, verb := range []string{"escalate", "bind"} {
			for _, resource := range []string{"roles", "rolebindings"} {
				if r.Context == Project && Allows(r.Rules, Request{Group: "rbac.authorization.k8s.io", Resource: resource, Verb: verb}) {
					t.Errorf("%s allows to %s %s", r.ID, verb, resource)
				}
			}
		}
	}
	owner, _ := Builtin(RoleTemplate, ProjectOwner)
	for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection", "list"} {
		if !Allows(owner.Rules, Request{Group: "rbac.authorization.k8s.io", Resource: "rolebindings", Verb: verb}) {
			t.Errorf("an owner may not %s role bindings", verb)
		}
	}
}

func TestAPersonIsNoGroup(t *testing.T) {
	for subject, ok := range map[Subject]bool{
		{Group: "local://u-abcde"}:           false,
		{User: "local://u-abcde"}:            true,
		{Group: "openldap_group://cn=ops"}:   true,
		{Group: "github_team://17"}:          true,
		{User: "openldap_user://uid=ann"}:    true,
		{Group: "local://user-x1", User: ""}: false,
	} {
		if err := CheckSubject(subject); (err == nil) != ok {
			t.Errorf("%+v: %v", subject, err)
		}
	}
}
