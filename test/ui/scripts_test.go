//go:build e2e

package ui

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestWithoutScripts: logging in, reading and doing need none.
func TestWithoutScripts(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.do(chromedp.ActionFunc(noScripts))
	b.logIn(s, "admin", password)
	for _, p := range pages {
		b.visit(s.at(p.path))
		var title, text string
		var unusable int
		b.do(
			chromedp.Text("h1", &title, chromedp.ByQuery), chromedp.Text("main", &text, chromedp.ByQuery),
			chromedp.Evaluate(`[...document.querySelectorAll(".js, #pour, #stop")].filter(e => e.checkVisibility()).length`, &unusable),
		)
		if title == "" || len(text) < len(title)+20 || unusable > 0 {
			t.Errorf("%s: heading %q, %d buttons that do nothing: %s", p.path, title, unusable, text)
		}
	}
	b.visit(s.at(harbour))
	for _, wanted := range []string{"pier-2", "What to do", "Upgrade harbour", "Snapshots"} {
		b.see(wanted)
	}
	follow := func(selector string) {
		t.Helper()
		b.do(chromedp.Click(selector, chromedp.BySearch))
	}
	b.until(`/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/.test(document.querySelector("main time").textContent)`)
	// An action.
	follow(`//main//a[normalize-space()="Pause"]`)
	b.see("Nothing new begins on the machines")
	follow(`//form[@data-once]//button`)
	b.see("The cluster is paused: nothing new begins")
	// A change, with a mistake and then without.
	b.visit(s.at("new"))
	b.do(chromedp.SetValue("#text", document("jetty", "disabel: [traefik]")))
	follow(`//button[normalize-space()="Show what it does"]`)
	b.see("is not a setting of")
	b.do(chromedp.SetValue("#text", document("jetty", "disable: [traefik]")))
	follow(`//button[normalize-space()="Show what it does"]`)
	b.see("jetty created")
	follow(`//button[normalize-space()="Apply exactly this"]`)
	b.see("Join a host")
	if _, ok := s.st.Clusters.Get("fleet-default/jetty"); !ok {
		t.Error("the cluster was not made")
	}
	// A line in the terminal.
	b.visit(s.at(harbour + "/terminal?line=get+pods"))
	follow(`//form[@id="prompt"]//button[normalize-space()="Run"]`)
	b.see("web-1")
	b.see("<img src=x onerror=alert(1)>")
}
