//go:build e2e

package ui

// All pages, in all their states: what axe-core says of them, whether they fit the window, and their pictures.

import (
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/server/records"
)

const harbour = "clusters/fleet-default/harbour"

// pages are those that one gets by an address alone, by the names of their pictures. The crawl finds the others.
var pages = []struct{ name, path string }{
	{"clusters", "clusters"}, {"clusters-none-fits", "clusters?q=no-such"}, {"cluster", harbour}, {"cluster-large", "clusters/fleet-default/dockyard"}, {"cluster-new", "clusters/fleet-default/lighthouse"},
	{"cluster-exported", "clusters/fleet-default/drydock"}, {"join", harbour + "/join"}, {"join-without-role", harbour + "/join?labels=rack%3Da"}, {"join-docker", "clusters/fleet-default/shipyard/join"},
	{"machines", "machines"}, {"machines-of-one", "machines?cluster=c-m-00000000"}, {"machine", "machines/fleet-default/custom-00000007"}, {"machine-draining", "machines/fleet-default/custom-00000005"},
	{"machine-docker", "machines/c-shipy/m-4f1c2a9be044"}, {"operation", "operations/op-abcdefgh"}, {"operation-failed", "operations/op-cccccccc"}, {"operation-stopping", "operations/op-eeeeeeee"},
	{"change", harbour + "/change"}, {"new", "new"}, {"terminal", harbour + "/terminal"}, {"terminal-line", harbour + "/terminal?line=get+pods"},
	{"roles", "roles"}, {"bindings", "bindings"}, {"servers", "servers"}, {"fleets", "fleets"}, {"fleet", "fleets/yard"}, {"versions", "versions"}, {"tokens", "tokens"}, {"users", "users"},
	{"settings", "settings"}, {"audit", "audit"}, {"password", "password"}, {"restore-chosen", "do/restore/fleet-default/harbour?snapshot=etcd-pier-1-1"}, {"snapshot-named", "do/snapshot/fleet-default/quay?snapshot=before"},
	{"upgrade-findings", "do/upgrade/fleet-default/quay?version=v1.34.4%2Bk3s1"}, {"rehearse-chosen", "do/rehearse/fleet-default/harbour?snapshot=etcd-pier-1-1&fleet=yard"},
	{"rotation", "do/rotate-certificates/fleet-default/quay"}, {"over", "do/resume/fleet-default/harbour"},
}

// refused are addresses that lead nowhere, and their status.
var refused = []struct {
	name, path string
	status     int
}{
	{"404", "nothing-here", 404}, {"404-cluster", "clusters/fleet-default/no-such", 404}, {"422", "audit?since=x", 422}, {"404-action", "do/no-such", 404},
}

// TestPages looks at every page that an administrator can come to: by an address, by a link, or by sending a form.
func TestPages(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	c := &crawl{browser: b, served: s, axe: axe(t)}
	b.visit(s.at("login"))
	c.whole("login-first")
	b.logIn(s, "admin", password)
	for _, p := range pages {
		c.named(p.name, p.path)
	}
	for _, p := range refused {
		b.visit(s.at(p.path))
		c.status(p.path, p.status)
		c.whole(p.name)
	}
	c.follow()
	for _, action := range actions {
		if !slices.ContainsFunc(c.kinds(), func(kind string) bool { return kind == "do/"+action }) {
			t.Errorf("no page leads to the action %s: the server should have something to do it to", action)
		}
	}
	for _, state := range states {
		state.reach(c)
		c.whole(state.name)
	}
}

// TestPagesOfOthers looks at what a user who is no administrator can come to, which is all there for them, and at what is
// refused to them.
func TestPagesOfOthers(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	c := &crawl{browser: b, served: s, axe: axe(t), quick: true}
	b.logIn(s, "ann", password)
	c.named("clusters", "clusters")
	c.named("cluster", harbour)
	c.follow()
	for _, p := range c.seen {
		for _, hidden := range []string{"quay", "dockyard", "do/pause", "do/new-user", "audit", "servers"} {
			if strings.Contains(p, hidden) {
				t.Errorf("a page leads ann to %s", p)
			}
		}
	}
	c.quick = false
	c.whole("ann-last")
	for _, p := range []struct {
		name, path string
		status     int
	}{{"ann-403", "audit", 403}, {"ann-403-action", "do/pause/fleet-default/harbour", 403}, {"ann-404", "clusters/fleet-default/quay", 404}} {
		b.visit(s.at(p.path))
		c.status(p.path, p.status)
		c.whole(p.name)
	}
	b.visit(s.at(harbour))
	c.whole("ann-cluster")
}

