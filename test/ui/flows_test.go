//go:build e2e

package ui

// What people do on the page, with a server whose clusters are at rest: no host is needed to see that the ways are open.

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/drover-project/drover/server/records"
)

// TestEditor: a mistake has its line, what is without one is shown before it is applied, and the user who comes second sees what
// the first has changed.
func TestEditor(t *testing.T) {
	s, b, other := serve(t), open(t), open(t)
	s.user("admin", true)
	s.user("ben", true)
	b.logIn(s, "admin", password)
	b.press("New cluster")
	b.do(chromedp.WaitVisible("#text"))
	b.write(document("jetty", "disabel: [traefik]"))
	b.see("is not a setting of")
	b.do(chromedp.Click("#wrong a"))
	b.until(`document.getElementById("text").value.slice(document.getElementById("text").selectionStart, document.getElementById("text").selectionEnd).includes("disabel")`)
	b.send("Show what it does")
	b.see("disabel") // also for those without scripts
	if b.is(`[...document.querySelectorAll("button")].some(b => b.textContent === "Apply exactly this")`) {
		t.Error("a text with a mistake can be applied")
	}
	b.write(document("jetty", "disable: [traefik]"))
	b.until(`!document.querySelector("#wrong li")`)
	b.send("Show what it does")
	b.see("jetty created")
	b.send("Apply exactly this")
	b.see("Join a host")

	const at = "clusters/fleet-default/jetty/change"
	for _, one := range []*browser{b, other} {
		if one == other {
			one.logIn(s, "ben", password)
		}
		one.visit(s.at(at))
	}
	change := func(one *browser, from, to string) {
		t.Helper()
		var text string
		one.do(chromedp.Value("#text", &text))
		if !strings.Contains(text, from) {
			t.Fatalf("the editor has no %q: %s", from, text)
		}
		one.write(strings.Replace(text, from, to, 1))
		one.send("Show what it does")
	}
	change(b, "traefik", "servicelb")
	change(other, "kubernetesVersion: v1.34.4", "kubernetesVersion: v1.33.6")
	b.send("Apply exactly this")
	b.until(`!location.pathname.endsWith("/change")`)
	other.send("Apply exactly this")
	other.see("Nothing was done")
	other.see("Changed by others since you began")
	other.until(`[...document.querySelectorAll(".diff .added")].some(l => l.textContent.includes("servicelb"))`)
	var mine string
	if other.do(chromedp.Value("#text", &mine)); !strings.Contains(mine, "v1.33.6") {
		t.Errorf("what the second typed is lost: %s", mine)
	}
	d, _ := s.st.Clusters.Get("fleet-default/jetty")
	if d.Value.Spec.KubernetesVersion != "v1.34.4+k3s1" {
		t.Errorf("the second has changed the version to %s", d.Value.Spec.KubernetesVersion)
	}
}

// TestRestoreIsGuided: from the list of snapshots to what would be done, which asks for the name of the cluster.
func TestRestoreIsGuided(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.logIn(s, "admin", password)
	b.visit(s.at("clusters/fleet-default/quay"))
	b.send("Take a snapshot")
	b.see("What it does")
	b.see("bollard-1")
	b.submit()
	b.until(`location.pathname.startsWith("/dashboard/operations/")`)
	b.see("take a snapshot of the etcd of cluster quay")

	snapshot := records.Snapshot{Cluster: "fleet-default/quay", Machine: "custom-00001000", Node: "bollard-1", File: "/var/lib/rancher/k3s/server/db/snapshots/etcd-bollard-1-7", Size: 21 << 20}
	create(t, s.st.Snapshots, snapshot.Key(), snapshot)
	for _, d := range s.st.Operations.List() { // the snapshot that was asked for, which no host here takes
		if d.Value.Subject == "fleet-default/quay" {
			must(t, s.st.Operations.Delete(t.Context(), d.Key, 0))
		}
	}
	b.visit(s.at("clusters/fleet-default/quay"))
	b.leave(func() {
		b.do(chromedp.Click(`//section[@aria-labelledby="snapshots"]//a[normalize-space()="restore"]`, chromedp.BySearch))
	})
	b.until(`document.querySelector("[name=snapshot]").value === "etcd-bollard-1-7"`)
	b.see("What it does")
	b.see("bollard-2")
	b.do(chromedp.SendKeys("[name=sure]", "key"))
	b.submit()
	b.see("Type quay to do this")
	if n := len(s.st.OperationsOf("fleet-default/quay")); n != 0 {
		t.Errorf("%d operations were begun by somebody who was not sure", n)
	}
	b.send("Show what it does")
	b.see("What it does")
	b.do(chromedp.SendKeys("[name=sure]", "quay"))
	b.submit()
	b.until(`location.pathname.startsWith("/dashboard/operations/")`)
	if all := s.st.OperationsOf("fleet-default/quay"); len(all) != 1 || all[0].Kind != "restore" {
		t.Errorf("%+v", all)
	}
}

