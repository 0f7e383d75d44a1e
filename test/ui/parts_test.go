//go:build e2e

package ui

// The parts of the page that scripts make: the terminal, logs as they come, the button that copies, colours.

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	chromium "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/drover-project/drover/server/records"
)

// await waits for what a promise comes to.
func await(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// TestTerminal: output comes as it is printed, a line can be stopped and had again, and what is printed is text.
func TestTerminal(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.logIn(s, "admin", password)
	b.visit(s.at(harbour + "/terminal"))
	b.do(chromedp.SendKeys("#line", "logs -f web-1\r"))
	b.see("line 3 of web-1")
	if !b.is(`!document.getElementById("stop").disabled`) {
		t.Error("a line that runs cannot be stopped")
	}
	b.do(chromedp.SendKeys("#line", "get pods\r")) // one runs at a time: it stays in the field
	b.until(`document.getElementById("line").value === "get pods"`)
	b.do(chromedp.Click("#stop"))
	b.see("drover: stopped")
	b.do(chromedp.SendKeys("#line", "\r"))
	b.see("Pending")
	b.until(`document.getElementById("output").textContent.includes("<img src=x onerror=alert(1)>") && !document.querySelector("#output img")`)
	b.do(chromedp.SendKeys("#line", kb.ArrowUp+kb.ArrowUp))
	b.until(`document.getElementById("line").value === "logs -f web-1"`)
	b.do(chromedp.SendKeys("#line", kb.ArrowDown))
	b.until(`document.getElementById("line").value === "get pods"`)
}

// TestLogsPour: output of a plan and the journals of units come as they are written; one at a time, in the place that stays
// where the page is drawn again.
func TestLogsPour(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.logIn(s, "admin", password)
	b.visit(s.at("machines/fleet-default/custom-00000007"))
	b.press("output of its plan")
	b.until(`document.getElementById("pour").textContent.includes("install: line 3 of the plan on fleet-default/custom-00000007")`)
	b.press("k3s-agent")
	b.until(`/line 3 of \/v1\/logs\?.*unit=k3s-agent/.test(document.getElementById("pour").textContent)`)
	if b.is(`document.getElementById("pour").textContent.includes("of the plan")`) {
		t.Error("two logs are poured into one")
	}
	modify(t, s.st.Machines, "fleet-default/custom-00000007", func(m *records.Machine) { m.Status.Cause = "the log stays" })
	b.see("the log stays")
	b.until(`document.getElementById("pour").textContent.includes("line 40 of ")`)

	// The end is followed also where it has moved because the window is narrower by now, until a user scrolls away from it.
	const atEnd = `(p => p.scrollHeight > p.clientHeight && p.scrollTop + p.clientHeight >= p.scrollHeight - 4)(document.getElementById("pour"))`
	b.until(atEnd)
	b.do(chromedp.EmulateViewport(320, 900))
	b.until(`document.getElementById("pour").textContent.includes("line 60 of ") && ` + atEnd)
	b.do(chromedp.Evaluate(`document.getElementById("pour").scrollTop = 0`, nil))
	b.until(`document.getElementById("pour").textContent.includes("line 80 of ")`)
	if b.is(atEnd) {
		t.Error("somebody who reads the beginning is carried to the end")
	}
}

// TestCopies: the button has the command in the clipboard, and says so.
func TestCopies(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.logIn(s, "admin", password)
	b.do(chromium.GrantPermissions([]chromium.PermissionType{chromium.PermissionTypeClipboardReadWrite, chromium.PermissionTypeClipboardSanitizedWrite}))
	b.visit(s.at(harbour + "/join?etcd=on&labels=rack%3Da"))
	var shown, copied string
	b.do(chromedp.Text("#run ~ pre", &shown), chromedp.Click("button.main[data-copy]"))
	b.until(`document.querySelector("button.main[data-copy]").textContent === "copied"`)
	b.do(chromedp.Evaluate(`navigator.clipboard.readText()`, &copied, await))
	if copied != shown || !strings.Contains(copied, "--etcd --label rack=a") || strings.Contains(copied, "--worker") {
		t.Errorf("the page shows %q, and %q was copied", shown, copied)
	}
	b.until(`document.querySelector("button.main[data-copy]").textContent === "Copy"`)
}

// TestColours: as the system, dark or light, kept over pages.
func TestColours(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	b.look(1200, false)
	b.logIn(s, "admin", password)
	paper := func() (colour string) {
		t.Helper()
		b.do(chromedp.Evaluate(`getComputedStyle(document.documentElement).backgroundColor`, &colour))
		return colour
	}
	light := paper()
	b.look(1200, true)
	dark := paper()
	if light == dark {
		t.Fatalf("light and dark are %s", light)
	}
	for _, want := range []string{dark, light, dark} { // dark, light, and again that of the system
		b.do(chromedp.Click(".look"))
		if got := paper(); got != want {
			t.Errorf("the paper is %s, want %s", got, want)
		}
		b.do(chromedp.Reload(), chromedp.WaitVisible("h1", chromedp.ByQuery))
		if got := paper(); got != want {
			t.Errorf("after a reload the paper is %s, want %s", got, want)
		}
	}
}

// TestBack: the way back leads to the page as it was asked for, which goes on following the server.
func TestBack(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.logIn(s, "admin", password)
	b.visit(s.at("clusters?sort=-name"))
	b.leave(func() { b.press("harbour") })
	b.leave(func() { b.press("pier-8") })
	b.see("no space left on device")
	b.do(chromedp.NavigateBack(), chromedp.WaitVisible("h1", chromedp.ByQuery))
	b.see("Machines by tier")
	b.do(chromedp.NavigateBack(), chromedp.WaitVisible("h1", chromedp.ByQuery))
	b.until(`location.search === "?sort=-name" && document.querySelector("tbody th").textContent.includes("shipyard")`)
	modify(t, s.st.Clusters, "fleet-default/shipyard", func(c *records.Cluster) { c.Status.Message = "the tide is out" })
	b.see("the tide is out")
	b.do(chromedp.NavigateForward(), chromedp.WaitVisible("h1", chromedp.ByQuery))
	b.see("Machines by tier")
}

// TestKubeconfig is a file, not a page.
func TestKubeconfig(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.logIn(s, "admin", password)
	dir := t.TempDir()
	b.do(chromium.SetDownloadBehavior(chromium.SetDownloadBehaviorBehaviorAllow).WithDownloadPath(dir))
	b.visit(s.at("do/kubeconfig/fleet-default/harbour"))
	b.do(chromedp.Click("form[data-file] button.main"))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(dir, "harbour.yaml"))
		if err == nil && strings.Contains(string(text), "/k8s/clusters/c-m-00000000") && strings.Contains(string(text), "token:") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no kubeconfig came: %v: %s", err, text)
		}
	}
	b.see("A file by which kubectl reaches the cluster") // the page is still there
}
