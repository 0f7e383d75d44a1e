package auth

import (
	"reflect"
	"testing"

	"github.com/drover-project/drover/server/roles"
)

// TestAlike: who may do the same has the same rights whatever they are called, and nothing of their name is in the identity that they share.
func TestAlike(t *testing.T) {
	may := func(verb string) *roles.Grants { return &roles.Grants{Global: []roles.Rule{{Verbs: []string{verb}}}} }
	ann := Identity{UserID: "u-ann", Username: "ann", DisplayName: "Ann", TokenName: "token-a", Session: true, Grants: may("get")}
	bob := Identity{UserID: "u-bob", Username: "bob", DisplayName: "Bob", TokenName: "token-b", Grants: may("get")}
	if ann.Rights() != bob.Rights() || !reflect.DeepEqual(ann.Anybody(), bob.Anybody()) {
		t.Error("two who may do the same are not alike")
	}
	if ann.Anybody().Rights() != ann.Rights() {
		t.Error("anybody with the rights of somebody has others")
	}
	for what, change := range map[string]func(*Identity){
		"grants": func(i *Identity) { i.Grants = may("list") }, "admin": func(i *Identity) { i.Admin = true }, "nobody": func(i *Identity) { i.UserID = "" },
		"one cluster": func(i *Identity) { i.ClusterID = "c-1" }, "a password to change": func(i *Identity) { i.MustChangePassword = true },
		"a machine": func(i *Identity) { i.PlanSecret = "a/b" },
	} {
		other := bob
		if change(&other); other.Rights() == ann.Rights() {
			t.Errorf("%s: the rights are the same", what)
		}
	}
	if !May(ann.Anybody(), List, Object{Kind: Cluster}) || May(ann.Anybody(), Get, Object{Kind: User, Key: "u-ann", Owner: "u-ann"}) {
		t.Error("anybody may do what everybody may, and has nothing of their own")
	}
	if May(Identity{}.Anybody(), List, Object{Kind: Cluster}) {
		t.Error("who is not logged in becomes somebody")
	}
}
