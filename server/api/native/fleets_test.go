package native_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

const greeting = "files: [{path: /etc/motd, content: aGVsbG8K}]\n"

// TestFleets: what is asked of a fleet is taken or refused with a sentence.
func TestFleets(t *testing.T) {
	b := apibed.WithFleet(t)
	const plan = "/v1-drover/fleets/edge/plan"
	for _, c := range []struct {
		method, target, body string
		status               int
		says                 string
	}{
		{"GET", "/v1-drover/fleets", "", 200, `"name":"edge"`},
		{"GET", "/v1-drover/fleets/edge", "", 200, `"states":{"Waiting for plan":1}`},
		{"GET", "/v1-drover/fleets/nowhere", "", 404, "there is no fleet \\\"nowhere\\\""},
		{"POST", "/v1-drover/fleets/harbour/join", "", 422, "cluster fleet-default/harbour has that name"},
		{"POST", "/v1-drover/fleets/No/join", "", 422, "is not a valid name of a fleet"},
		{"POST", "/v1-drover/fleets/edge/join", "", 200, "--no-roles"},
		{"GET", "/v1-drover/fleets/edge/why", "", 200, `"code":"no-plan"`},
		{"GET", "/v1-drover/machines/drover-fleets/custom-0000000000ff/why", "", 200, `"code":"no-plan"`},
		{"POST", plan, "files: [{pth: /x}]\n", 422, "plan:1: unknown field \\\"pth\\\""},
		{"POST", plan, "", 422, "there is no plan"},
		{"POST", plan + "?label=site", greeting, 422, "is not of the form key=value"},
		{"POST", plan + "?label=site=south", greeting, 422, "no machine of fleet edge has label site=south"},
		{"POST", plan + "?machine=custom-000000000001", greeting, 409, "whose document its plans are made of"},
		{"POST", plan + "?concurrency=x", greeting, 422, "neither a number of machines"},
		{"POST", plan + "?queue=true&replace=true", greeting, 422, "cannot stand beside replace"},
		{"POST", plan, strings.Repeat("#", 1<<20+1), 413, ""},
		{"POST", plan + "?label=site=north&dryRun=true", greeting, 200, `"changes":["add file /etc/motd"]`},
		{"POST", plan + "?label=site=north", greeting, 200, `"operation":"op-`},
		{"POST", plan + "?label=site=north", "{}", 409, "operations abort op-"},
		{"GET", "/v1-drover/operations?cluster=drover-fleets/edge", "", 200, `"kind":"plan"`},
		{"POST", "/v1-drover/fleets/edge/remove", "", 409, "fleet edge has 1 machines"},
		{"POST", "/v1-drover/machines/drover-fleets/custom-0000000000ff/remove?agent=true", "", 422, "rancher-system-agent-uninstall.sh"},
		{"POST", "/v1-drover/machines/drover-fleets/custom-0000000000ff/remove", "", 200, `"fleet":true`},
		{"POST", "/v1-drover/fleets/edge/remove?force=true", "", 200, `"deleting":`},
		{"POST", plan, greeting, 409, "fleet edge is being removed"},
		{"POST", "/v1-drover/apply", strings.Replace(documentOf("edge"), "edge", "edge", 1), 422, "a fleet has that name"},
		{"POST", "/v1-drover/apply", strings.Replace(documentOf("new"), "name: new", "name: new, namespace: drover-fleets", 1), 422, "namespace drover-fleets is that of fleets"},
	} {
		if r := b.Request(c.method, c.target, b.Admin, c.body); r.Status != c.status || !strings.Contains(string(r.Raw), c.says) {
			t.Errorf("%s %s: %d %s, want %d and %q", c.method, c.target, r.Status, r.Raw, c.status, c.says)
		}
	}
	if logs := b.Logs.String(); strings.Contains(logs, "aGVsbG8K") || !strings.Contains(logs, "a plan is given") {
		t.Errorf("the log has\n%s", logs)
	}
}

