//go:build e2e && e2e_full

package ui

// The whole way on the page, over a real server process, a real host and the real k3s: first start, a document with a
// mistake and then without, its preview, the roll-out to Active on the screen, a machine that is stuck and why, a snapshot
// and the way back to it, a second person with fewer rights, and the server killed while the page is open.

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/journey"
	"github.com/drover-project/drover/test/realk3s"
)

// voyage is one way through the page.
type voyage struct {
	*browser
	*journey.Journey
	ctx  context.Context
	host *host.Host
}

func (v *voyage) at(path string) string { return v.URL + "/dashboard/" + path }

// visit opens a page and waits for its heading.
func (v *voyage) visit(path string) {
	v.t.Helper()
	v.browser.do(navigate(v.at(path)), chromedp.WaitVisible("h1", chromedp.ByQuery))
}

// patiently waits for what takes minutes.
func (v *voyage) patiently(what, condition string, most time.Duration) {
	v.t.Helper()
	began := time.Now()
	for !v.is(condition) {
		if time.Since(began) > most {
			var text string
			_ = chromedp.Run(v.browser.ctx, chromedp.Text("body", &text, chromedp.ByQuery))
			log, _ := os.ReadFile(v.ServerLog())
			v.t.Fatalf("%s: not after %s:\n%s\nthe server's log:\n%s", what, most, text, log[max(0, len(log)-8000):])
		}
		time.Sleep(200 * time.Millisecond)
	}
	v.t.Logf("%s: %s", what, time.Since(began).Round(100*time.Millisecond))
}

