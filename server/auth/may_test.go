package auth

import "testing"

func TestMay(t *testing.T) {
	admin := Identity{UserID: "u-a", Admin: true}
	scoped := Identity{UserID: "u-a", Admin: true, ClusterID: "c-1"}
	user := Identity{UserID: "u-b"}
	machine := Identity{PlanSecret: "ns/m-machine-plan"}
	for _, c := range []struct {
		name string
		who  Identity
		verb Verb
		o    Object
		want bool
	}{
		{"nobody reads an open setting", Identity{}, Get, Object{Kind: Setting, Key: "cacerts"}, true},
		{"nobody reads another setting", Identity{}, Get, Object{Kind: Setting, Key: "server-url"}, false},
		{"nobody changes an open setting", Identity{}, Update, Object{Kind: Setting, Key: "cacerts"}, false},
		{"a flag without a user is worth nothing", Identity{Admin: true}, Get, Object{Kind: Cluster}, false},
		{"an administrator does anything", admin, Apply, Object{Kind: Cluster}, true},
		{"a token of one cluster reaches it", scoped, Proxy, Object{Kind: Cluster, Key: "c-1"}, true},
		{"a token of one cluster reaches no other", scoped, Proxy, Object{Kind: Cluster, Key: "c-2"}, false},
		{"a token of one cluster does not show it", scoped, Get, Object{Kind: Cluster, Key: "c-1"}, false},
		{"a token of one cluster gives no rights its user lacks", Identity{UserID: "u-b", ClusterID: "c-1"}, Proxy, Object{Kind: Cluster, Key: "c-1"}, false},
		{"a user lists", user, List, Object{Kind: Cluster}, true},
		{"a user does not list without regard to rights", user, ListAll, Object{Kind: Cluster}, false},
		{"a user sees no cluster", user, Get, Object{Kind: Cluster, Key: "c-1"}, false},
		{"a user sees their token", user, Get, Object{Kind: Token, Owner: "u-b"}, true},
		{"a user does not see another's token", user, Get, Object{Kind: Token, Owner: "u-a"}, false},
		{"a token of nobody is nobody's", user, Remove, Object{Kind: Token}, false},
		{"a user sees themselves", user, Get, Object{Kind: User, Owner: "u-b"}, true},
		{"a user does not set passwords", user, Action("setpassword"), Object{Kind: User, Owner: "u-b"}, false},
		{"a user changes their password", user, CollectionAction("changepassword"), Object{Kind: User}, true},
		{"a user does not change settings", user, Update, Object{Kind: Setting, Key: "ui-pl"}, false},
		{"a machine updates its plan Secret", machine, Update, Object{Kind: PlanSecret, Key: "ns/m-machine-plan"}, true},
		{"a machine does not see another's", machine, Get, Object{Kind: PlanSecret, Key: "ns/n-machine-plan"}, false},
		{"a machine does not list all", machine, List, Object{Kind: PlanSecret}, false},
		{"a machine does not patch", machine, Patch, Object{Kind: PlanSecret, Key: "ns/m-machine-plan"}, false},
		{"a machine sees nothing else", machine, List, Object{Kind: Setting}, false},
		{"a user sees no plan Secret", user, Get, Object{Kind: PlanSecret, Key: "ns/m-machine-plan"}, false},
		{"a user dials no host", user, Dial, Object{Kind: Machine, Key: "ns/m"}, false},
		{"a user sees no operation", user, Get, Object{Kind: Operation, Key: "op-1"}, false},
		{"a user aborts no operation", user, Action("abort"), Object{Kind: Operation, Key: "op-1"}, false},
		{"a token of one cluster retries no operation", scoped, Action("retry"), Object{Kind: Operation, Key: "op-1"}, false},
		{"an administrator retries an operation", admin, Action("retry"), Object{Kind: Operation, Key: "op-1"}, true},
	} {
		if got := May(c.who, c.verb, c.o); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if !Lost(admin, user) || Lost(user, admin) || Lost(user, user) {
		t.Error("Lost is wrong")
	}
}
