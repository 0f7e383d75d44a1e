// What the pages say, as far as it is true.

package ui_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

var tags = regexp.MustCompile(`<[^>]*>`)

// read is what a page says as people read it, without what stands around it.
func read(b *apibed.Bed, path string) string {
	b.T.Helper()
	r := b.Look(path, b.Admin)
	if r.Status != 200 {
		b.T.Fatalf("%s: status %d: %s", path, r.Status, r.Raw)
	}
	b.Tidy(path, string(r.Raw))
	text := string(r.Raw)
	text = text[strings.Index(text, "<main"):strings.Index(text, "</main>")]
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(text, " "))), " ")
}

// says holds that a page says all of these, and none of those that begin with "!".
func says(b *apibed.Bed, path string, wanted ...string) {
	b.T.Helper()
	text := strings.ReplaceAll(read(b, path), " UTC", "") // all times are
	for _, one := range wanted {
		unwanted, not := strings.CutPrefix(one, "!")
		if not && strings.Contains(text, unwanted) {
			b.T.Errorf("%s says %q: %s", path, unwanted, text)
		} else if !not && !strings.Contains(text, one) {
			b.T.Errorf("%s does not say %q: %s", path, one, text)
		}
	}
}

// put writes a document that a test needs.
func put[T any](b *apibed.Bed, create func(key string, value T) error, key string, value T) {
	b.T.Helper()
	if err := create(key, value); err != nil {
		b.T.Fatal(err)
	}
}

// TestEtcdOnPage: what is said of a quorum is not said of machines that are at work.
func TestEtcdOnPage(t *testing.T) {
	b := apibed.New(t)
	node := func(ready bool) *records.NodeRef { return &records.NodeRef{Name: "pier-1", Ready: ready} }
	for i, c := range []struct {
		name   string
		rke1   bool
		state  records.MachineState
		member bool
		node   *records.NodeRef
		api    bool
		probes string // of an agent that is there
		says   []string
	}{
		{"a file changes on a single server", false, records.ApplyingPlan, true, node(true), true, "", []string{"1 of 1 member is well", "!no quorum", "well, machine: Applying plan"}},
		{"the same while its API restarts", false, records.ApplyingPlan, true, node(true), false, "", []string{"0 of 1 member is well", "whether there is a quorum is not known", "!there is no quorum"}},
		{"the same, and its agent asked", false, records.ApplyingPlan, true, node(true), false, `{"kube-apiserver":{"healthy":true,"successCount":1}}`, []string{"1 of 1 member is well", "!no quorum"}},
		{"the probe of etcd says no", false, records.ApplyingPlan, true, node(true), true, `{"etcd":{"failureCount":5}}`, []string{"there is no quorum", "not healthy, machine: Applying plan"}},
		{"the probe of etcd was not asked yet", false, records.ApplyingPlan, true, node(true), true, `{"etcd":{}}`, []string{"1 of 1 member is well"}},
		{"the node has gone", false, records.Unavailable, true, node(false), true, "", []string{"0 of 1 member is well", "there is no quorum"}},
		{"has not joined", false, records.ApplyingPlan, false, nil, true, "", []string{"No member has joined yet.", "has not joined"}},
		{"of RKE1, well", true, records.Active, false, node(true), true, "", []string{"1 of 1 member is well", "!No member"}},
		{"of RKE1, its agent away", true, records.Disconnected, false, node(false), true, "", []string{"there is no quorum"}},
		{"of RKE1, new", true, records.WaitingForPlan, false, nil, true, "", []string{"No member has joined yet."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.T = t
			name := strings.ReplaceAll(strings.ReplaceAll(c.name, " ", "-"), ",", "")
			name = strings.ToLower(name)
			cl := b.AddCluster(name, "c-m-"+name, func(cl *records.Cluster) {
				if apibed.Active(cl); c.rke1 {
					config := clusterspec.RancherKubernetesEngineConfig(`{"kubernetes_version":"v1.30.8-rancher1-1"}`)
					cl.Spec = clusterspec.Spec{RancherKubernetesEngineConfig: &config}
				}
			})
			m := b.AddMachine(cl, fmt.Sprintf("%012x", i), func(m *records.Machine) {
				m.UID, m.Status.State, m.Status.Member, m.Status.Node = "uid-"+name, c.state, c.member, c.node
			})
			b.ClusterAPI = func(records.ClusterKey) observed.API { return observed.API{Reachable: c.api} }
			if c.probes != "" {
				secret := records.PlanSecret{Object: records.Object{Namespace: m.Namespace, Name: m.PlanSecretName()}, Data: map[string][]byte{plans.KeyProbeStatuses: []byte(c.probes)}}
				if _, err := b.State.PlanSecrets.Create(t.Context(), secret.Key(), secret); err != nil {
					t.Fatal(err)
				}
				b.Presence.Watches.Set(secret.Key(), true, apibed.Start)
			}
			says(b, "clusters/fleet-default/"+name, c.says...)
		})
	}
}

