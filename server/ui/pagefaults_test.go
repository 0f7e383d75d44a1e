package ui_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/ui"
	"github.com/drover-project/drover/test/apibed"
)

// mainOf is what a page shows.
func mainOf(b *apibed.Bed, path string) string {
	b.T.Helper()
	_, text, _ := strings.Cut(string(b.Look(path, b.Admin).Raw), "<main")
	return text
}

// TestFilterKeepsTheCluster: who looks for a machine of a cluster finds those of the cluster, and sees the way to all.
func TestFilterKeepsTheCluster(t *testing.T) {
	b := apibed.New(t)
	cl, _ := apibed.Harbour(b)
	other := b.AddCluster("jetty", "c-m-000jetty", apibed.Active)
	b.AddMachine(other, "00000000abcd", nil)
	page := mainOf(b, "machines?cluster="+cl.ID+"&state=Active&q=custom")
	for _, wanted := range []string{`<input type="hidden" name="cluster" value="` + cl.ID + `">`, `<input type="hidden" name="state" value="Active">`, `only those of <b>harbour</b>`, `<a href="/dashboard/machines?q=custom&amp;state=Active">all machines</a>`} {
		if !strings.Contains(page, wanted) {
			t.Errorf("the list lacks %s: %s", wanted, page)
		}
	}
	if strings.Contains(page, "custom-00000000abcd") {
		t.Error("a machine of another cluster is there")
	}
	if page := mainOf(b, "machines"); strings.Contains(page, "only those of") || strings.Contains(page, `name="cluster"`) {
		t.Errorf("the list of all: %s", page)
	}
	if page := mainOf(b, "machines?cluster=none"); !strings.Contains(page, "only those of <b>none</b>") {
		t.Errorf("of a cluster that there is not: %s", page)
	}
}

// TestWayBack: what is of a fleet leads to the fleet, and a Docker host to its cluster.
func TestWayBack(t *testing.T) {
	b := apibed.WithFleet(t)
	b.AddOperation("op-ofcluster", nil)
	b.AddOperation("op-offleets0", func(o *operations.Operation) {
		o.Subject, o.Title, o.State = "drover-fleets/edge", "Give edge a plan", operations.Failed
	})
	docker := b.AddCluster("dock", "c-m-0000dock", nil)
	b.AddMachine(docker, "00000000d0c0", func(m *records.Machine) { m.Docker = &records.DockerHost{ServerVersion: "20.10"} })
	for path, trail := range map[string]string{
		"operations/op-offleets0":                    `<li><a href="/dashboard/fleets">Fleets</a></li><li><a href="/dashboard/fleets/edge">edge</a></li>`,
		"operations/op-ofcluster":                    `<li><a href="/dashboard/clusters">Clusters</a></li><li><a href="/dashboard/clusters/fleet-default/harbour">harbour</a></li>`,
		"machines/drover-fleets/custom-0000000000ff": `<li><a href="/dashboard/fleets">Fleets</a></li><li><a href="/dashboard/fleets/edge">edge</a></li>`,
		"machines/fleet-default/custom-00000000d0c0": `<li><a href="/dashboard/clusters">Clusters</a></li><li><a href="/dashboard/clusters/fleet-default/dock">dock</a></li>`,
	} {
		page := mainOf(b, path)
		if !strings.Contains(page, trail) {
			t.Errorf("%s: the pages above are others than %s: %s", path, trail, page)
		}
		for _, m := range regexp.MustCompile(`<dd><a href="/dashboard/([^"]+)">`).FindAllStringSubmatch(page, -1) {
			if r := b.Look(m[1], b.Admin); r.Status != http.StatusOK {
				t.Errorf("%s leads to %s, which answers %d", path, m[1], r.Status)
			}
		}
	}
	if page := string(b.Look("operations/op-offleets0", b.Admin).Raw); !strings.Contains(page, `<a href="/dashboard/fleets" aria-current="page">`) {
		t.Error("an operation of a fleet is in another section")
	}
	if r := b.Look("do/retry/op-offleets0", b.Admin); !strings.Contains(string(r.Raw), `<a href="/dashboard/fleets" aria-current="page">`) {
		t.Error("its action is in another section")
	}
}

// TestUnitsThatFit: a machine offers the journals of units that it can have.
func TestUnitsThatFit(t *testing.T) {
	b := apibed.New(t)
	cl, machines := apibed.Harbour(b)
	dock := b.AddCluster("dock", "c-m-0000dock", nil)
	docker := b.AddMachine(dock, "00000000d0c0", func(m *records.Machine) { m.Docker = &records.DockerHost{ServerVersion: "20.10"} })
	worker := b.AddMachine(cl, "00000000beef", func(m *records.Machine) { m.Roles = records.Roles{Worker: true} })
	rke2 := b.AddCluster("cliff", "c-m-000cliff", func(c *records.Cluster) { c.Spec.KubernetesVersion = "v1.34.4+rke2r1" })
	server, agent := b.AddMachine(rke2, "00000000c111", nil), b.AddMachine(rke2, "00000000c222", func(m *records.Machine) { m.Roles = records.Roles{Worker: true} })
	for _, c := range []struct {
		m     records.Machine
		units string
	}{{machines[0], "rancher-system-agent k3s"}, {worker, "rancher-system-agent k3s-agent"}, {server, "rancher-system-agent rke2-server"}, {agent, "rancher-system-agent rke2-agent"}, {docker, "docker"}} {
		d, _ := b.State.Machines.Get(c.m.Key())
		connection := records.Connection{Subject: string(d.Value.Subject()), Replica: "r1", Since: apibed.Start}
		if _, err := b.State.Connections.Create(t.Context(), connection.Key(), connection); err != nil {
			t.Fatal(err)
		}
		var units []string
		for _, m := range regexp.MustCompile(`/logs\?unit=([^&]+)&amp;`).FindAllStringSubmatch(mainOf(b, "machines/"+c.m.Key()), -1) {
			units = append(units, m[1])
		}
		if strings.Join(units, " ") != c.units {
			t.Errorf("%s offers %q, want %q", c.m.Name, units, c.units)
		}
	}
}

