package apiauth

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/clusterauth"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const key = "zqtmvbkhjdwlsrncfpgx2456789zqtmvbkhjdwlsrncfpgx2456789"

func TestParse(t *testing.T) {
	for text, want := range map[string]credential{
		"kubeconfig-u-1abcde:" + key: {"kubeconfig-u-1abcde", key},
		"ext/token-1:a:b":            {"token-1", "a:b"},
		"kubeconfig-u-1.c-m-2:x":     {"kubeconfig-u-1.c-m-2", "x"},
	} {
		if got, err := parse(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", ":", "a", "a:", ":b", "../secrets/x:y", "a/b:c", "A:b", "a%2fb:c", "a b:c", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJr.c2ln", "-a:b",
		strings.Repeat("a", 300) + ":b", "ext/ext/a:b",
	} {
		if got, err := parse(text); err == nil {
			t.Errorf("%.40q: %v", text, got)
		}
	}
}

func ann(change func(k *known)) known {
	k := known{
		token: &clusterauth.Token{UserName: "u-ann01", Enabled: true, ExpiresAt: "2026-11-23T12:00:01Z"},
		user:  &clusterauth.User{Enabled: true, Groups: []string{"github_team://7", "system:masters", ""}},
		hash:  clusterauth.Hash(key),
	}
	if change != nil {
		change(&k)
	}
	return k
}

func TestWho(t *testing.T) {
	c := credential{"token-1", key}
	want := &userInfo{
		Username: "u-ann01", UID: "u-ann01", Groups: []string{"github_team://7", "system:cattle:authenticated"},
		Extra: map[string][]string{"principalid": {"local://u-ann01"}, "requesttokenid": {"token-1"}},
	}
	for name, k := range map[string]known{
		"a token":       ann(nil),
		"without end":   ann(func(k *known) { k.token.ExpiresAt = "" }),
		"an older form": ann(func(k *known) { k.token.Hash, k.hash = k.hash, "" }),
	} {
		got, err := c.who(k, noon)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	for want, change := range map[string]func(k *known){
		"token token-1 is unknown in this cluster":                         func(k *known) { k.token = nil },
		"token token-1 is disabled":                                        func(k *known) { k.token.Enabled = false },
		"token token-1 ended at 2026-11-23T12:00:00Z":                      func(k *known) { k.token.ExpiresAt = "2026-11-23T12:00:00Z" },
		"token token-1 ended at soon":                                      func(k *known) { k.token.ExpiresAt = "soon" },
		"token token-1 is of no valid user":                                func(k *known) { k.token.UserName = "system:admin" },
		"user u-ann01 of token token-1 is unknown":                         func(k *known) { k.user = nil },
		"user u-ann01 of token token-1 is disabled":                        func(k *known) { k.user.Enabled = false },
		"token token-1 has no Secret":                                      func(k *known) { k.hash = "" },
		"token token-1: the key of the token is wrong":                     func(k *known) { k.hash = clusterauth.Hash("another") },
		"token token-1: the hash of the token has an unknown form":         func(k *known) { k.hash = key },
		"token token-1: the key of the token is wrong, in the older place": func(k *known) { k.token.Hash = clusterauth.Hash("another") },
	} {
		got, err := c.who(ann(change), noon)
		want, _, _ = strings.Cut(want, ", in")
		if got != nil || err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), key) {
			t.Errorf("got %v, %v; want %s", got, err, want)
		}
	}
}

func TestUsesAreNotedOnceAMinute(t *testing.T) {
	for last, want := range map[string]bool{
		"": true, "yesterday": true, "2026-11-23T11:59:00Z": true, "2026-11-23T11:59:01Z": false, "2026-11-23T12:00:00Z": false, "2027-01-01T00:00:00Z": true,
	} {
		if got := noteUse(clusterauth.Token{LastUsedAt: last}, noon); got != want {
			t.Errorf("last %q: %v", last, got)
		}
	}
}

func TestOverdue(t *testing.T) {
	for _, test := range []struct {
		last    string
		flagged bool
		want    bool
	}{
		{"2026-11-23T11:54:59Z", false, true}, {"2026-11-23T11:54:59Z", true, false}, {"2026-11-23T11:55:00Z", false, false}, {"", false, false}, {"x", false, false},
	} {
		if got := overdue(clusterauth.User{LastRefresh: test.last, NeedsRefresh: test.flagged}, 5*time.Minute, noon); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
