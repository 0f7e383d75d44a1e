//go:build e2e

package ui

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/drover-project/drover/server/records"
)

// TestChangesAppear: a change of state is on the screen without a reload, what a user opened stays open, and the page
// outlives the server, and a stream that is cut.
func TestChangesAppear(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.logIn(s, "admin", password)
	b.do(
		navigate("https://"+s.address+"/dashboard/clusters/fleet-default/harbour"), chromedp.WaitVisible("h1", chromedp.ByQuery),
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
	b.do(navigate("https://"+s.address+"/"), chromedp.WaitVisible("form", chromedp.ByQuery))
	b.see("This server is new")
	b.do(chromedp.SendKeys("[name=password]", "wrong"), chromedp.Click("button.main"))
	b.see("do not belong together")
	b.do(chromedp.SendKeys("[name=password]", password), chromedp.Click("button.main"), chromedp.WaitVisible("[name=again]"))
	b.do(chromedp.SendKeys("[name=current]", password), chromedp.SendKeys("[name=new]", "battery staple horse"), chromedp.SendKeys("[name=again]", "battery staple horse"), chromedp.Click("button.main"))
	b.see("There is no cluster yet")
	b.do(chromedp.Click(".look"), chromedp.WaitVisible("html[data-look=dark]", chromedp.ByQuery), chromedp.Reload(), chromedp.WaitVisible("html[data-look=dark]", chromedp.ByQuery))
	b.do(chromedp.Click(".me form button"), chromedp.WaitVisible("[name=password]"))
}

// TestAStreamThatIsCut: as a proxy does it that ends each stream after a while. The page says nothing of it, keeps its
// content and shows what changes.
func TestAStreamThatIsCut(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.logIn(s, "admin", password)
	b.visit(s.at(harbour))
	b.do(chromedp.Evaluate(`
		window.sameDocument = true;
		window.told = [];
		window.emptied = 0;
		new MutationObserver(() => { const away = document.getElementById("away"); if (!away.hidden) told.push(away.textContent); }).observe(document.getElementById("away"), { attributes: true, childList: true });
		new MutationObserver(() => { if (!document.querySelector("main h1")) emptied++; }).observe(document.getElementById("main"), { childList: true });
	`, nil))
	for i, gap := range []time.Duration{1400, 1400, 1400, 700, 700, 300, 300, 1600, 1600, 1400} {
		text := "cut number " + strconv.Itoa(i)
		s.web.CloseClientConnections()
		modify(t, s.st.Machines, "fleet-default/custom-00000007", func(m *records.Machine) { m.Status.Cause = text })
		b.see(text)
		time.Sleep(gap * time.Millisecond)
	}
	time.Sleep(2 * time.Second) // what is said late
	var told []string
	var emptied int
	b.do(chromedp.Evaluate(`told`, &told), chromedp.Evaluate(`emptied`, &emptied))
	if len(told) > 0 || emptied > 0 || !b.is("window.sameDocument") {
		t.Errorf("the page said %q, was empty %d times, and is the same: %v", told, emptied, b.is("window.sameDocument"))
	}
}

// TestAWrongClock: ages, and since when the server is away, go by the server's clock, however wrong that of the browser is.
func TestAWrongClock(t *testing.T) {
	for _, off := range []string{"5 * 3600e3", "-11 * 3600e3"} {
		s, b := serve(t), open(t)
		s.user("admin", true)
		s.fill()
		b.do(chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(`{
				const Real = Date, off = ` + off + `;
				window.Date = class extends Real { constructor(...given) { if (given.length) super(...given); else super(Real.now() + off); } static now() { return Real.now() + off; } };
				window.rightTime = () => new Real().toLocaleTimeString();
			}`).Do(ctx)
			return err
		}))
		b.logIn(s, "admin", password)
		b.visit(s.at("machines/fleet-default/custom-00000007")) // since seven hours
		b.until(`/^7h(\d+m)? ago$/.test(document.querySelector("dl.facts time").textContent)`)
		modify(t, s.st.Machines, "fleet-default/custom-00000007", func(m *records.Machine) { m.Status.Since = time.Now().Add(-3 * time.Hour) })
		b.until(`/^3h(\d+m)? ago$/.test(document.querySelector("dl.facts time").textContent)`)
		before := time.Now()
		s.stop()
		b.see("Away since")
		var told string
		b.do(chromedp.Text("#away", &told))
		right := false
		for at := before.Add(-time.Second); !at.After(time.Now()); at = at.Add(time.Second) {
			var is bool
			b.do(chromedp.Evaluate(`document.getElementById("away").textContent.includes(new Date(`+strconv.FormatInt(at.UnixMilli(), 10)+`).toLocaleTimeString())`, &is))
			right = right || is
		}
		if !right {
			t.Errorf("a clock that is %s ms wrong: %s", off, told)
		}
	}
}

// TestASessionThatEndedElsewhere: whatever page is open, what is done next is not done, and the page says why. A page that
// only shows something leads to the login and from there back; what was sent is kept, and goes through once a user has logged in
// beside it.
func TestASessionThatEndedElsewhere(t *testing.T) {
	enter := func(b *browser) { b.do(chromedp.SendKeys("#line", "\r")) }
	more := func(b *browser) { b.send("Send it once more") }
	for _, c := range []struct {
		name, path string
		// act is what a user does on the page, and again what they do to have it done after all; nil where it notices by itself.
		act, again func(*browser)
		sees       string
	}{
		{"a cluster", harbour, nil, nil, "Machines by tier"},
		{"an editor", harbour + "/change", func(b *browser) { b.press("Show what it does") }, more, "Nothing would change"},
		{"an action", "do/pause/fleet-default/harbour", func(b *browser) { b.do(chromedp.Click("form[data-once] button.main")) }, more, "The cluster is paused"},
		{"a terminal", harbour + "/terminal", func(b *browser) { b.do(chromedp.SendKeys("#line", "get pods\r")) }, enter, "web-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, b := serve(t), open(t)
			s.user("admin", true)
			s.fill()
			b.logIn(s, "admin", password)
			b.visit(s.at(c.path))
			s.endSessions("u-admin")
			if c.act != nil {
				c.act(b)
			}
			b.see("our session is over")
			if d, _ := s.st.Clusters.Get("fleet-default/harbour"); d.Value.Paused != nil {
				t.Error("it was done without a session")
			}
			if c.again == nil {
				b.do(chromedp.SetValue("[name=username]", "admin"), chromedp.SendKeys("[name=password]", password), chromedp.Click("button.main"), chromedp.WaitVisible("header nav", chromedp.ByQuery))
			} else {
				tab, end := chromedp.NewContext(b.ctx)
				defer end()
				must(t, chromedp.Run(tab))
				(&browser{t: t, ctx: tab, shots: b.shots}).logIn(s, "admin", password)
				c.again(b)
			}
			b.see(c.sees)
		})
	}
}
