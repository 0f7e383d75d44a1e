package auth

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
)

// bound is a user with the bindings to built-in roles.
func bound(id string, all ...roles.Binding) Identity {
	g := roles.Of(all, roles.Builtin)
	return Identity{UserID: id, Grants: g, Admin: g.Everything()}
}

// TestWhoMayDoWhat is the table of the management API's contract, section 5.3, row by row: what each
// kind of person may do to an object of cluster c-1 and of its project p-1, and to one of another
// cluster and project, which is never more than what everybody may.
func TestWhoMayDoWhat(t *testing.T) {
	in := func(role string) roles.Binding { return roles.Binding{Role: role, ClusterID: "c-1"} }
	of := func(role string) roles.Binding {
		return roles.Binding{Role: role, ClusterID: "c-1", ProjectID: "c-1:p-1"}
	}
	user := roles.Binding{Role: "user"}
	people := []struct {
		name string
		who  Identity
	}{
		{"admin", bound("u-a", roles.Binding{Role: "admin"})},
		{"user", bound("u-a", user)},
		{"cluster-owner", bound("u-a", user, in("cluster-owner"))},
		{"cluster-member", bound("u-a", user, in("cluster-member"))},
		{"project-owner", bound("u-a", user, of("project-owner"))},
		{"project-member", bound("u-a", user, of("project-member"))},
		{"read-only", bound("u-a", user, of("read-only"))},
	}
	verbs := []struct {
		letter string
		verb   Verb
	}{{"R", Get}, {"C", Create}, {"U", Update}, {"D", Remove}}
	cluster := func(kind Kind) []Object { return []Object{In("c-1", kind), In("c-2", kind)} }
	project := func(kind Kind) []Object {
		return []Object{{Kind: kind, Project: "c-1:p-1"}, {Kind: kind, Project: "c-1:p-2"}, {Kind: kind, Project: "c-2:p-1"}}
	}
	for _, row := range []struct {
		name    string
		objects []Object
		// want has a word for each person: what they may do to the first object, and after a slash to the second, and
		// the third; absent is what everybody may, "-" nothing.
		want string
	}{
		{"setting", []Object{{Kind: Setting, Key: "server-url"}}, "RCUD R R R R R R"},
		{"own user", []Object{{Kind: User, Key: "u-a", Owner: "u-a"}}, "RCUD R R R R R R"},
		{"another user", []Object{{Kind: User, Key: "u-b", Owner: "u-b"}}, "RCUD - - - - - -"},
		{"own token", []Object{{Kind: Token, Key: "t", Owner: "u-a"}}, "RCUD RCUD RCUD RCUD RCUD RCUD RCUD"},
		{"another's token", []Object{{Kind: Token, Key: "t", Owner: "u-b"}}, "C C C C C C C"},
		{"cluster", []Object{OfCluster("c-1"), OfCluster("c-2"), {Kind: Cluster}}, "RCUD/RCUD/RCUD C/C/C RCUD/C/C RC/C/C RC/C/C RC/C/C RC/C/C"},
		{"clusterRegistrationToken", cluster(RegistrationToken), "RCUD/RCUD -/- RCUD/- -/- -/- -/- -/-"},
		{"node", cluster(Machine), "RCUD/RCUD -/- RCUD/- R/- -/- -/- -/-"},
		{"project", []Object{{Kind: Project, Key: "c-1:p-1"}, {Kind: Project, Key: "c-1:p-2"}, {Kind: Project, Key: "c-2:p-1"}},
			"RCUD/RCUD/RCUD -/-/- RCUD/RCUD/- C/C/- RUD/-/- R/-/- R/-/-"},
		{"namespace", project(Namespace), "RCUD/RCUD/RCUD -/-/- RCUD/RCUD/- -/-/- RCUD/-/- RC/-/- R/-/-"},
		{"roleTemplate", []Object{{Kind: RoleTemplate, Key: "rt-1"}}, "RCUD R R R R R R"},
		{"globalRole", []Object{{Kind: GlobalRole, Key: "gr-1"}}, "RCUD - - - - - -"},
		{"globalRoleBinding", []Object{{Kind: GlobalRoleBinding, Key: "grb-1"}}, "RCUD - - - - - -"},
		{"clusterRoleTemplateBinding", cluster(ClusterBinding), "RCUD/RCUD -/- RCUD/- R/- -/- -/- -/-"},
		{"projectRoleTemplateBinding", project(ProjectBinding), "RCUD/RCUD/RCUD -/-/- RCUD/RCUD/- -/-/- RCUD/-/- R/-/- R/-/-"},
		{"etcdBackup", cluster(EtcdBackup), "RCUD/RCUD -/- RCUD/- -/- -/- -/- -/-"},
		{"provisioning cluster", []Object{In("c-1", ProvisionedCluster), In("c-2", ProvisionedCluster), {Kind: ProvisionedCluster}},
			"RCUD/RCUD/RCUD C/C/C RCUD/C/C RC/C/C C/C/C C/C/C C/C/C"},
		{"machine", cluster(ClusterMachine), "RCUD/RCUD -/- RCUD/- R/- -/- -/- -/-"},
		// What drover has besides.
		{"operation", cluster(Operation), "RCUD/RCUD -/- RCUD/- R/- -/- -/- -/-"},
		{"event", cluster(Event), "RCUD/RCUD -/- RCUD/- R/- -/- -/- -/-"},
		{"tunnel", cluster(Tunnel), "RCUD/RCUD -/- RCUD/- -/- -/- -/- -/-"},
		{"plan Secret", cluster(PlanSecret), "RCUD/RCUD -/- RCUD/- -/- -/- -/- -/-"},
		{"fleet, even if its id were the cluster's", []Object{In("c-1", Fleet)}, "RCUD - - - - - -"},
		{"another's Secret or ConfigMap", []Object{{Kind: SharedObject, Key: "Secret/fleet-default/a", Owner: "u-b"}, In("c-1", SharedObject)}, "RCUD/RCUD C/C C/C C/C C/C C/C C/C"},
		{"own Secret or ConfigMap", []Object{{Kind: SharedObject, Key: "Secret/fleet-default/a", Owner: "u-a"}}, "RCUD RCUD RCUD RCUD RCUD RCUD RCUD"},
		{"backup of the server", []Object{In("c-1", Backup)}, "RCUD - - - - - -"},
		{"metrics", []Object{In("c-1", Metrics)}, "RCUD - - - - - -"},
	} {
		for i, want := range strings.Fields(row.want) {
			for j, allowed := range strings.Split(want, "/") {
				got := ""
				for _, v := range verbs {
					if May(people[i].who, v.verb, row.objects[j]) {
						got += v.letter
					}
				}
				if allowed == "-" {
					allowed = ""
				}
				if got != allowed {
					t.Errorf("%s, object %d: %s may %q, want %q", row.name, j, people[i].name, got, allowed)
				}
			}
		}
	}
}

