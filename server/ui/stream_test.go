package ui

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/ui/live"
)

func may(verbs ...string) *roles.Grants {
	return &roles.Grants{Global: []roles.Rule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: verbs}}}
}

func callOf(who auth.Identity, target string) *route.Call {
	r := httptest.NewRequest("GET", target, nil)
	r.Header.Set("Cookie", auth.SessionCookie+"="+who.TokenName+":secret")
	return &route.Call{R: r, Who: who}
}

// TestKeys: pages have one key when the same is shown to the same rights, and never otherwise.
func TestKeys(t *testing.T) {
	ann := auth.Identity{UserID: "u-ann", Username: "ann", TokenName: "token-ann", Grants: may("get")}
	phone := ann
	phone.TokenName = "token-phone"
	bob := auth.Identity{UserID: "u-bob", Username: "bob", TokenName: "token-bob", Grants: may("get")}
	less := auth.Identity{UserID: "u-bob", Username: "bob", TokenName: "token-bob", Grants: may("list")}
	admin := bob
	admin.Admin = true
	const at = "/dashboard/clusters?q=a&sort=name"
	for _, c := range []struct {
		what         string
		who          auth.Identity
		at           string
		common, same bool
	}{
		{"the same again", ann, at, true, true},
		{"what the client has seen", ann, at + "&seen=12", true, true},
		{"another order of the query", ann, "/dashboard/clusters?sort=name&q=a", true, true},
		{"another session", phone, at, true, true},
		{"somebody else with the same rights", bob, at, true, true},
		{"other rights", less, at, true, false},
		{"an administrator", admin, at, true, false},
		{"another query", ann, at + "&page=2", true, false},
		{"another page", ann, "/dashboard/machines?q=a&sort=name", true, false},
		{"a path that reads alike", ann, "/dashboard%2Fclusters?q=a&sort=name", true, false},
		{"a query in the path", ann, "/dashboard/clusters%3Fq=a?sort=name", true, false},
		{"one's own page", ann, at, false, false},
	} {
		if same := keyOf(callOf(c.who, c.at), c.common) == keyOf(callOf(ann, at), true); same != c.same {
			t.Errorf("%s: the key is the same %v, want %v", c.what, same, c.same)
		}
	}
	own := keyOf(callOf(ann, at), false)
	for what, other := range map[string]auth.Identity{"another session": phone, "somebody else": bob} {
		if keyOf(callOf(other, at), false) == own {
			t.Errorf("%s has the key of one's own page", what)
		}
	}
	if less.TokenName = ann.TokenName; keyOf(callOf(less, at), false) == own {
		t.Error("a session whose rights have changed has the key of before")
	}
}

// opened opens pages one after the other and returns what each of them shows in the end.
func opened(t *testing.T, u *UI, page Page, common bool, who ...auth.Identity) []string {
	t.Helper()
	var shown []string
	for _, one := range who {
		v := u.board.Open()
		t.Cleanup(v.Close)
		c := callOf(one, "/dashboard/x")
		v.Show(keyOf(c, common), u.drawn(requestOf(c, common), page, common))
		time.Sleep(time.Second)
		synctest.Wait()
		d, _ := v.Now()
		shown = append(shown, string(d.Plain))
	}
	return shown
}

