//go:build e2e

package ui

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/drover-project/drover/test/markup"
)

// TestMarkupInTheBrowser: whatever stands in the documents that the server keeps, the browser makes no element and no script
// of it, on a page as it is loaded and as it changes.
func TestMarkupInTheBrowser(t *testing.T) {
	for _, text := range markup.Texts {
		s, b := serve(t), open(t)
		s.user("admin", true)
		s.fill()
		b.logIn(s, "admin", password)
		b.visit(s.at(harbour))
		_, err := markup.Everywhere(t.Context(), s.st, text)
		must(t, err)
		b.see(text[:15]) // by its stream
		b.harmless("the stream of a cluster")
		for _, p := range pages {
			if !strings.Contains(p.path, "op-bbbbbbbb") {
				b.visit(s.at(p.path))
				b.harmless(p.path)
			}
		}
	}
}

func (b *browser) harmless(name string) {
	b.t.Helper()
	var made []string
	b.do(
		chromedp.Evaluate(unfold, nil),
		chromedp.Evaluate(`[...document.querySelectorAll("main img, main script, [onerror], a[href^='javascript:'], iframe")].map(e => e.outerHTML)`, &made),
	)
	if faults := append(made, b.noticed()...); len(faults) > 0 {
		b.t.Errorf("%s: %q", name, faults)
	}
}

// TestFaultsAreNoticed: a test of the page fails by what no page may bring about.
func TestFaultsAreNoticed(t *testing.T) {
	s, b := serve(t), open(t)
	b.visit(s.at("login"))
	for _, c := range []struct{ script, says string }{
		{`setTimeout(() => { throw new Error("a script that breaks"); })`, "a script that breaks"},
		{`setTimeout(() => alert("a dialog"))`, "a dialog"},
		{`{ const s = document.createElement("script"); s.textContent = "1"; document.body.append(s); }`, "Content Security Policy"},
		{`{ const i = new Image(); i.src = "https://other.example/x.png"; document.body.append(i); }`, "Content Security Policy"},
		{`document.body.setAttribute("style", "color: red")`, "Content Security Policy"},
	} {
		b.do(chromedp.Evaluate(c.script, nil))
		b.until("true")
		var found []string
		for range 200 {
			if found = append(found, b.noticed()...); len(found) > 0 {
				break
			}
			b.until("true")
		}
		if !strings.Contains(strings.Join(found, "\n"), c.says) {
			t.Errorf("%s: %q", c.script, found)
		}
	}
}