// TestAgentsOfFleets: what is asked of the agents of a fleet is taken or refused with a sentence, and nothing is written for what is refused.
func TestAgentsOfFleets(t *testing.T) {
	b := apibed.WithFleet(t)
	const begin, pin = "/v1-drover/fleets/edge/operations", "/v1-drover/fleets/edge/agents/pin"
	for _, c := range []struct {
		target, token, body string
		status              int
		says                string
	}{
		{begin, b.Admin, `{"kind": "snapshot"}`, 422, "fleet edge has no Kubernetes for snapshot"},
		{begin, b.Admin, `{"kind": "restore", "snapshot": "one"}`, 422, "fleet edge has no Kubernetes for restore"},
		{begin, b.Admin, `{"kind": "rehearse", "snapshot": "one"}`, 422, "cannot be asked for"},
		{begin, b.Admin, `{"kind": "update-agents", "fleet": "edge"}`, 422, "rehearsed on a fleet, and nothing else is"},
		{begin, b.Admin, `{"kind": "update-agents", "services": ["etcd"]}`, 422, "only certificates are rotated by service"},
		{begin, b.Admin, `{"kind": "update-agents"}`, 422, "no agents to give"},
		{begin + "?replace=true", b.Admin, `{"kind": "update-agents"}`, 422, "only a restore takes the place"},
		{begin + "?now=true", b.Admin, `{"kind": "update-agents"}`, 422, "does not wait for a maintenance window"},
		{begin, b.Admin, `{"kind": "update-agents"` + strings.Repeat(" ", 1<<20) + `}`, 413, "longer than the 65536 bytes"},
		{begin, b.Admin, strings.Repeat(`{"a":`, 10_000), 422, "unexpected EOF"},
		{begin, b.Admin, `{"kind": "update-agents", "color": "red"}`, 422, "color"},
		{begin, b.User, `{"kind": "update-agents"}`, 404, ""},
		{begin, "", `{"kind": "update-agents"}`, 401, ""},
		{pin, b.Admin, `{}`, 422, "pinned is missing"},
		{pin, b.Admin, `{"pinned": "yes"}`, 422, "is not of the form"},
		{pin, b.Admin, `{"pinned": true` + strings.Repeat(" ", 1<<20) + `}`, 413, "longer than the 65536 bytes"},
		{pin, b.User, `{"pinned": true}`, 404, ""},
		{pin, "token-admin:wrong", `{"pinned": true}`, 401, ""},
		{"/v1-drover/fleets/nowhere/agents/pin", b.Admin, `{"pinned": true}`, 404, "there is no fleet"},
	} {
		before := b.State.Store.Revision()
		if r := b.Request("POST", c.target, c.token, c.body); r.Status != c.status || !strings.Contains(string(r.Raw), c.says) || len(r.Raw) > 4_000 {
			t.Errorf("%s %.60s: %d %.400s, want %d and %q", c.target, c.body, r.Status, r.Raw, c.status, c.says)
		}
		if b.State.Store.Revision() != before {
			t.Errorf("%s %.60s: something was written", c.target, c.body)
		}
	}
	state := func() string {
		t.Helper()
		b.Releases = map[string]string{"drover-fleets/custom-0000000000ff": "v0.0.9"}
		b.Presence.Tunnels.Set("drover-fleets/custom-0000000000ff", true, apibed.Start)
		return string(b.Want(200, "GET", "/v1-drover/agents?limit=500", "").Raw)
	}
	b.Want(200, "POST", pin, `{"pinned": true}`)
	if all := state(); !strings.Contains(all, `"state":"pinned"`) {
		t.Errorf("pinned, the agents are %s", all)
	}
	b.Want(200, "POST", pin, `{"pinned": false}`)
	if all := state(); strings.Contains(all, `"state":"pinned"`) || !strings.Contains(all, `"state":"behind"`) {
		t.Errorf("unpinned, the agents are %s", all)
	}
	if d, _ := b.State.Fleets.Get(string(records.FleetKey("edge"))); len(d.Value.Annotations) > 0 {
		t.Errorf("unpinned, the fleet has the annotations %v", d.Value.Annotations)
	}
}

func documentOf(name string) string {
	return "{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: " + name + "}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {}}}"
}

// TestFleetsAreNotShown: clients of Rancher's wire formats see neither fleets nor their machines and tokens.
func TestFleetsAreNotShown(t *testing.T) {
	b := apibed.WithFleet(t)
	d, _ := b.State.Fleets.Get(string(records.FleetKey("edge")))
	for _, target := range []string{
		"/v3/clusters", "/v3/nodes", "/v3/projects", "/v3/clusterregistrationtokens", "/v1/cluster.x-k8s.io.machines", "/v1/provisioning.cattle.io.clusters",
		"/v1/management.cattle.io.clusters", "/v1/counts", "/v1-drover/clusters",
	} {
		if r := b.Want(http.StatusOK, "GET", target, ""); strings.Contains(string(r.Raw), "edge") || strings.Contains(string(r.Raw), d.Value.ID) {
			t.Errorf("%s shows a fleet: %s", target, r.Raw)
		}
	}
	for _, target := range []string{
		"/v3/nodes/" + d.Value.ID + ":m-0000000000ff", "/v3/clusters/" + d.Value.ID, "/v3/clusterregistrationtokens/" + d.Value.ID + ":default-token", "/v1/cluster.x-k8s.io.machines/drover-fleets/custom-0000000000ff",
	} {
		b.Want(http.StatusNotFound, "GET", target, "")
	}
	if r := b.Get("/v1-drover/machines"); !strings.Contains(string(r.Raw), `"fleet":true`) {
		t.Errorf("drover's own list does not show the machine: %s", r.Raw)
	}
}