// TestDrawnForAll: what is common is drawn once for all who may do the same, and without a name; what is not is drawn for each
// session.
func TestDrawnForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := New(Options{Changes: &live.Hub{}})
		if err != nil {
			t.Fatal(err)
		}
		ann := auth.Identity{UserID: "u-ann", Username: "ann", DisplayName: "Ann", TokenName: "token-ann", Grants: may("get")}
		bob := auth.Identity{UserID: "u-bob", Username: "bob", DisplayName: "Bob", TokenName: "token-bob", Grants: may("get")}
		less := auth.Identity{UserID: "u-less", Username: "less", TokenName: "token-less", Grants: may("list")}
		var mu sync.Mutex
		drawn := 0
		page := func(r Request) (View, error) {
			mu.Lock()
			defer mu.Unlock()
			drawn++
			verbs := strings.Join(r.Who.Grants.Global[0].Verbs, " ")
			return View{Title: "x", Template: "refusal", Data: fmt.Sprintf("name %s%s%s%s%s may %s", r.Who.UserID, r.Who.Username, r.Who.DisplayName, r.Who.TokenName, r.Form, verbs)}, nil
		}
		got := opened(t, u, page, true, ann, ann, bob, less)
		if drawn != 2 {
			t.Errorf("a page that is common was drawn %d times for two sorts of rights", drawn)
		}
		for i, want := range []string{"may get", "may get", "may get", "may list"} {
			if !strings.Contains(got[i], want) {
				t.Errorf("page %d shows %q, want %s", i, got[i], want)
			}
			for _, name := range []string{"ann", "Ann", "bob", "Bob", "less"} {
				if strings.Contains(got[i], name) {
					t.Errorf("page %d has the name of somebody: %q", i, got[i])
				}
			}
		}
		drawn = 0
		got = opened(t, u, page, false, ann, ann, bob)
		if drawn != 2 || !strings.Contains(got[0], "ann") || got[1] != got[0] || !strings.Contains(got[2], "bob") || strings.Contains(got[2], "ann") {
			t.Errorf("pages of one's own, drawn %d times: %q", drawn, got)
		}
	})
}

// TestSlowHost: a host that does not answer holds up nothing but what it is asked for.
func TestSlowHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub live.Hub
		u, err := New(Options{Changes: &hub})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		state, asked := "one", 0
		page := func(r Request) (View, error) {
			reply, err := r.AskWithin(slowHost, route.Asked{Method: "GET", Target: "/host"})
			mu.Lock()
			defer mu.Unlock()
			return View{Title: "x", Template: "refusal", Data: fmt.Sprint(state, " ", string(reply.Body), err), Topics: []string{"host"}}, nil
		}
		c := callOf(auth.Identity{UserID: "u-ann", TokenName: "token-ann"}, "/dashboard/x")
		r := requestOf(c, false)
		r.AskWithin = func(limit time.Duration, _ route.Asked) (route.Reply, error) {
			time.Sleep(limit)
			mu.Lock()
			defer mu.Unlock()
			asked++
			return route.Reply{Body: fmt.Append(nil, "silent ", asked)}, nil
		}
		v, other := u.board.Open(), u.board.Open()
		v.Show("k", u.drawn(r, page, false))
		defer time.Sleep(time.Minute)
		defer v.Close()
		defer other.Close()
		shows := func(after time.Duration) string {
			time.Sleep(after)
			synctest.Wait()
			d, _ := v.Now()
			return string(d.Plain)
		}
		if got := shows(time.Second); got != "" {
			t.Errorf("before the host has answered for the first time the page shows %q", got)
		}
		plain := func(Request) (View, error) { return View{Title: "x", Template: "refusal", Data: "other"}, nil }
		other.Show("o", u.drawn(r, plain, false))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if _, ok := other.Now(); !ok {
			t.Error("while a host is silent no other page is drawn")
		}
		if got := shows(slowHost); !strings.Contains(got, "one silent 1") {
			t.Errorf("once the host has not answered the page shows %q", got)
		}
		mu.Lock()
		state = "two"
		mu.Unlock()
		hub.Changed("host")
		if got := shows(300 * time.Millisecond); !strings.Contains(got, "two silent 1") {
			t.Errorf("0.3 s after a change the page shows %q", got)
		}
		if got := shows(mostRestAnswers + 2*slowHost); !strings.Contains(got, "two silent 2") {
			t.Errorf("some time after a change the page shows %q", got)
		}
		if got := shows(time.Minute); !strings.Contains(got, "two silent 2") {
			t.Errorf("without a change the host was asked again: %q", got)
		}
	})
}

// TestCommonPagesAskNobody: what all may see is not asked for in the name of one.
func TestCommonPagesAskNobody(t *testing.T) {
	r := requestOf(callOf(auth.Identity{UserID: "u-ann", TokenName: "token-ann"}, "/dashboard/x"), true)
	if _, err := r.Ask(route.Asked{}); err == nil {
		t.Error("a common page asked the API")
	}
	if _, err := r.AskWithin(time.Second, route.Asked{}); err == nil {
		t.Error("a common page asked the API within a time")
	}
}
