package native_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/test/apibed"
)

// TestAgents: the release of each agent beside the server's, and whether its cluster keeps it.
func TestAgents(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	machines := b.State.MachinesByCluster.Find("fleet-default/harbour")
	names := []string{}
	b.Releases = map[string]string{}
	for i, release := range []string{"v0.1.0", "v0.0.9"} {
		subject := string(machines[i].Value.Subject())
		b.Releases[subject] = release
		b.Presence.Tunnels.Set(subject, true, apibed.Start)
		names = append(names, machines[i].Value.Name)
	}
	shown := func() map[string]apitypes.AgentState {
		t.Helper()
		var list apitypes.List[apitypes.Agent]
		if err := json.Unmarshal(b.Want(200, "GET", "/v1-drover/agents", "").Raw, &list); err != nil {
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
	b.Want(200, "POST", pin, `{"pinned": true}`)
	if diff := cmp.Diff(map[string]apitypes.AgentState{names[0]: apitypes.AgentCurrent, names[1]: apitypes.AgentPinned}, shown()); diff != "" {
		t.Error(diff)
	}
	b.Want(200, "POST", pin, `{"pinned": false}`)
	if d, _ := b.State.Clusters.Get("fleet-default/harbour"); d.Value.Annotations[clusterspec.PinAgents] != "" || shown()[names[1]] != apitypes.AgentBehind {
		t.Errorf("after the pin: %v, %v", d.Value.Annotations, shown())
	}
	if r := b.Request("POST", pin, b.Admin, `{"pinned": "yes"}`); r.Status != 422 && r.Status != 400 {
		t.Errorf("a pin that is none: %d %s", r.Status, r.Raw)
	}
	if r := b.Request("POST", pin, b.Admin, `{}`); r.Status != 422 || !strings.Contains(r.Text("message"), "pinned is missing") {
		t.Errorf("a pin that is left out: %d %s", r.Status, r.Raw)
	}
	// A server that has no agents to give says so.
	if r := b.Request("POST", apibed.HarbourOperations, b.Admin, `{"kind": "update-agents", "machines": ["`+names[1]+`"]}`); r.Status != 422 || !strings.Contains(r.Text("message"), "no agents to give") {
		t.Errorf("an update: %d %s", r.Status, r.Raw)
	}
}
