//go:build e2e

package ui

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	cdp "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/server/records"
)

// TestTextOutlivesTheSession: who edits a document while the session ends keeps the text, and sends it once more.
func TestTextOutlivesTheSession(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.logIn(s, "admin", password)
	b.do(navigate("https://"+s.address+"/dashboard/clusters/fleet-default/harbour/change"), chromedp.WaitVisible("#text"))
	for _, d := range s.st.TokensByUser.Find("u-admin") {
		must(t, s.auth.RevokeToken(t.Context(), d.Key))
	}
	b.do(chromedp.SendKeys("#text", "# typed by hand\n"))
	b.see("This is not checked while you type: your session is over.")
	b.do(chromedp.Click("button[value=preview]"))
	b.see("Nothing was done: your session is over.")
	b.until(`document.querySelector("textarea").value.includes("# typed by hand")`)
	tab, end := chromedp.NewContext(b.ctx)
	defer end()
	beside := &browser{t: t, ctx: tab, shots: b.shots}
	must(t, chromedp.Run(tab))
	beside.logIn(s, "admin", password)
	b.do(chromedp.Click("form[data-kept] button.main"))
	b.see("Nothing would change.")
	b.until(`document.querySelector("#text").value.includes("# typed by hand")`)
}

// TestDownloadSays: a file is downloaded as often as the button is pressed, and the page says so.
func TestDownloadSays(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.logIn(s, "admin", password)
	dir := t.TempDir()
	b.do(
		cdp.SetDownloadBehavior(cdp.SetDownloadBehaviorBehaviorAllowAndName).WithDownloadPath(dir).WithEventsEnabled(true),
		navigate("https://"+s.address+"/dashboard/do/kubeconfig/fleet-default/harbour"), chromedp.WaitVisible("form[data-file]"),
	)
	for n := 1; n <= 2; n++ {
		b.do(chromedp.Evaluate(`document.querySelector("[data-told]").textContent = ""`, nil), chromedp.Click("form[data-file] button.main"))
		b.see("harbour.yaml was downloaded at")
		deadline := time.Now().Add(20 * time.Second)
		for found := []os.DirEntry(nil); len(found) < n; time.Sleep(50 * time.Millisecond) {
			var err error
			found, err = os.ReadDir(dir)
			must(t, err)
			if time.Now().After(deadline) {
				t.Fatalf("press %d: %d files", n, len(found))
			}
		}
	}
	for _, d := range s.st.TokensByUser.Find("u-admin") {
		must(t, s.auth.RevokeToken(t.Context(), d.Key))
	}
	b.do(chromedp.Click("form[data-file] button.main"))
	b.see("Nothing was done: your session is over.")
}

// TestSaysThatItWasAway: a page that was away says from when to when, by the server's clock, until a user has read it.
func TestSaysThatItWasAway(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`window.realNow = Date.now; Date.now = () => realNow() + 5 * 3600e3`).Do(ctx)
		return err
	}))
	b.logIn(s, "admin", password)
	b.do(navigate("https://"+s.address+"/dashboard/clusters"), chromedp.WaitVisible("h1", chromedp.ByQuery))
	s.stop()
	b.see("Away since")
	const recent = `[...Array(90).keys()].some((s) => TEXT.includes(new Date(realNow() - s * 1000).toLocaleTimeString()))`
	b.until(strings.ReplaceAll(recent, "TEXT", `document.getElementById("away").textContent`))
	s.start()
	b.until(`document.getElementById("away").hidden`)
	b.see("Away from")
	b.until(strings.ReplaceAll(recent, "TEXT", `document.getElementById("was").textContent.split(" to ")[1]`))
	b.do(chromedp.Click("#was button"))
	b.until(`document.getElementById("was").hidden`)
}

// TestLogStaysOnPage: what was read of a host stays when the host goes away.
func TestLogStaysOnPage(t *testing.T) {
	s, b := serve(t, func(o *api.Options) { o.Hosts = nil }), open(t)
	s.user("admin", true)
	s.fill()
	connection := records.Connection{Subject: "fleet-default/custom-00000001", Replica: "r1", Since: time.Now()}
	create(t, s.st.Connections, connection.Key(), connection)
	b.logIn(s, "admin", password)
	b.do(navigate("https://"+s.address+"/dashboard/machines/fleet-default/custom-00000001"), chromedp.WaitVisible("[data-pour]"))
	b.clickUntil("[data-pour]", shows("no way to the hosts")) // the server of this test
	must(t, s.st.Connections.Delete(t.Context(), connection.Key(), 0))
	b.see("The host is away")
	b.see("no way to the hosts")
}