func TestRollOut(t *testing.T) {
	module, err := filepath.Abs("../..")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	j, err := journey.Start(ctx, journey.Options{
		Dir: t.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Module: module, Say: t.Logf, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	must(t, err)
	t.Cleanup(func() {
		if err := j.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	must(t, j.StartServer(ctx))
	v := &voyage{browser: open(t), Journey: j, ctx: ctx}
	for _, step := range []struct {
		name string
		run  func(*voyage)
	}{
		{"first start", (*voyage).firstStart},
		{"a mistake, and then a cluster", (*voyage).newCluster},
		{"a host joins by the command of the page and is Active on the screen", (*voyage).rollOut},
		{"a machine that is stuck, and why", (*voyage).stuck},
		{"a change, its preview, and its roll-out", (*voyage).change},
		{"the server is killed and is back", (*voyage).killed},
		{"a snapshot, and the way back to it", (*voyage).restore},
		{"somebody with fewer rights", (*voyage).second},
	} {
		ok := t.Run(step.name, func(t *testing.T) {
			outer := v.t
			defer func() { v.t = outer }()
			v.t = t
			step.run(v)
			v.shot("rollout-"+strings.ReplaceAll(strings.ReplaceAll(step.name, " ", "-"), ",", ""), 1400, false)
		})
		if !ok {
			return
		}
	}
}

const chosen = "battery staple horse"

func (v *voyage) firstStart() {
	log, err := os.ReadFile(v.ServerLog())
	must(v.t, err)
	found := regexp.MustCompile(`password[=: ]+"?([0-9A-Za-z-]{12,})`).FindSubmatch(log)
	if found == nil {
		v.t.Fatalf("the log of the first start has no password: %s", log)
	}
	first := string(found[1])
	v.browser.do(navigate(v.URL+"/"), chromedp.WaitVisible("form", chromedp.ByQuery))
	v.see("This server is new")
	v.browser.do(chromedp.SendKeys("[name=password]", first), chromedp.Click("button.main"), chromedp.WaitVisible("[name=again]"))
	v.browser.do(chromedp.SendKeys("[name=current]", first), chromedp.SendKeys("[name=new]", chosen), chromedp.SendKeys("[name=again]", chosen), chromedp.Click("button.main"))
	v.see("There is no cluster yet")
}

func (v *voyage) newCluster() {
	good, err := os.ReadFile(filepath.Join(v.Module, "examples/k3s.yaml"))
	must(v.t, err)
	v.press("New cluster")
	v.browser.do(chromedp.WaitVisible("#text"))
	v.write(strings.Replace(string(good), "disable:", "disabel:", 1))
	v.see("is not a setting of " + realk3s.Version)
	v.browser.do(chromedp.Click("#wrong a"))
	v.until(`document.getElementById("text").value.slice(document.getElementById("text").selectionStart, document.getElementById("text").selectionEnd).includes("disabel")`)
	v.send("Show what it does")
	v.see("disabel") // also for those without scripts
	v.write(string(good))
	v.until(`!document.querySelector("#wrong li")`)
	v.send("Show what it does")
	v.see("harbour created")
	v.send("Apply exactly this")
	v.see("waiting for at least one control plane")
}

func (v *voyage) rollOut() {
	var line string
	v.press("Join a host")
	v.browser.do(chromedp.WaitVisible("[data-copy].main"), chromedp.Evaluate(`document.querySelector("[data-copy].main").dataset.copy`, &line))
	var err error
	v.host, err = v.Host(v.ctx, "pier-1")
	must(v.t, err)
	v.visit("clusters/fleet-default/harbour")
	v.browser.do(chromedp.Evaluate(`window.sameDocument = true`, nil))
	_, err = v.host.Sh(v.ctx, strings.ReplaceAll(line, "| sudo ", "| "))
	must(v.t, err)
	v.patiently("the host is on the screen", shows("pier-1"), 5*time.Minute)
	v.patiently("it is Active on the screen", `document.querySelector(".tiles .good") && `+shows("reached through the server"), 6*time.Minute)
	if !v.is("window.sameDocument") {
		v.t.Error("the page was loaded again")
	}
}

func (v *voyage) stuck() {
	_, err := v.host.Sh(v.ctx, "systemctl stop rancher-system-agent k3s")
	must(v.t, err)
	v.patiently("what is wrong is on the screen", `document.querySelector(".causes li.bad, .causes li.work") && `+shows("What to do"), 4*time.Minute)
	v.press("pier-1")
	v.see("History")
	_, err = v.host.Sh(v.ctx, "systemctl start k3s rancher-system-agent")
	must(v.t, err)
	v.patiently("it is well again", `document.querySelector("dl.facts .state.good") && `+shows("nothing is wrong"), 4*time.Minute)
}

func (v *voyage) change() {
	v.visit("clusters/fleet-default/harbour")
	v.send("Change")
	v.browser.do(chromedp.WaitVisible("#text"))
	var text string
	v.browser.do(chromedp.Value("#text", &text))
	v.write(strings.Replace(text, "0600", "0640", 1))
	v.send("Show what it does")
	v.see("k3s restarts")
	v.until(`[...document.querySelectorAll(".diff .added")].some(l => l.textContent.includes("0640"))`)
	v.shot("rollout-preview", 1400, false)
	v.send("Apply exactly this")
	v.until(`location.pathname.startsWith("/dashboard/operations/")`)
	v.patiently("the operation ends well on the screen", `document.querySelector("dl.facts .state.good")`, 4*time.Minute)
}

func (v *voyage) killed() {
	v.visit("clusters/fleet-default/harbour")
	v.browser.do(chromedp.Evaluate(`window.sameDocument = true`, nil))
	must(v.t, v.KillServer(v.ctx))
	v.see("Away since")
	must(v.t, v.StartServer(v.ctx))
	v.patiently("the page is back", `document.getElementById("away").hidden`, time.Minute)
	if !v.is("window.sameDocument") {
		v.t.Error("the page was loaded again")
	}
	v.patiently("all is well", `document.querySelector(".tiles .good") && `+shows("reached through the server"), 2*time.Minute)
}

// mark writes something that a restore takes away.
func (v *voyage) mark(name string) {
	v.t.Helper()
	config := filepath.Join(v.Dir, "kubeconfig-of-"+name)
	text, err := v.Drover(v.ctx, "clusters", "kubeconfig", "harbour")
	must(v.t, err)
	must(v.t, os.WriteFile(config, []byte(text), 0o600))
	ctx, cancel := context.WithTimeout(v.ctx, time.Minute)
	defer cancel()
	must(v.t, bed.Await(ctx, "the cluster is reached through the server", time.Second, func(ctx context.Context) error { // whose tunnels come back within seconds of a start
		_, err := v.Kubectl(ctx, "--kubeconfig", config, "create", "secret", "generic", name)
		return err
	}))
}

func (v *voyage) restore() {
	v.visit("clusters/fleet-default/harbour")
	v.mark("before")
	v.send("Take a snapshot")
	v.see("What it does")
	v.browser.do(chromedp.Click("form[data-once] button.main"))
	v.until(`location.pathname.startsWith("/dashboard/operations/")`)
	v.patiently("the snapshot is taken", `document.querySelector("dl.facts .state.good")`, 3*time.Minute)
	v.mark("after")
	v.visit("clusters/fleet-default/harbour")
	v.browser.do(chromedp.Click(`//section[@aria-labelledby="snapshots"]//a[normalize-space()="restore"]`, chromedp.BySearch))
	v.see("What it does")
	v.browser.do(chromedp.SendKeys("[name=sure]", "harbor"))
	v.send("Restore a snapshot")
	v.see("Type harbour to do this")
	v.send("Show what it does")
	v.see("What it does")
	v.browser.do(chromedp.SendKeys("[name=sure]", "harbour"), chromedp.Click("form[data-once] button.main"))
	v.until(`location.pathname.startsWith("/dashboard/operations/")`)
	v.patiently("the cluster is restored", `document.querySelector("dl.facts .state.good")`, 6*time.Minute)
	config := filepath.Join(v.Dir, "kubeconfig-of-before")
	out, err := v.Kubectl(v.ctx, "--kubeconfig", config, "get", "secrets", "-o", "name")
	must(v.t, err)
	if !strings.Contains(out, "secret/before") || strings.Contains(out, "secret/after") {
		v.t.Errorf("the cluster has the Secrets %q", out)
	}
}

func (v *voyage) second() {
	v.visit("users")
	v.send("New user")
	v.browser.do(chromedp.WaitVisible("[name=username]"), chromedp.SendKeys("[name=username]", "ann"), chromedp.SendKeys("[name=password]", "correct horse of ann"), chromedp.Click("[name=mustchange]"), chromedp.Click("form[data-once] button.main"))
	v.see("The user is made.")
	if v.is(`location.search.includes("done")`) {
		v.t.Error("the address says again what was done")
	}
	var id, cluster string
	v.browser.do(chromedp.Evaluate(`[...document.querySelectorAll("tbody tr")].find(r => r.innerText.includes("ann")).id`, &id))
	out, err := v.Drover(v.ctx, "clusters", "ls", "-o", `jsonpath={[0].id}`)
	must(v.t, err)
	cluster = strings.TrimSpace(out)
	v.visit("do/give-role?user=" + id + "&role=cluster-member&cluster=" + cluster)
	v.send("Give a role")
	v.see("The role is given")
	v.visit("do/give-role?user=" + id + "&role=user")
	v.send("Give a role")
	v.see("The role is given")
	v.browser.do(chromedp.Click(".me form button"), chromedp.WaitVisible("[name=password]"))
	v.browser.do(chromedp.SetValue("[name=username]", "ann"), chromedp.SendKeys("[name=password]", "correct horse of ann"), chromedp.Click("button.main"))
	v.see("harbour")
	v.visit("clusters/fleet-default/harbour")
	for _, title := range []string{"Change", "Restore a snapshot", "Remove the cluster", "Pause"} {
		if v.is(`[...document.querySelectorAll("main a")].some(a => a.textContent.trim() === ` + quote(title) + `)`) {
			v.t.Errorf("%s is offered to a member of the cluster", title)
		}
	}
	v.send("Kubeconfig")
	v.see("A file by which kubectl reaches the cluster")
	v.browser.do(navigate(v.at("do/remove-cluster/fleet-default/harbour")))
	v.see("may not do this")
}
