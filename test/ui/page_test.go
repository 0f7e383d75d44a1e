//go:build e2e

package ui

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/drover-project/drover/server/records"
)

func quote(text string) string { return strconv.Quote(text) }

// pages are all of them, by the names of their pictures.
var pages = []struct{ name, path string }{
	{"clusters", "clusters"}, {"cluster", "clusters/fleet-default/harbour"}, {"cluster-large", "clusters/fleet-default/dockyard"}, {"cluster-new", "clusters/fleet-default/lighthouse"},
	{"join", "clusters/fleet-default/harbour/join"}, {"machines", "machines"}, {"machine", "machines/fleet-default/custom-00000007"}, {"operation", "operations/op-abcdefgh"},
	{"change", "clusters/fleet-default/harbour/change"}, {"new", "new"}, {"pause", "do/pause/fleet-default/harbour"}, {"restore", "do/restore/fleet-default/harbour"}, {"remove", "do/remove-cluster/fleet-default/quay"},
	{"new-user", "do/new-user"}, {"give-role", "do/give-role"}, {"setting", "do/set-setting/ui-brand"}, {"roles", "roles"}, {"bindings", "bindings"}, {"servers", "servers"}, {"fleet", "fleets/yard"},
	{"fleets", "fleets"}, {"versions", "versions"}, {"tokens", "tokens"}, {"users", "users"}, {"settings", "settings"}, {"audit", "audit"}, {"password", "password"}, {"nothing", "nothing-here"},
}

// TestPages looks at every page in both colours and two widths, and has axe-core check each of them.
func TestPages(t *testing.T) {
	s, b, check := serve(t), open(t), axe(t)
	s.user("admin", true)
	s.fill()
	b.do(chromedp.Navigate("https://"+s.address+"/dashboard/login"), chromedp.WaitVisible("form"))
	b.both("login", check)
	b.logIn(s, "admin", password)
	for _, p := range pages {
		b.do(chromedp.Navigate("https://"+s.address+"/dashboard/"+p.path), chromedp.WaitVisible("h1"))
		b.both(p.name, check)
	}
}

// both is pictures in all forms, and what axe says of each.
func (b *browser) both(name, check string) {
	b.t.Helper()
	for _, dark := range []bool{false, true} {
		for _, width := range []int64{1600, 390} {
			b.shot(name, width, dark)
			var found string
			b.do(
				chromedp.Evaluate(check, nil),
				chromedp.Evaluate(`axe.run().then(r => JSON.stringify(r.violations.map(v => [v.id, v.help, v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary)])))`, &found,
					func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
			)
			var violations []any
			must(b.t, json.Unmarshal([]byte(found), &violations))
			if len(violations) > 0 {
				b.t.Errorf("%s, %d wide, dark %v: %s", name, width, dark, found)
			}
			var broad bool
			b.do(chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &broad))
			if broad {
				b.t.Errorf("%s is broader than a window of %d", name, width)
			}
		}
	}
}

// TestChangesAppear: a change of state is on the screen without a reload, what somebody opened stays open, and the page
// outlives the server, and a stream that is cut.
func TestChangesAppear(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.logIn(s, "admin", password)
	b.do(
		chromedp.Navigate("https://"+s.address+"/dashboard/clusters/fleet-default/harbour"), chromedp.WaitVisible("h1"),
		chromedp.Evaluate(`window.sameDocument = true; document.querySelector(".causes details").open = true`, nil),
	)
	cause := func(text string) time.Time {
		t.Helper()
		_, err := s.st.Machines.Modify(t.Context(), "fleet-default/custom-00000007", func(m records.Machine) (records.Machine, error) {
			m.Status.Cause = text
			return m, nil
		})
		must(t, err)
		return time.Now()
	}
	began := cause("the crane fell on it")
	b.see("the crane fell on it")
	t.Logf("on the screen %v after the commit", time.Since(began).Round(time.Millisecond))
	var same, opened bool
	b.do(chromedp.Evaluate(`window.sameDocument === true`, &same), chromedp.Evaluate(`document.querySelector(".causes details").open`, &opened))
	if !same || !opened {
		t.Errorf("the same document: %v; what was opened is open: %v", same, opened)
	}
	s.stop()
	b.see("Away since")
	cause("it was lifted while the server was away")
	s.start()
	b.see("it was lifted while the server was away")
	b.until(`document.getElementById("away").hidden`)
	for range 3 {
		s.web.CloseClientConnections()
	}
	cause("after a cut")
	b.see("after a cut")
	for _, d := range s.st.TokensByUser.Find("u-admin") {
		must(t, s.auth.RevokeToken(t.Context(), d.Key))
	}
	b.see("Your session is over")
	var at string
	if b.do(chromedp.Location(&at)); !strings.Contains(at, "to=%2Fdashboard%2Fclusters%2Ffleet-default%2Fharbour") {
		t.Errorf("the session is over, and the page is %s", at)
	}
	b.do(chromedp.SetValue("[name=username]", "admin"), chromedp.SendKeys("[name=password]", password), chromedp.Click("button.main"))
	b.see("after a cut")
}

// TestFirstStart: the password of the first start is good for one thing, to choose another.
func TestFirstStart(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	_, err := s.st.Users.Modify(t.Context(), "u-admin", func(u records.User) (records.User, error) { u.MustChange = true; return u, nil })
	must(t, err)
	b.do(chromedp.Navigate("https://"+s.address+"/"), chromedp.WaitVisible("form"))
	b.see("This server is new")
	b.do(chromedp.SendKeys("[name=password]", "wrong"), chromedp.Click("button.main"))
	b.see("do not belong together")
	b.do(chromedp.SendKeys("[name=password]", password), chromedp.Click("button.main"), chromedp.WaitVisible("[name=again]"))
	b.do(chromedp.SendKeys("[name=current]", password), chromedp.SendKeys("[name=new]", "battery staple horse"), chromedp.SendKeys("[name=again]", "battery staple horse"), chromedp.Click("button.main"))
	b.see("There is no cluster yet")
	b.do(chromedp.Click(".look"), chromedp.WaitVisible("html[data-look=dark]", chromedp.ByQuery), chromedp.Reload(), chromedp.WaitVisible("html[data-look=dark]", chromedp.ByQuery))
	b.do(chromedp.Click(".me form button"), chromedp.WaitVisible("[name=password]"))
}

// TestWithoutScripts: logging in and reading need none.
func TestWithoutScripts(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.do(page.SetBypassCSP(false), chromedp.ActionFunc(noScripts))
	b.logIn(s, "admin", password)
	var text string
	b.do(chromedp.Navigate("https://"+s.address+"/dashboard/clusters/fleet-default/harbour"), chromedp.Text("main", &text))
	for _, wanted := range []string{"pier-2", "What to do", "Upgrade harbour", "Snapshots"} {
		if !strings.Contains(text, wanted) {
			t.Errorf("the page does not show %q: %s", wanted, text)
		}
	}
}
