// The agents on hosts: of which release each is, and which clusters keep theirs.

package native

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// AgentAPI shows agents and has clusters keep theirs.
type AgentAPI struct{ *API }

// List is GET /v1-drover/agents?cluster=<id>.
func (a AgentAPI) List(c *route.Call) (route.Answer, error) {
	id := c.Query().Get("cluster")
	all := slices.DeleteFunc(a.State.Machines.List(), func(d store.Document[records.Machine]) bool {
		return id != "" && d.Value.ClusterID != id || !auth.May(c.Who, auth.Get, aboutMachine(d.Value))
	})
	return route.Page(c, all, func(d store.Document[records.Machine]) string { return d.Key }, a.agent)
}

func (a AgentAPI) agent(d store.Document[records.Machine]) apitypes.Agent {
	m := a.machine(d)
	one := apitypes.Agent{Type: "agent", ID: d.Key, Machine: m.Name, Cluster: m.Cluster, NodeName: m.NodeName, Agent: m.Agent, State: apitypes.AgentBehind}
	if m.Node != nil {
		one.NodeName = m.Node.Name
	}
	if a.Presence != nil {
		one.Release = a.Presence.Self.Version
	}
	cluster, ok := a.State.Clusters.Get(string(d.Value.Cluster()))
	switch {
	case m.Agent == "":
		one.State = apitypes.AgentUnknown
	case m.Agent == one.Release:
		one.State = apitypes.AgentCurrent
	case ok && cluster.Value.Annotations[clusterspec.PinAgents] == "true":
		one.State = apitypes.AgentPinned
	}
	return one
}

// Pin is POST /v1-drover/clusters/{namespace}/{name}/agents/pin with an apitypes.AskedPin.
func (a AgentAPI) Pin(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	var asked struct {
		Pinned *bool `json:"pinned"` // of apitypes.AskedPin; a pin is not taken off by leaving it out
	}
	if err := readAsked(c, &asked, `of the form {"pinned": true}`); err != nil {
		return route.Answer{}, err
	}
	if asked.Pinned == nil {
		return route.Answer{}, norman.Invalid(norman.MissingRequired, "pinned", "pinned is missing; false takes the pin off")
	}
	pin := map[bool]string{true: "true"}[*asked.Pinned]
	if _, err := clusters.Annotate(c.Ctx(), a.State, records.ClusterKey(d.Key), clusterspec.PinAgents, pin, func(records.Cluster) error { return nil }); err != nil {
		return route.Answer{}, fmt.Errorf("pin the agents of cluster %s: %w", d.Key, err)
	}
	a.Logger.Info("agents pinned", "cluster", d.Key, "pinned", *asked.Pinned, "user", c.Who.UserID)
	return route.Answer{Status: http.StatusOK, Body: apitypes.AskedPin{Pinned: *asked.Pinned}}, nil
}