// TestPagesOfANewServer looks at lists without anything in them, and at what a server says that lacks a part.
func TestPagesOfANewServer(t *testing.T) {
	s, b := serve(t, func(o *api.Options) { o.Audit, o.Servers.Peers = nil, nil }), open(t)
	s.user("admin", true)
	s.user("carl", false, func(u *records.User) { u.MustChange = true })
	c := &crawl{browser: b, served: s, axe: axe(t)}
	b.do(navigate(s.at("login")), chromedp.SetValue("[name=username]", "carl"), chromedp.SendKeys("[name=password]", password), chromedp.Click("button.main"), chromedp.WaitVisible("[name=again]"))
	c.whole("password-must")
	b.do(chromedp.Click(".me form button"), chromedp.WaitVisible("[name=username]"))
	b.logIn(s, "admin", password)
	for _, p := range []string{"clusters", "machines", "fleets", "servers", "bindings", "users", "tokens"} {
		c.named("empty-"+p, p)
	}
	b.visit(s.at("audit"))
	c.status("audit", 503)
	c.whole("503")
}

// crawl visits pages, each once.
type crawl struct {
	*browser
	*served
	// axe is what pages are checked by.
	axe string
	// quick is one look at a page and no picture.
	quick bool

	queue, seen []string
	visits      map[string]int // by kindOf
	found       map[string]bool
	ready       bool // the page has axe
}

// most is how many pages of a kind are visited, where more than one shows something else.
var most = map[string]int{"clusters/*": 9, "machines/*": 9, "operations/*": 20}

