// The agents on hosts: of which release each is, and which clusters and fleets keep theirs.

package native

import (
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

// Agents is GET /v1-drover/agents?cluster=<id>.
func (a Machines) Agents(c *route.Call) (route.Answer, error) {
	id := c.Query().Get("cluster")
	all := slices.DeleteFunc(a.State.Machines.List(), func(d store.Document[records.Machine]) bool {
		return id != "" && d.Value.ClusterID != id || !auth.May(c.Who, auth.Get, aboutMachine(d.Value))
	})
	return route.Page(c, all, func(d store.Document[records.Machine]) string { return d.Key }, a.agent)
}

func (a Machines) agent(d store.Document[records.Machine]) apitypes.Agent {
	m := a.show(d)
	one := apitypes.Agent{Type: "agent", ID: d.Key, Machine: m.Name, Cluster: m.Cluster, NodeName: m.NodeName, Agent: m.Agent, State: apitypes.AgentBehind}
	if m.Node != nil {
		one.NodeName = m.Node.Name
	}
	if a.Presence != nil {
		one.Release = a.Presence.Self.Version
	}
	home := a.home(d.Value.Cluster())
	switch {
	case m.Agent == "":
		one.State = apitypes.AgentUnknown
	case m.Agent == one.Release:
		one.State = apitypes.AgentCurrent
	case home.Annotations[clusterspec.PinAgents] == "true":
		one.State = apitypes.AgentPinned
	}
	return one
}

// home is the cluster or the fleet of a key.
func (a Machines) home(key records.ClusterKey) records.Object {
	if d, ok := a.State.Fleets.Get(string(key)); ok {
		return d.Value.Object
	}
	d, _ := a.State.Clusters.Get(string(key))
	return d.Value.Object
}

// PinOfCluster is POST /v1-drover/clusters/{namespace}/{name}/agents/pin with an apitypes.AskedPin.
func (a Machines) PinOfCluster(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	return a.pin(c, records.ClusterKey(d.Key))
}

// PinOfFleet is POST /v1-drover/fleets/{name}/agents/pin with an apitypes.AskedPin.
func (a Machines) PinOfFleet(c *route.Call, d store.Document[records.Fleet]) (route.Answer, error) {
	return a.pin(c, records.ClusterKey(d.Key))
}

func (a Machines) pin(c *route.Call, key records.ClusterKey) (route.Answer, error) {
	var asked struct {
		Pinned *bool `json:"pinned"` // of apitypes.AskedPin; a pin is not taken off by leaving it out
	}
	if err := readAsked(c, &asked, `of the form {"pinned": true}`); err != nil {
		return route.Answer{}, err
	}
	if asked.Pinned == nil {
		return route.Answer{}, norman.Invalid(norman.MissingRequired, "pinned", "pinned is missing; false takes the pin off")
	}
	if err := clusters.PinAgents(c.Ctx(), a.State, key, *asked.Pinned); err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("agents pinned", "of", key.Home(), "pinned", *asked.Pinned, "user", c.Who.UserID)
	return route.Answer{Status: http.StatusOK, Body: apitypes.AskedPin{Pinned: *asked.Pinned}}, nil
}