// TestAgentOnPage: the version of an agent is what it says itself, and not that of the server.
func TestAgentOnPage(t *testing.T) {
	b := apibed.New(t)
	_, machines := apibed.Harbour(b)
	key := machines[0].Key()
	says(b, "machines/"+key, "Tunnel none", "Agent version not known does not watch its plan")
	b.Releases = map[string]string{string(machines[0].Subject()): "v0.9.7"}
	b.Presence.Tunnels.Set(string(machines[0].Subject()), true, apibed.Start)
	b.Presence.Watches.Set(records.MachineKey(key).PlanSecret(), true, apibed.Start.Add(time.Minute))
	says(b, "machines/"+key, "to https://bench:8443", "Agent drover v0.9.7 watches its plan 2026-09-01 10:01:00 , at https://bench:8443", "!v0.1.0")
	if r := b.Get("/v1-drover/machines/" + key); r.Text("agent") != "v0.9.7" {
		t.Errorf("the API says %q: %s", r.Text("agent"), r.Raw)
	}
	// The tunnel ends at another server.
	b.Presence.Tunnels.Set(string(machines[0].Subject()), false, apibed.Start)
	other := records.Connection{Subject: string(machines[0].Subject()), Replica: "other", Since: apibed.Start, Agent: "v0.9.8"}
	put(b, func(key string, c records.Connection) error {
		_, err := b.State.Connections.Create(t.Context(), key, c)
		return err
	}, other.Key(), other)
	says(b, "machines/"+key, "Agent drover v0.9.8")
}