// kindOf is what pages have in common that differ in what they are about.
func kindOf(to string) string {
	at, err := url.Parse(to)
	if err != nil {
		return to
	}
	parts := strings.Split(strings.TrimPrefix(at.Path, "/dashboard/"), "/")
	kind := parts[0]
	switch {
	case kind == "do" && len(parts) > 1:
		kind += "/" + parts[1]
	case kind == "clusters" && len(parts) > 3:
		kind += "/*/" + parts[3]
	case len(parts) > 1:
		kind += "/*"
	}
	names := make([]string, 0, 3)
	for name := range at.Query() {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.TrimSuffix(kind+"?"+strings.Join(names, "&"), "?")
}

// kinds are those that were visited.
func (c *crawl) kinds() []string {
	var all []string
	for kind := range c.visits {
		all = append(all, strings.TrimSuffix(kind, "?snapshot"))
	}
	slices.Sort(all)
	return all
}

// named visits a page that has a picture under a name.
func (c *crawl) named(name, to string) {
	c.browser.t.Helper()
	c.enter("/dashboard/" + to)
	c.whole(name)
}

// enter visits a page, which has to be there, and notes where it leads.
func (c *crawl) enter(to string) {
	c.browser.t.Helper()
	if c.visits == nil {
		c.visits, c.found = map[string]int{}, map[string]bool{}
	}
	c.visits[kindOf(to)]++
	c.found[to] = true
	c.seen = append(c.seen, to)
	c.visit("https://" + c.address + to)
	c.status(to, 200)
	var links []string
	c.browser.do(chromedp.Evaluate(`[...document.querySelectorAll("a[href]")].filter(a => a.origin === location.origin && a.pathname.startsWith("/dashboard/")).map(a => a.pathname + a.search)`, &links))
	for _, link := range links {
		if !c.found[link] {
			c.found[link] = true
			c.queue = append(c.queue, link)
		}
	}
}

// status holds the status of the page.
func (c *crawl) status(to string, want int) {
	c.browser.t.Helper()
	c.ready = false
	var got int
	c.browser.do(chromedp.Evaluate(`performance.getEntriesByType("navigation")[0].responseStatus`, &got))
	if got != want {
		c.browser.t.Errorf("%s: status %d, want %d", to, got, want)
	}
}

// follow visits what the pages lead to until now, and what those lead to: some of each kind, the first of them with pictures.
func (c *crawl) follow() {
	c.browser.t.Helper()
	for len(c.queue) > 0 {
		to := c.queue[0]
		c.queue = c.queue[1:]
		kind := kindOf(to)
		if c.visits[kind] >= max(1, most[kind]) || strings.Contains(to, "/dashboard/api/") {
			continue
		}
		first := c.visits[kind] == 0 && !strings.Contains(kind, "?")
		c.enter(to)
		name := strings.NewReplacer("/", "-", "*", "one").Replace(kind)
		switch {
		case first && !c.quick && !strings.HasPrefix(kind, "do/"):
			c.whole("found-" + name)
			continue
		case first && !c.quick: // they have one template, of which there are pictures in all forms
			c.shot("found-"+name, 1600, false)
		}
		c.check(name+" "+path.Base(to), 1600, false)
	}
}

// whole is pictures of the page in both colours and two widths, and what axe says of each.
func (c *crawl) whole(name string) {
	c.browser.t.Helper()
	c.ready = false
	if c.quick {
		c.check(name, 1600, false)
		return
	}
	for _, dark := range []bool{false, true} {
		for _, width := range []int64{1600, 390} {
			c.shot(name, width, dark)
			if !dark || width == 1600 { // what colours and widths bring is seen without the fourth
				c.check(name, width, dark)
			}
		}
	}
	c.browser.do(emulation.SetEmulatedMedia())
}

// unfold opens what can be opened, or has it as it was.
const (
	unfold = `for (const d of document.querySelectorAll("details:not([open])")) { d.open = true; d.dataset.opened = ""; }`
	fold   = `for (const d of document.querySelectorAll("details[data-opened]")) { d.open = false; delete d.dataset.opened; }`
)

// check holds that axe-core finds nothing against the page with everything in it opened, and that it fits the window.
func (c *crawl) check(name string, width int64, dark bool) {
	c.browser.t.Helper()
	c.look(width, dark)
	if !c.ready {
		c.browser.do(chromedp.Evaluate(c.axe, nil))
		c.ready = true
	}
	var found string
	var broad bool
	c.browser.do(
		chromedp.Evaluate(unfold, nil),
		chromedp.Evaluate(`axe.run().then(r => JSON.stringify(r.violations.map(v => [v.id, v.help, v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary)])))`, &found,
			func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
		chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &broad),
		chromedp.Evaluate(fold, nil),
	)
	var violations []any
	must(c.browser.t, json.Unmarshal([]byte(found), &violations))
	if len(violations) > 0 {
		c.browser.t.Errorf("%s, %d wide, dark %v: %s", name, width, dark, found)
	}
	if broad {
		c.browser.t.Errorf("%s is broader than a window of %d", name, width)
	}
	for _, fault := range c.noticed() {
		c.browser.t.Errorf("%s: %s", name, fault)
	}
}

// actions are all that people can do.
var actions = []string{
	"kubeconfig", "pause", "resume", "upgrade", "window", "remove-cluster", "snapshot", "restore", "rehearse", "rotate-certificates", "rotate-encryption-keys", "rotate-server-token", "rotate-ca", "update-agents",
	"cordon", "uncordon", "drain", "labels", "rejoin", "remove-machine", "abort", "retry", "hurry", "new-user", "disable-user", "enable-user", "set-password", "remove-user", "new-token", "end-token",
	"set-setting", "give-role", "take-role", "join-fleet", "remove-fleet",
}

// states are pages that need more than an address: each is reached by what a person does.
var states = []struct {
	name  string
	reach func(*crawl)
}{
	{"change-mistake", func(c *crawl) {
		c.visit(c.at(harbour + "/change"))
		c.write(document("harbour", "disabel: [traefik]"))
		c.send("Show what it does")
	}},
	{"change-mistake-typed", func(c *crawl) {
		c.visit(c.at(harbour + "/change"))
		c.write(document("harbour", "disabel: [traefik]"))
		c.until(`document.querySelector("#wrong li")`)
	}},
	{"change-preview", func(c *crawl) {
		c.visit(c.at("clusters/fleet-default/quay/change"))
		c.write(document("quay", "disable: [traefik]"))
		c.send("Show what it does")
		c.see("In this order")
	}},
	{"change-same", func(c *crawl) {
		c.visit(c.at(harbour + "/change"))
		c.send("Show what it does")
		c.see("Nothing would change")
	}},
	{"change-conflict", func(c *crawl) {
		c.visit(c.at(harbour + "/change"))
		c.write(document("harbour", "disable: [traefik]"))
		modify(c.browser.t, c.st.Clusters, "fleet-default/harbour", func(cl *records.Cluster) {
			cl.Generation++
			cl.Spec.KubernetesVersion = "v1.34.3+k3s1"
		})
		c.send("Show what it does")
		c.see("Changed by others since you began")
	}},
	{"new-preview", func(c *crawl) {
		c.visit(c.at("new"))
		c.write(document("jetty", "disable: [traefik]"))
		c.send("Show what it does")
		c.see("jetty created")
	}},
	{"terminal-output", func(c *crawl) {
		c.visit(c.at(harbour + "/terminal"))
		c.browser.do(chromedp.SendKeys("#line", "get pods\r"))
		c.see("web-1")
		c.until(`document.getElementById("stop").disabled`)
	}},
	{"terminal-refused", func(c *crawl) {
		c.visit(c.at(harbour + "/terminal"))
		c.browser.do(chromedp.SendKeys("#line", "get pods | grep web\r"))
		c.see("there is no shell here")
	}},
	{"log-open", func(c *crawl) {
		c.visit(c.at("machines/c-shipy/m-4f1c2a9be044"))
		c.press("log")
		c.until(`document.getElementById("pour").textContent.includes("line 5")`)
	}},
	{"once-token", func(c *crawl) {
		c.visit(c.at("do/new-token"))
		c.browser.do(chromedp.SendKeys("[name=description]", "for the crane"))
		c.submit()
		c.see("It is not shown again")
	}},
	{"once-fleet", func(c *crawl) {
		c.visit(c.at("do/join-fleet"))
		c.browser.do(chromedp.SendKeys("[name=name]", "yard"))
		c.submit()
		c.see("Run this as root on the host")
	}},
	{"notice", func(c *crawl) {
		c.visit(c.at("do/pause/fleet-default/quay"))
		c.submit()
		c.see("The cluster is paused: nothing new begins")
	}},
	{"action-unsure", func(c *crawl) {
		c.visit(c.at("do/remove-cluster/fleet-default/island"))
		c.browser.do(chromedp.SendKeys("[name=sure]", "inland"))
		c.submit()
		c.see("Type island to do this")
	}},
	{"action-refused", func(c *crawl) {
		c.visit(c.at("do/give-role"))
		c.browser.do(chromedp.SendKeys("[name=user]", "u-nobody"), chromedp.SendKeys("[name=role]", "no-such"))
		c.submit()
		c.until(`document.querySelector(".fault")`)
	}},
	{"away", func(c *crawl) {
		c.visit(c.at(harbour))
		c.stop()
		c.see("Away since")
	}},
	{"back", func(c *crawl) {
		c.start()
		c.until(`document.getElementById("away").hidden`)
	}},
	{"login-over", func(c *crawl) {
		c.visit(c.at("users"))
		c.endSessions("u-admin")
		c.see("Your session is over")
	}},
	{"login-fault", func(c *crawl) {
		c.browser.do(chromedp.SetValue("[name=username]", "admin"), chromedp.SendKeys("[name=password]", "wrong"))
		c.leave(func() { c.browser.do(chromedp.Click("button.main")) })
		c.see("do not belong together")
	}},
	{"login-directories", func(c *crawl) {
		for _, d := range []records.Directory{
			{Kind: records.OpenLDAP, DisplayName: "Harbour office", LDAP: &records.LDAPDirectory{URL: "ldaps://192.0.2.5", Users: records.LDAPUsers{Base: "ou=people"}}},
			{Kind: records.GenericOIDC, OIDC: &records.OIDCDirectory{Issuer: "https://login.example", ClientID: "drover"}},
			{Kind: records.GitHub, GitHub: &records.GitHubDirectory{ClientID: "drover"}},
		} {
			create(c.browser.t, c.st.Directories, d.Kind, d)
		}
		c.visit(c.at("login"))
		c.see("Log in with GitHub")
	}},
}

// document is one of a cluster of k3s, with a setting.
func document(name, setting string) string {
	return "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata:\n  name: " + name + "\nspec:\n  kubernetesVersion: v1.34.4+k3s1\n  rkeConfig:\n    machineGlobalConfig:\n      " + setting + "\n"
}

// endSessions ends all sessions of a user, as a user does who logs out elsewhere.
func (s *served) endSessions(user string) {
	s.t.Helper()
	for _, d := range s.st.TokensByUser.Find(user) {
		if d.Value.Session {
			must(s.t, s.auth.RevokeToken(s.t.Context(), d.Key))
		}
	}
}
