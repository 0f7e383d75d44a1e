package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/clusterspec"
)

// TestAgents: the release of each agent beside the server's, and whether its cluster keeps it.
func TestAgents(t *testing.T) {
	b := newBench(t)
	harbour(b)
	machines := b.st.MachinesByCluster.Find("fleet-default/harbour")
	names := []string{}
	b.releases = map[string]string{}
	for i, release := range []string{"v0.1.0", "v0.0.9"} {
		subject := string(machines[i].Value.Subject())
		b.releases[subject] = release
		b.presence.Tunnels.Set(subject, true, start)
		names = append(names, machines[i].Value.Name)
	}
	shown := func() map[string]apitypes.AgentState {
		t.Helper()
		var list apitypes.List[apitypes.Agent]
		if err := json.Unmarshal(b.want(200, "GET", "/v1-drover/agents", "").raw, &list); err != nil {
			t.Fatal(err)
		}
		all := map[string]apitypes.AgentState{}
		for _, one := range list.Data {
			if slices.Contains(names, one.Machine) || one.State != apitypes.AgentUnknown {
				all[one.Machine] = one.State
			}
			if one.Release != "v0.1.0" || one.Cluster == "" {
				t.Errorf("%+v", one)
			}
		}
		return all
	}
	if diff := cmp.Diff(map[string]apitypes.AgentState{names[0]: apitypes.AgentCurrent, names[1]: apitypes.AgentBehind}, shown()); diff != "" {
		t.Error(diff)
	}
	const pin = "/v1-drover/clusters/fleet-default/harbour/agents/pin"
	b.want(200, "POST", pin, `{"pinned": true}`)
	if diff := cmp.Diff(map[string]apitypes.AgentState{names[0]: apitypes.AgentCurrent, names[1]: apitypes.AgentPinned}, shown()); diff != "" {
		t.Error(diff)
	}
	b.want(200, "POST", pin, `{"pinned": false}`)
	if d, _ := b.st.Clusters.Get("fleet-default/harbour"); d.Value.Annotations[clusterspec.PinAgents] != "" || shown()[names[1]] != apitypes.AgentBehind {
		t.Errorf("after the pin: %v, %v", d.Value.Annotations, shown())
	}
	if r := b.request("POST", pin, b.admin, `{"pinned": "yes"}`); r.status != 422 && r.status != 400 {
		t.Errorf("a pin that is none: %d %s", r.status, r.raw)
	}
	if r := b.request("POST", pin, b.admin, `{}`); r.status != 422 || !strings.Contains(r.text("message"), "pinned is missing") {
		t.Errorf("a pin that is left out: %d %s", r.status, r.raw)
	}
	// A server that has no agents to give says so.
	if r := b.request("POST", harbourOperations, b.admin, `{"kind": "update-agents", "machines": ["`+names[1]+`"]}`); r.status != 422 || !strings.Contains(r.text("message"), "no agents to give") {
		t.Errorf("an update: %d %s", r.status, r.raw)
	}
}