// TestRehearsalsOnPage: a rehearsal that failed is shown as one, with its cause, and when the next is due.
func TestRehearsalsOnPage(t *testing.T) {
	b := apibed.New(t)
	cl, machines := apibed.Harbour(b)
	b.Pass(5 * time.Hour)
	end := func(hours int, counted, cause, state string) *records.RehearsalEnd {
		return &records.RehearsalEnd{Operation: "op-x", State: state, At: apibed.Start.Add(time.Duration(hours) * time.Hour), Snapshot: "s", Machine: "m", Counted: counted, Cause: cause}
	}
	good, bad := end(1, "3 nodes, 412 objects", "", "succeeded"), end(2, "", "the API did not come up", "failed")
	for _, c := range []struct {
		name string
		kept records.Rehearsals
		says []string
	}{
		{"none", records.Rehearsals{}, []string{"Last rehearsal none"}},
		{"good", records.Rehearsals{Last: good, Good: good}, []string{"2026-09-01 11:00:00 ● good", "!▲ failed", "!next"}},
		{"failed", records.Rehearsals{Last: bad, Good: good}, []string{"2026-09-01 12:00:00 ▲ failed the API did not come up last good 2026-09-01 11:00:00"}},
		{"never good", records.Rehearsals{Last: bad}, []string{"▲ failed the API did not come up none was good yet"}},
		{"good, and not cleaned up", records.Rehearsals{Last: end(3, "3 nodes", "host m was not cleaned up", "failed"), Good: good}, []string{"2026-09-01 13:00:00 ● good ▲ host m was not cleaned up"}},
		{"due", records.Rehearsals{Every: 24 * time.Hour, Fleet: "spare", Since: apibed.Start, Last: good, Good: good}, []string{"● good next 2026-09-02 11:00:00"}},
		{"held up", records.Rehearsals{Every: time.Hour, Fleet: "spare", Since: apibed.Start, Held: &records.HeldRehearsal{Why: "no machine is free", At: apibed.Start}}, []string{"none next 2026-09-01 10:00:00 ▲ no machine is free"}},
	} {
		if d, ok := b.State.Rehearsals.Get(cl.Key()); ok {
			d.Value = c.kept
			if _, err := b.State.Rehearsals.Update(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		} else if _, err := b.State.Rehearsals.Create(t.Context(), cl.Key(), c.kept); err != nil {
			t.Fatal(err)
		}
		says(b, "clusters/fleet-default/harbour", c.says...)
		for i := range c.says {
			c.says[i] = strings.TrimPrefix(c.says[i], "Last rehearsal ")
		}
		says(b, "clusters?q=harbour", c.says...)
	}
	says(b, "clusters/fleet-default/harbour", "every 1h0m0s on fleet spare")
	snapshot := records.Snapshot{
		Cluster: records.ClusterKey(cl.Key()), Machine: machines[0].Name, Node: "host-1", File: "/snapshots/one", Size: 7, Created: apibed.Start,
		Rehearsal: &records.Rehearsal{At: apibed.Start.Add(time.Hour), Cause: "disk of the host is full", Good: apibed.Start},
	}
	if _, err := b.State.Snapshots.Create(t.Context(), snapshot.Key(), snapshot); err != nil {
		t.Fatal(err)
	}
	says(b, "clusters/fleet-default/harbour", "2026-09-01 11:00:00 ▲ failed disk of the host is full last good 2026-09-01 10:00:00")
	says(b, "do/rehearsals/fleet-default/harbour?every=24h&fleet=spare", "drover clusters rehearsals harbour --every 24h --fleet spare", "Rehearse again and again")
	r := b.Look("do/rehearsals/fleet-default/harbour", b.Admin)
	if text := string(r.Raw); !strings.Contains(text, `name="every" value="1h0m0s"`) || !strings.Contains(text, `name="fleet" value="spare"`) {
		t.Errorf("the form does not have the schedule that there is: %s", text)
	}
}

// TestJoinOnPage: the line for a host has the roles, labels and taints that were given, for hosts of both kinds, and is the one that
// the API gives with the flags that its agent knows.
func TestJoinOnPage(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	config := clusterspec.RancherKubernetesEngineConfig(`{"kubernetes_version":"v1.30.8-rancher1-1"}`)
	bare := clusterspec.RancherKubernetesEngineConfig(``)
	b.AddCluster("quarry", "c-quarr", func(c *records.Cluster) { c.Spec = clusterspec.Spec{RancherKubernetesEngineConfig: &config} })
	b.AddCluster("dockyard", "c-docky", func(c *records.Cluster) { c.Spec = clusterspec.Spec{RancherKubernetesEngineConfig: &bare} })
	b.AddCluster("lagoon", "c-lagoo", func(c *records.Cluster) { c.Spec = clusterspec.Spec{} })
	const all = "?etcd=on&controlplane=on&worker=on"
	for _, c := range []struct{ cluster, query, flags, command, fault string }{
		{"harbour", "", " --etcd --controlplane --worker", "harbour --etcd --controlplane --worker", ""},
		{"harbour", "?worker=on", " --worker", "harbour --worker", ""},
		{"harbour", "?worker=on&labels=rack%3Da+disk%3Dssd&taints=db%3Dx%3ANoSchedule&node-name=pier+1", " --worker --node-name 'pier 1' --label rack=a --label disk=ssd --taints db=x:NoSchedule", "", ""},
		{"quarry", all, " --etcd --controlplane --worker", "quarry --docker --etcd --controlplane --worker", ""},
		{"quarry", "?etcd=on&labels=rack%3Da&taints=db%3Dx%3ANoExecute", " --etcd --label rack=a --taints db=x:NoExecute", "quarry --docker --etcd --label rack=a --taints db=x:NoExecute", ""},
		{"dockyard", "?worker=on", " --worker", "dockyard --docker --worker", ""},
		{"dockyard", "?labels=rack%3Da", "", "", "A host needs at least one role."},
		{"harbour", "?labels=rack%3Da", "", "", "A host needs at least one role."},
		{"harbour", all + "&labels=rack", "", "", "rack is not a label"},
		{"harbour", all + "&labels=%3Da", "", "", "=a is not a label"},
		{"harbour", all + "&taints=db%3Ax", "", "", "db:x is not a taint"},
		{"quarry", all + "&taints=%3ANoSchedule", "", "", ":NoSchedule is not a taint"},
		{"lagoon", "", "", "drover clusters import lagoon", ""},
	} {
		page := string(b.Look("clusters/fleet-default/"+c.cluster+"/join"+c.query, b.Admin).Raw)
		b.Tidy(c.cluster, page)
		line := ""
		if shown := regexp.MustCompile(`(?s)<pre tabindex="0">(.*?)</pre>`).FindStringSubmatch(page); shown != nil {
			line = html.UnescapeString(shown[1])
		}
		given := b.Get("/v1-drover/clusters/fleet-default/" + c.cluster + "/join").Text("command")
		text := html.UnescapeString(page)
		if c.fault != "" && (line != "" || !strings.Contains(text, c.fault)) || c.fault == "" && (given == "" || line != given+c.flags) || !strings.Contains(text, c.command) {
			t.Errorf("%s%s: line %q, want %q, %q and %q: %s", c.cluster, c.query, line, given+c.flags, c.command, c.fault, page)
		}
		if docker := strings.HasPrefix(line, "docker run") || strings.Contains(line, "docker run"); c.fault == "" && docker != (c.cluster == "quarry" || c.cluster == "dockyard") {
			t.Errorf("%s: the line is of the other kind: %s", c.cluster, line)
		}
	}
}

// TestServersOnPage: every server that runs is there, with tunnels or without, and new ones come by themselves.
func TestServersOnPage(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	says(b, "servers", "https://bench:8443 this page is from it 2026-09-01 10:00:00 v0.1.0 not known 0", "No tunnel is open.")
	b.Leader = "bench-1"
	says(b, "servers", "v0.1.0 leads 0")
	f := b.Follow(b.Serve(), "servers", b.Admin)
	f.Next("hello")
	f.Next("main")
	add := func(r records.Replica) {
		put(b, func(key string, r records.Replica) error {
			_, err := b.State.Replicas.Create(t.Context(), key, r)
			return err
		}, r.ID, r)
	}
	add(records.Replica{ID: "other", URL: "https://other:8443", Version: "v0.2.0", Started: apibed.Start.Add(time.Hour), Identity: "other-7"})
	if now := f.Next("main"); !strings.Contains(now, "https://other:8443") {
		t.Errorf("the new server is not shown: %s", now)
	}
	add(records.Replica{ID: "old", URL: "https://old:8443", Started: apibed.Start})
	says(b, "servers", "v0.1.0 leads 0", "https://other:8443 2026-09-01 11:00:00 v0.2.0 no 0", "https://old:8443 2026-09-01 10:00:00 not known not known 0")
}

// TestTimelineOnPage: tasks are spans over one axis of time, and a list of the same; who may steer the operation does it there.
func TestTimelineOnPage(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	apibed.Harbour(b)
	b.Pass(40*time.Second - time.Millisecond)
	b.AddOperation("op-abcdefgh", func(o *operations.Operation) {
		o.Tasks = []operations.Task{
			{ID: "m-1", Title: "Upgrade pier-1", State: operations.TaskSucceeded, Host: "pier-1", Started: apibed.Start, Ended: apibed.Start.Add(20 * time.Second)},
			{ID: "m-2", Title: "Upgrade pier-2", State: operations.TaskRunning, Host: "pier-2", Started: apibed.Start.Add(20 * time.Second)},
			{ID: "m-3", Title: "Upgrade pier-3", State: operations.TaskPending, Host: "pier-3"},
		}
	})
	for _, path := range []string{"clusters/fleet-default/harbour", "operations/op-abcdefgh"} {
		says(b, path, "Upgrade pier-1 pier-1 ● succeeded from 2026-09-01 10:00:00 to 2026-09-01 10:00:20 , 20s", "Upgrade pier-2 pier-2 ◐ running from 2026-09-01 10:00:20", "Upgrade pier-3 pier-3 ○ pending has not begun")
		page := string(b.Look(path, b.Admin).Raw)
		for _, wanted := range []string{
			`<rect x="0" y="0" width="500" height="10">`, `<rect x="500" y="0" width="500" height="10">`,
			`href="/dashboard/do/abort/op-abcdefgh"`, `href="/dashboard/do/pause/fleet-default/harbour"`,
		} {
			if !strings.Contains(page, wanted) {
				t.Errorf("%s lacks %s: %s", path, wanted, page)
			}
		}
		if n := strings.Count(page, "<rect"); n != 2 {
			t.Errorf("%s has %d spans", path, n)
		}
	}
	// Who may see the cluster and no more is offered nothing of that.
	id, ann := b.Person("ann", "user-base")
	b.Bind("clusterroletemplatebindings", `{"clusterId":"c-m-h4rb0r55","userId":"`+id+`","roleTemplateId":"cluster-member"}`)
	for _, path := range []string{"clusters/fleet-default/harbour", "operations/op-abcdefgh"} {
		if r := b.Look(path, ann); r.Status != 200 || strings.Contains(string(r.Raw), "/dashboard/do/abort") || strings.Contains(string(r.Raw), "/dashboard/do/pause") {
			t.Errorf("%s as ann: status %d: %s", path, r.Status, r.Raw)
		}
	}
}

// TestAuditPages: the log is cut by the server, each part has an address that leads to its neighbours, and the newest part is live.
func TestAuditPages(t *testing.T) {
	b := apibed.New(t)
	record := func(i int) {
		b.Audit.Record(audit.Change, audit.Entry{Time: b.Now(), User: "user-admin", Username: "admin", Verb: "update", Kind: []string{"even", "odd"}[i%2], Object: fmt.Sprintf("object-%03d-", i)})
	}
	for i := range 450 {
		record(i)
	}
	object := regexp.MustCompile(`object-(\d+)-`)
	part := func(path string) (first, last string, n int, page string) {
		t.Helper()
		page = string(b.Look(path, b.Admin).Raw)
		b.Tidy(path, page)
		all := object.FindAllStringSubmatch(page, -1)
		if len(all) == 0 {
			return "", "", 0, page
		}
		return all[0][1], all[len(all)-1][1], len(all), page
	}
	lead := func(page, word string) string {
		found := regexp.MustCompile(`<a href="/dashboard/([^"]+)" rel="` + word + `">`).FindStringSubmatch(page)
		if found == nil {
			return ""
		}
		return html.UnescapeString(found[1])
	}
	for _, c := range []struct {
		path  string
		parts [][2]string // newest and oldest of each
	}{
		{"audit?verb=update", [][2]string{{"449", "250"}, {"249", "050"}, {"049", "000"}}},
		{"audit?kind=odd", [][2]string{{"449", "051"}, {"049", "001"}}},
		{"audit?object=object-1%2A", [][2]string{{"199", "100"}}},
	} {
		path := c.path
		var before []string
		for i, want := range c.parts {
			first, last, _, page := part(path)
			if first != want[0] || last != want[1] || (lead(page, "prev") == "") != (i == 0) || (lead(page, "next") == "") != (i == len(c.parts)-1) {
				t.Fatalf("%s: %s to %s, want %v, newer %q, older %q", path, first, last, want, lead(page, "prev"), lead(page, "next"))
			}
			if live := strings.Contains(page, "data-live"); live != (i == 0) {
				t.Errorf("%s: live %t", path, live)
			}
			if i > 0 {
				before = append(before, lead(page, "prev"))
			}
			path = lead(page, "next")
		}
		for i, newer := range before {
			if first, _, _, page := part(newer); first != c.parts[i][0] || i == 0 && lead(page, "prev") != "" {
				t.Errorf("%s begins with %s, want %s", newer, first, c.parts[i][0])
			}
		}
	}
	for _, bad := range []string{"before=x", "after=../../etc/passwd:1"} {
		if r := b.Look("audit?"+bad, b.Admin); r.Status != 422 {
			t.Errorf("%s: status %d", bad, r.Status)
		}
	}
	if r := b.Look("audit?before=20010101T000000.000Z.jsonl:7", b.Admin); r.Status != 200 {
		t.Errorf("before everything: status %d", r.Status)
	}
	f := b.Follow(b.Serve(), "audit?verb=update", b.Admin)
	f.Next("hello")
	f.Next("main")
	record(450)
	if now := f.Next("main"); !strings.Contains(now, "object-450-") {
		t.Errorf("the new entry is not shown: %s", now)
	}
}

// TestVersionsFollow: the page of versions shows new ones when the data have them.
func TestVersionsFollow(t *testing.T) {
	b := apibed.New(t)
	f := b.Follow(b.Serve(), "versions", b.Admin)
	f.Next("hello")
	f.Next("main")
	b.Known.Store(&versions.Data{})
	b.VersionsChanged()
	if now := f.Next("main"); !strings.Contains(now, "There is nothing here yet.") {
		t.Errorf("the new data are not shown: %s", now)
	}
}

// TestCausesOnPage: who waits for others stands below them, and the log on a host is a link, which is followed when a user wants it.
func TestCausesOnPage(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	b.AskAgent = func(context.Context, records.Subject, string) (*http.Response, error) {
		t.Error("a host is asked while a page is drawn")
		return nil, errors.New("away")
	}
	for i, code := range []catalogue.Code{catalogue.HostLost, catalogue.WaitTier, catalogue.WaitTier, catalogue.Probes} {
		b.AddMachine(cl, fmt.Sprintf("%012x", i), func(m *records.Machine) {
			m.NodeName = fmt.Sprintf("pier-%d", i)
			m.Status.Condition = records.Condition{State: records.WaitingForProbes, Code: string(code), Cause: "cause " + m.NodeName}
		})
	}
	says(b, "clusters/fleet-default/harbour", "2 wait for machines above pier-1 ")
	page := string(b.Look("clusters/fleet-default/harbour", b.Admin).Raw)
	above, under, ok := strings.Cut(page, `<li class="below">`)
	if !ok || !strings.Contains(above, "cause pier-0") || !strings.Contains(above, "cause pier-3") || !strings.Contains(under, "cause pier-1") || !strings.Contains(under, "cause pier-2") {
		t.Errorf("the causes are no tree: %s", page)
	}
	link := `<a class="button" href="/v1-drover/machines/fleet-default/custom-000000000003/logs?unit=k3s&amp;tail=20" data-pour="log-fleet-default/custom-000000000003">`
	if !strings.Contains(page, link) || strings.Contains(page, "custom-000000000001/logs") {
		t.Errorf("want the link %s, and none to hosts of which the log says nothing: %s", link, page)
	}
	says(b, "machines/fleet-default/custom-000000000003", "last lines of k3s on its host")
	id, ann := b.Person("ann", "user-base")
	b.Bind("clusterroletemplatebindings", `{"clusterId":"c-m-h4rb0r55","userId":"`+id+`","roleTemplateId":"cluster-member"}`)
	for _, path := range []string{"clusters/fleet-default/harbour", "machines/fleet-default/custom-000000000003"} {
		if r := b.Look(path, ann); r.Status != 200 || strings.Contains(string(r.Raw), "data-pour") {
			t.Errorf("%s: who may not read logs is offered them: status %d: %s", path, r.Status, r.Raw)
		}
	}
}

// TestSnapshotsOnPage: every snapshot can be seen and chosen, however many there are.
func TestSnapshotsOnPage(t *testing.T) {
	b := apibed.New(t)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	m := b.AddMachine(cl, "0f31c2aa9d10", nil)
	for i := range 130 {
		one := records.Snapshot{
			Cluster: records.ClusterKey(cl.Key()), Machine: m.Name, Node: "host-1", File: fmt.Sprintf("/snapshots/on-demand-%03d", i), Size: 7, Created: apibed.Start.Add(time.Duration(i) * time.Minute),
		}
		put(b, func(key string, s records.Snapshot) error {
			_, err := b.State.Snapshots.Create(t.Context(), key, s)
			return err
		}, one.Key(), one)
	}
	says(b, "clusters/fleet-default/harbour", "on-demand-129", "on-demand-030", "!on-demand-029", "1 to 100 of 130")
	says(b, "clusters/fleet-default/harbour?page=2", "on-demand-029", "on-demand-000", "!on-demand-030", "101 to 130 of 130")
	for _, action := range []string{"restore", "rehearse"} {
		if n := strings.Count(string(b.Look("do/"+action+"/fleet-default/harbour", b.Admin).Raw), `<option value="on-demand-`); n != 130 {
			t.Errorf("%s offers %d snapshots", action, n)
		}
	}
}

// TestWhatIsSaidOfClusters: the certificate that ends first, the last snapshot, since when something waits, and what a machine went through.
func TestWhatIsSaidOfClusters(t *testing.T) {
	at := func(hours int) time.Time { return apibed.Start.Add(time.Duration(hours) * time.Hour) }
	ends := func(name string, hours int) func(*records.Machine) {
		return func(m *records.Machine) { m.Certificate = records.CertificateEnd{Name: name, End: at(hours)} }
	}
	for _, c := range []struct {
		name      string
		cluster   func(*records.Cluster)
		machines  []func(*records.Machine)
		snapshots []records.Snapshot
		rke1      *records.RKEState
		wait      *operations.Wait
		list, own []string // what the list and its own page say
	}{
		{
			name: "nothing-known", machines: []func(*records.Machine){nil},
			list: []string{"nothing not known none none"}, own: []string{"First certificate ends not known", "Last snapshot none"},
		},
		{
			name: "first-of-three", machines: []func(*records.Machine){ends("later.crt", 9), ends("first.crt", 7), nil, ends("last.crt", 11)},
			list: []string{"2026-09-01 17:00:00 first.crt", "!later.crt"}, own: []string{"First certificate ends 2026-09-01 17:00:00 first.crt"},
		},
		{
			name: "of-rke1", machines: []func(*records.Machine){nil},
			rke1: &records.RKEState{
				Ends:      map[string]time.Time{"kube-ca": at(90), "kube-node": at(8), "kube-admin": at(8)},
				Snapshots: []records.RKESnapshot{{ID: "a", Name: "taken", At: at(1)}, {ID: "b", Name: "broken", At: at(3), Failure: "the disk is full"}},
			},
			list: []string{"2026-09-01 18:00:00 kube-admin 2026-09-01 11:00:00"}, own: []string{"First certificate ends 2026-09-01 18:00:00 kube-admin", "Last snapshot 2026-09-01 11:00:00", "▲ the disk is full"},
		},
		{
			name: "last-that-was-taken", machines: []func(*records.Machine){nil},
			snapshots: []records.Snapshot{{File: "/s/first", Created: at(1)}, {File: "/s/second", Created: at(2)}, {File: "/s/third", Created: at(3), Fault: "etcd is away"}, {File: "/s/fourth", Created: at(4), Missing: at(5)}},
			list:      []string{"not known 2026-09-01 12:00:00"}, own: []string{"Last snapshot 2026-09-01 12:00:00", "▲ etcd is away", "!fourth"},
		},
		{
			name: "waits", machines: []func(*records.Machine){nil}, wait: &operations.Wait{Object: "machine pier-2", Cause: "its agent is not connected", NextStep: "start it", Since: at(2)},
			list: []string{"Upgrade waits 0 of 1 its agent is not connected · 2026-09-01 12:00:00"}, own: []string{"Waits for machine pier-2: its agent is not connected 2026-09-01 12:00:00 What to do: start it"},
		},
		{
			name: "says-since-when", machines: []func(*records.Machine){nil}, cluster: func(cl *records.Cluster) {
				cl.Status.State, cl.Status.Message, cl.Status.Since = "updating", "waiting for pier-3", at(3)
			},
			list: []string{"◐ updating", "waiting for pier-3 2026-09-01 13:00:00"}, own: []string{"State ◐ updating 2026-09-01 13:00:00", "waiting for pier-3"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := apibed.New(t)
			cl := b.AddCluster(c.name, "c-m-h4rb0r55", func(cl *records.Cluster) {
				if apibed.Active(cl); c.cluster != nil {
					c.cluster(cl)
				}
			})
			first := records.Machine{}
			for i, shape := range c.machines {
				first = b.AddMachine(cl, fmt.Sprintf("%012x", i), shape)
			}
			for _, s := range c.snapshots {
				s.Cluster, s.Machine, s.Node = records.ClusterKey(cl.Key()), first.Name, "host-1"
				put(b, func(key string, s records.Snapshot) error {
					_, err := b.State.Snapshots.Create(t.Context(), key, s)
					return err
				}, s.Key(), s)
			}
			if c.rke1 != nil {
				put(b, func(key string, s records.RKEState) error {
					_, err := b.State.RKEStates.Create(t.Context(), key, s)
					return err
				}, cl.Key(), *c.rke1)
			}
			if c.wait != nil {
				b.AddOperation("op-abcdefgh", func(o *operations.Operation) {
					o.Subject, o.Title, o.Wait, o.Tasks = cl.Key(), "Upgrade waits", c.wait, []operations.Task{{ID: "m", State: operations.TaskWaiting}}
				})
			}
			says(b, "clusters", c.list...)
			says(b, "clusters/"+cl.Key(), c.own...)
		})
	}
	b := apibed.New(t)
	m := b.AddMachine(b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active), "0f31c2aa9d10", func(m *records.Machine) {
		m.Status.Condition, m.Status.Since = records.Condition{State: records.Active}, at(3)
		m.Status.History = []records.Transition{{State: records.Registering, At: at(0)}, {State: records.ApplyingPlan, At: at(1)}, {State: records.Active, At: at(3)}}
	})
	says(b, "machines/"+m.Key(), "History 2026-09-01 13:00:00 ● Active 2026-09-01 11:00:00 ◐ Applying plan for 2h0m 2026-09-01 10:00:00 ○ Registering for 1h0m")
}

// TestWhoAskedFor: who asked for an operation is named to those who may see that user, and an operation that has no tasks does not
// count them.
func TestWhoAskedFor(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	annID, _ := b.Person("ann")
	b.AddOperation("op-abcdefgh", func(o *operations.Operation) {
		o.Subject, o.Title, o.By, o.Tasks = cl.Key(), "Upgrade", annID, nil
		o.Abort, o.Hurry = &operations.Request{By: annID, At: o.Created}, &operations.Request{By: "u-gone", At: o.Created}
	})
	says(b, "operations/op-abcdefgh", "by ann", "ann asked to stop it", "u-gone asked that it does not wait", "Progress no tasks", "!"+annID)
	says(b, "clusters", "!0 of 0")
	says(b, "clusters/"+cl.Key(), "!0 of 0")
	if d, _ := b.State.OperationsByID.First("op-abcdefgh"); d.Value.By != annID || d.Value.Abort.By != annID {
		t.Errorf("what is kept was changed: %+v", d.Value)
	}
	carlID, carl := b.Person("carl", "user")
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-owner","userId":%q}`, cl.ID, carlID))
	b.Admin = carl
	says(b, "operations/op-abcdefgh", "by "+annID, "!by ann")
}