// TestASecondPerson: who has fewer rights sees what they may, is offered no more, and is refused the rest.
func TestASecondPerson(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.logIn(s, "admin", password)
	b.visit(s.at("users"))
	b.send("New user")
	b.do(chromedp.SendKeys("[name=username]", "dora"), chromedp.SendKeys("[name=password]", "correct horse of dora"), chromedp.Click("[name=mustchange]"))
	b.until(`!document.querySelector("[name=mustchange]").checked`)
	b.submit()
	b.see("The user is made.")
	if b.is(`location.search.includes("done")`) {
		t.Error("the address says again what was done")
	}
	var id string
	b.do(chromedp.Evaluate(`[...document.querySelectorAll("tbody tr")].find(r => r.innerText.includes("dora")).id`, &id))
	for _, role := range []string{"&role=cluster-member&cluster=c-m-00000000", "&role=user"} {
		b.visit(s.at("do/give-role?user=" + id + role))
		b.submit()
		b.see("The role is given")
	}
	b.leave(func() { b.do(chromedp.Click(".me form button")) })
	b.do(chromedp.SetValue("[name=username]", "dora"), chromedp.SendKeys("[name=password]", "correct horse of dora"))
	b.leave(func() { b.do(chromedp.Click("button.main")) })
	b.see("harbour")
	if text := b.text(); strings.Contains(text, "quay") || strings.Contains(text, "dockyard") {
		t.Errorf("a member of one cluster sees others: %s", text)
	}
	b.visit(s.at(harbour))
	for _, title := range []string{"Change", "Restore a snapshot", "Remove the cluster", "Pause", "Join a host"} {
		if b.is(`[...document.querySelectorAll("main a")].some(a => a.textContent.trim() === ` + quote(title) + `)`) {
			t.Errorf("%s is offered to a member of the cluster", title)
		}
	}
	for path, says := range map[string]string{"do/remove-cluster/fleet-default/harbour": "may not do this", "clusters/fleet-default/quay": "There is nothing here", "audit": "may not see"} {
		b.visit(s.at(path))
		b.see(says)
	}
}

// TestAButtonPressedTwice: however a form comes twice, it is done once, and both who pressed read what came of it.
func TestAButtonPressedTwice(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.logIn(s, "admin", password)
	tokens := func() int { return len(s.st.TokensByUser.Find("u-admin")) }
	before := tokens()
	b.visit(s.at("do/new-token"))
	b.leave(func() { b.do(chromedp.DoubleClick("form[data-once] button.main")) })
	b.see("It is not shown again")
	if n := tokens() - before; n != 1 {
		t.Errorf("a double click made %d tokens", n)
	}
	// As a browser without scripts, and one that sends the form again when it is loaded anew.
	b.visit(s.at("do/pause/fleet-default/quay"))
	var answers string
	b.do(chromedp.Evaluate(`(() => {
		const form = document.querySelector("form[data-once]"), body = () => new URLSearchParams(new FormData(form));
		return Promise.all([1, 2, 3].map(() => fetch(form.action, { method: "POST", body: body() }))).then(all => all.map(a => a.status + " " + new URL(a.url).pathname).join(", "));
	})()`, &answers, await))
	if want := "200 /dashboard/clusters/fleet-default/quay"; answers != want+", "+want+", "+want {
		t.Errorf("a form that came three times: %s", answers)
	}
	if d, _ := s.st.Clusters.Get("fleet-default/quay"); d.Value.Paused == nil || d.Value.Generation != 2 {
		t.Errorf("%+v", d.Value)
	}
}