// TestActionsAndLists holds what the table has no letters for.
func TestActionsAndLists(t *testing.T) {
	admin := bound("u-a", roles.Binding{Role: "admin"})
	owner := bound("u-b", roles.Binding{Role: "cluster-owner", ClusterID: "c-1"})
	member := bound("u-c", roles.Binding{Role: "cluster-member", ClusterID: "c-1"})
	reader := bound("u-d", roles.Binding{Role: "read-only", ClusterID: "c-1", ProjectID: "c-1:p-1"})
	nodes := bound("u-e", roles.Binding{Role: "nodes-manage", ClusterID: "c-1"})
	backups := bound("u-f", roles.Binding{Role: "backups-manage", ClusterID: "c-1"})
	users := bound("u-g", roles.Binding{Role: "users-manage"})
	user := bound("u-h", roles.Binding{Role: "user"})
	everybody := map[string]Identity{"admin": admin, "owner": owner, "member": member, "reader": reader, "nodes": nodes, "backups": backups, "users": users, "user": user}
	for _, c := range []struct {
		verb Verb
		o    Object
		want string // who, in the order of their names
	}{
		{Action("generateKubeconfig"), OfCluster("c-1"), "admin backups member nodes owner reader"},
		{Proxy, OfCluster("c-1"), "admin backups member nodes owner reader"},
		{Proxy, OfCluster("c-2"), "admin"},
		{Own, OfCluster("c-1"), "admin owner"},
		{Dial, In("c-1", Machine), "admin owner"},
		{Dial, In("c-2", Machine), "admin"},
		{Action("logs"), In("c-1", Machine), "admin nodes owner"},
		{Action("token"), OfCluster("c-1"), "admin owner"},
		{Action("downloadSnapshot"), OfCluster("c-1"), "admin owner"},
		{Action("somethingNew"), OfCluster("c-1"), "admin owner"},
		{Action("backupEtcd"), OfCluster("c-1"), "admin backups owner"},
		{Action("restoreFromEtcdBackup"), OfCluster("c-1"), "admin owner"},
		{Action("abort"), In("c-1", Operation), "admin owner"},
		{ListAll, In("c-1", ClusterMachine), "admin nodes owner"},
		{ListAll, In("c-1", Tunnel), "admin owner"},
		{List, Object{Kind: Cluster}, "admin backups member nodes owner reader user users"},
		{ListAll, Object{Kind: Cluster}, "admin"},
		{Action("setpassword"), Object{Kind: User, Key: "u-z", Owner: "u-z"}, "admin users"},
		{Create, Object{Kind: GlobalRoleBinding}, "admin users"},
		{Get, Object{Kind: GlobalRole, Key: "admin"}, "admin users"},
		{CollectionAction("search"), Object{Kind: Principal}, "admin user"},
		{ListAll, Object{Kind: Token}, "admin"},
		{Action("revoke"), Object{Kind: Token, Owner: "u-b"}, "admin owner"},
	} {
		var got []string
		for _, name := range []string{"admin", "backups", "member", "nodes", "owner", "reader", "user", "users"} {
			if May(everybody[name], c.verb, c.o) {
				got = append(got, name)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s %+v: %s, want %s", c.verb, c.o, text, c.want)
		}
	}
	for _, c := range []struct {
		name string
		who  Identity
		verb Verb
		kind Kind
		want bool
	}{
		{"a new cluster is made in no other", owner, Create, Cluster, false},
		{"but by whoever may make one", user, Create, Cluster, true},
		{"documents of their own cluster", owner, Apply, Cluster, true},
		{"documents of new clusters", user, Apply, Cluster, true},
		{"documents of none", reader, Apply, Cluster, false},
		{"a token of their cluster", owner, Create, RegistrationToken, true},
		{"no fleet", owner, Create, Fleet, false},
		{"no backup of the server", owner, Create, Backup, false},
		{"machines of /v1 that can be shown and not listed", member, ListAll, ClusterMachine, false},
		{"machines of /v1 that can be shown", member, Get, ClusterMachine, true},
		{"nobody", Identity{}, List, Cluster, false},
		{"a token of one cluster", Identity{UserID: "u-b", ClusterID: "c-1", Grants: owner.Grants}, Get, Cluster, false},
	} {
		if got := Somewhere(c.who, c.verb, c.kind); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	scoped := Identity{UserID: "u-b", ClusterID: "c-1", Grants: owner.Grants}
	if !May(scoped, Proxy, OfCluster("c-1")) || May(scoped, Proxy, OfCluster("c-2")) || May(scoped, Get, OfCluster("c-1")) {
		t.Error("a token of one cluster is good for something else, or for nothing")
	}
	if !Lost(users, user) || Lost(owner, member) {
		t.Error("what is lost in general, and what in one cluster, are mixed up")
	}
}

// TestNamesOfRules: a rule for one object is not one for all.
func TestNamesOfRules(t *testing.T) {
	rule := roles.Rule{APIGroups: []string{roles.Management}, Resources: []string{"nodes", "settings"}, Verbs: []string{"*"}, ResourceNames: []string{"m-1", "ui-pl"}}
	find := func(roles.Kind, string) (roles.Role, bool) {
		return roles.Role{ID: "gr-1", Context: roles.Global, Rules: []roles.Rule{rule}}, true
	}
	who := Identity{UserID: "u-a", Grants: roles.Of([]roles.Binding{{Role: "gr-1"}}, find)}
	for _, c := range []struct {
		o    Object
		want bool
	}{
		{Object{Kind: Machine, Key: "c-1:m-1", Cluster: "c-1"}, true},
		{Object{Kind: Machine, Key: "c-1:m-2", Cluster: "c-1"}, false},
		{Object{Kind: Machine, Cluster: "c-1"}, false},
		{Object{Kind: Setting, Key: "ui-pl"}, true},
		{Object{Kind: Setting, Key: "server-url"}, false},
	} {
		if got := May(who, Update, c.o); got != c.want {
			t.Errorf("%+v: %v", c.o, got)
		}
	}
}

// TestUntilTheRightEnds: what was opened by a right ends with it, and nothing else does.
func TestUntilTheRightEnds(t *testing.T) {
	a, st, _ := open(t)
	addUser(t, a, st, "u-ann", "correct horse")
	_, token := issue(t, a, records.Token{UserID: "u-ann"})
	bind := func(id, role, cluster string) {
		b := roles.Binding{ID: id, Role: role, ClusterID: cluster, Subject: roles.Subject{User: roles.LocalUser("u-ann")}}
		if _, err := st.Bindings.Create(t.Context(), id, b); err != nil {
			t.Fatal(err)
		}
	}
	bind("c-1:crtb-a", "cluster-owner", "c-1")
	bind("c-2:crtb-b", "cluster-owner", "c-2")
	u, _ := st.Users.Get("u-ann")
	who := a.IdentityOf(u.Value, token)
	ended := map[string]chan struct{}{}
	for _, cluster := range []string{"c-1", "c-2"} {
		over := make(chan struct{})
		ended[cluster] = over
		defer a.Until(who, func(now Identity) bool { return May(now, Dial, In(cluster, Machine)) }, func() { close(over) })()
	}
	if err := st.Bindings.Delete(t.Context(), "c-1:crtb-a", 0); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended["c-1"]:
	case <-time.After(30 * time.Second):
		t.Fatal("a stream goes on without the right that it was opened by")
	}
	select {
	case <-ended["c-2"]:
		t.Error("a stream of another cluster ended")
	default:
	}
	modify(t, st.Bindings, "c-2:crtb-b", func(b *roles.Binding) { b.Role = "cluster-member" })
	<-ended["c-2"]
}

// TestUntilTheCredentialEnds: what an API token opened ends with the token and with its user, of which the sessions alone are removed
// when the user is disabled.
func TestUntilTheCredentialEnds(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, st *state.State, token string){
		"its user is disabled": func(t *testing.T, st *state.State, _ string) {
			modify(t, st.Users, "u-ann", func(u *records.User) { u.Disabled = true })
		},
		"its user is removed": func(t *testing.T, st *state.State, _ string) {
			if err := st.Users.Delete(t.Context(), "u-ann", 0); err != nil {
				t.Fatal(err)
			}
		},
		"the token is disabled": func(t *testing.T, st *state.State, token string) {
			modify(t, st.Tokens, token, func(k *records.Token) { k.Disabled = true })
		},
		"the token has another secret": func(t *testing.T, st *state.State, token string) {
			modify(t, st.Tokens, token, func(k *records.Token) { k.KeyHash = "$3:1:another" })
		},
		"the token is for another cluster": func(t *testing.T, st *state.State, token string) {
			modify(t, st.Tokens, token, func(k *records.Token) { k.ClusterID = "c-other" })
		},
		"the token has expired": func(t *testing.T, st *state.State, token string) {
			modify(t, st.Tokens, token, func(k *records.Token) { k.Expires = time.Date(2026, 9, 1, 9, 0, 0, 0, time.UTC) })
		},
		"a group of its user has less": func(t *testing.T, st *state.State, _ string) {
			if err := st.Bindings.Delete(t.Context(), "grb-group", 0); err != nil {
				t.Fatal(err)
			}
		},
		"a role has less": func(t *testing.T, st *state.State, _ string) {
			modify(t, st.GlobalRoles, "lookers", func(r *roles.Role) { r.Rules = nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, st, _ := open(t)
			addUser(t, a, st, "u-ann", "correct horse")
			const group = "openldap_group://cn=lookers,dc=example"
			modify(t, st.Users, "u-ann", func(u *records.User) { u.Groups = []string{group} })
			rules := []roles.Rule{{APIGroups: []string{"management.cattle.io"}, Resources: []string{"settings"}, Verbs: []string{"update"}}}
			if _, err := st.GlobalRoles.Create(t.Context(), "lookers", roles.Role{ID: "lookers", Name: "lookers", Context: roles.Global, Rules: rules}); err != nil {
				t.Fatal(err)
			}
			if _, err := st.Bindings.Create(t.Context(), "grb-group", roles.Binding{ID: "grb-group", Role: "lookers", Subject: roles.Subject{Group: group}}); err != nil {
				t.Fatal(err)
			}
			_, token := issue(t, a, records.Token{UserID: "u-ann"})
			u, _ := st.Users.Get("u-ann")
			over := make(chan struct{})
			who := a.IdentityOf(u.Value, token)
			still := func(now Identity) bool { return May(now, Update, Object{Kind: Setting, Key: "x"}) }
			if !still(who) {
				t.Fatal("the role gives nothing")
			}
			defer a.Until(who, still, func() { close(over) })()
			change(t, st, token.Name)
			select {
			case <-over:
			case <-time.After(30 * time.Second):
				t.Error("what the token opened goes on")
			}
		})
	}
}