// TestLogStays: a log that was read stays on the page while the host is away.
func TestLogStays(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	const path = "machines/fleet-default/custom-0f31c2aa9d10"
	if page := mainOf(b, path); !strings.Contains(page, `<pre id="pour"`) || !strings.Contains(page, "The host is away") || strings.Contains(page, "data-pour") {
		t.Errorf("without a tunnel: %s", page)
	}
	connection := records.Connection{Subject: "fleet-default/custom-0f31c2aa9d10", Replica: "r1", Since: apibed.Start}
	if _, err := b.State.Connections.Create(t.Context(), connection.Key(), connection); err != nil {
		t.Fatal(err)
	}
	if page := mainOf(b, path); !strings.Contains(page, `<pre id="pour"`) || strings.Contains(page, "The host is away") || !strings.Contains(page, "data-pour") {
		t.Errorf("with a tunnel: %s", page)
	}
}

// TestLostRightLeads: a user who may not see a page any more is led to its address, which says so, and reads nothing old.
func TestLostRightLeads(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	id, ann := b.Person("ann")
	binding := b.Bind("globalrolebindings", `{"globalRoleId":"admin","userId":"`+id+`"}`)
	f := b.Follow(b.Serve(), "servers?q=x&seen=y", ann)
	f.Next("hello")
	f.Next("main")
	b.Want(http.StatusNoContent, "DELETE", "/v3/globalrolebindings/"+binding, "")
	for e := range f.Events {
		if e[0] == "main" {
			continue // a moment before
		}
		if e[0] != "over" || e[1] != "/dashboard/servers?q=x" {
			t.Errorf("event %q", e)
		}
		break
	}
	if r := b.Look("servers?q=x", ann); r.Status != http.StatusForbidden {
		t.Errorf("the address answers %d", r.Status)
	}
}

// TestSmallFaults of what pages say.
func TestSmallFaults(t *testing.T) {
	b := apibed.New(t)
	cl, _ := apibed.Harbour(b)
	b.Want(http.StatusOK, "POST", "/v1-drover/fleets/edge/join", "")
	if page := mainOf(b, "fleets?q=none-such"); strings.Contains(page, "There is no fleet yet") || !strings.Contains(page, "Nothing here fits that.") {
		t.Errorf("fleets that do not fit: %s", page)
	}
	if page := mainOf(b, "servers"); !strings.Contains(page, "No tunnel is open.") {
		t.Errorf("no tunnels: %s", page)
	}
	if page := mainOf(b, "machines"); !regexp.MustCompile(`<time datetime="[^"]+Z">[0-9-]+ [0-9:]+ UTC</time>`).MatchString(page) {
		t.Errorf("times do not say that they are in UTC: %s", page)
	}
	ann, member := b.Person("ann")
	b.Bind("clusterroletemplatebindings", `{"clusterId":"`+cl.ID+`","roleTemplateId":"cluster-member","userId":"`+ann+`"}`)
	if page := string(b.Look("clusters/fleet-default/harbour", member).Raw); strings.Contains(page, "more-offers") || !strings.Contains(page, "do/kubeconfig") {
		t.Errorf("more is offered where nothing is: %s", page)
	}
	if page := mainOf(b, "clusters/fleet-default/harbour"); !strings.Contains(page, "more-offers") {
		t.Error("an administrator is not offered more")
	}
	// Texts of several lines have the ends of lines that they had, and their first line although it is empty.
	_, form := formOf(b, string(b.Look("do/set-setting/ui-pl", b.Admin).Raw))
	form.Set("value", "first\r\nsecond")
	if r := b.Send("do/set-setting/ui-pl", b.Admin, form); r.Status != http.StatusSeeOther || b.Settings.Get("ui-pl").Value != "first\nsecond" {
		t.Errorf("%d, the setting is %q", r.Status, b.Settings.Get("ui-pl").Value)
	}
	_, form = formOf(b, string(b.Look("new", b.Admin).Raw))
	r := b.Send("new", b.Admin, url.Values{"CSRF": form["CSRF"], "text": {"\r\nnonsense: 1\r\n"}, "act": {"preview"}})
	if !regexp.MustCompile(`<textarea [^>]*>\n\nnonsense: 1\n</textarea>`).Match(r.Raw) || !strings.Contains(string(r.Raw), `data-line="2"`) {
		t.Errorf("a document that begins with an empty line: %s", r.Raw)
	}
}

// TestRefusedRotation: what is refused when it is asked for can be tried again on the same page.
func TestRefusedRotation(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	const path = "do/rotate-certificates/fleet-default/harbour"
	b.AddOperation("op-underway", nil)
	r := b.Send(path, b.Admin, url.Values{"CSRF": {b.FormToken(b.Admin)}, "key": {ui.NewFormKey()}})
	text := string(r.Raw)
	if r.Status < 400 || !strings.Contains(text, `role="alert"`) || !strings.Contains(text, `<a class="button" href="/dashboard/`+path+`">Look again</a>`) && !strings.Contains(text, `method="post" action="/dashboard/`+path+`"`) {
		t.Errorf("%d, without a way to try again: %s", r.Status, text)
	}
}
