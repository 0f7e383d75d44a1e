package authtokens

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/clusterauth"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
)

const harbourID = "c-m-h4rb0r55"

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// snapshot has ann, who has a token of the cluster, and others who have none that counts there.
func snapshot() Snapshot {
	users := map[string]records.User{
		"u-ann": {ID: "u-ann", Groups: []string{"team://2", "team://1", "team://2"}},
		"u-bob": {ID: "u-bob", Disabled: true},
		"u-cat": {ID: "u-cat"},
		"u-dan": {ID: "u-dan"},
	}
	token := func(name, user, cluster string, change func(*records.Token)) records.Token {
		t := records.Token{Name: name, UserID: user, ClusterID: cluster, KeyHash: randomid.Hash(name), ClusterHash: "$3:1:hash of " + name}
		if change != nil {
			change(&t)
		}
		return t
	}
	return Snapshot{
		ClusterID: harbourID, Now: noon,
		Tokens: []records.Token{
			token("kubeconfig-u-ann1", "u-ann", harbourID, func(t *records.Token) { t.Expires = noon.Add(time.Hour).In(time.FixedZone("", 3600)) }),
			token("kubeconfig-u-ann2", "u-ann", harbourID, func(t *records.Token) { t.ClusterHash = "" }),
			token("of-all-clusters", "u-ann", "", nil),
			token("of-another", "u-ann", "c-m-other", nil),
			token("disabled", "u-ann", harbourID, func(t *records.Token) { t.Disabled = true }),
			token("ended", "u-ann", harbourID, func(t *records.Token) { t.Expires = noon }),
			token("of-a-disabled-user", "u-bob", harbourID, nil),
			token("of-nobody", "u-gone", harbourID, nil),
			token("of-a-stranger", "u-dan", harbourID, nil),
			token("unreadable", "u-cat", harbourID, func(t *records.Token) { t.ClusterHash, t.KeyHash = "", "x" }),
		},
		User: func(id string) (records.User, bool) { u, ok := users[id]; return u, ok },
		Uses: func(id string) bool { return id != "u-dan" },
	}
}

func TestDesired(t *testing.T) {
	old, err := clusterauth.OfSum(randomid.Hash("kubeconfig-u-ann2"))
	if err != nil {
		t.Fatal(err)
	}
	want := Objects{
		Tokens: map[string]clusterauth.Token{
			"kubeconfig-u-ann1": {UserName: "u-ann", ExpiresAt: "2026-11-23T13:00:00Z", Enabled: true},
			"kubeconfig-u-ann2": {UserName: "u-ann", Enabled: true},
		},
		Hashes: map[string]string{"kubeconfig-u-ann1": "$3:1:hash of kubeconfig-u-ann1", "kubeconfig-u-ann2": old},
		Users:  map[string]clusterauth.User{"u-ann": {Groups: []string{"team://1", "team://2"}, Enabled: true}},
	}
	if diff := cmp.Diff(want, Desired(snapshot())); diff != "" {
		t.Error(diff)
	}
	if err := clusterauth.Verify(old, "kubeconfig-u-ann2"); err != nil {
		t.Error(err)
	}
}
