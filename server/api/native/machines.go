// Machines, and what is asked of their agents.

package native

import (
	"context"
	"net"
	"net/http"
	"slices"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
	"github.com/drover-project/drover/tunnel"
)

// Machines serves machines, and the agents on their hosts.
type Machines struct {
	*Common
	Registration *registration.Registration
	// Applier removes machines.
	Applier *clusters.Applier
	// AskAgent sends GET path to the agent on a machine's host, by the subject of its tunnel; nil answers 503.
	AskAgent AskAgent
	// DialOnHost opens a connection on a machine's host, by the subject of its tunnel; nil answers 503.
	DialOnHost func(ctx context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error)
	// Presence is who is connected to which server; nil knows of no connection.
	Presence *hosts.Presence
}

// AskAgent sends GET path to the agent on a machine's host, by the subject of its tunnel.
type AskAgent func(ctx context.Context, subject records.Subject, path string) (*http.Response, error)

// List is GET /v1-drover/machines?cluster=<id>&follow=true.
func (a Machines) List(c *route.Call) (route.Answer, error) {
	id := c.Query().Get("cluster")
	wanted := func(m records.Machine) bool { return id == "" || m.ClusterID == id }
	if c.Query().Get("follow") == "true" {
		return serveFollow(c, a.Changes, followDocuments(subscribe.Machines, a.State.Machines.List, a.State.Machines.Get, wanted, aboutMachine,
			func(d store.Document[records.Machine]) any { return views.OfMachine(d) }))
	}
	all := slices.DeleteFunc(a.State.Machines.List(), func(d store.Document[records.Machine]) bool {
		return !wanted(d.Value) || !auth.May(c.Who, auth.Get, aboutMachine(d.Value))
	})
	return route.Page(c, all, func(d store.Document[records.Machine]) string { return d.Key }, a.show)
}

// Get is GET /v1-drover/machines/{namespace}/{name}.
func (a Machines) Get(c *route.Call, d store.Document[records.Machine]) (route.Answer, error) {
	return route.Answer{Status: http.StatusOK, Body: a.show(d)}, nil
}

// show is a machine with the release of its agent.
func (a Machines) show(d store.Document[records.Machine]) apitypes.Machine {
	m := views.OfMachine(d)
	if a.Presence != nil {
		m.Agent = a.Presence.Tunnels.Release(string(d.Value.Subject()))
	}
	return m
}

// AllowRejoin is POST /v1-drover/machines/{namespace}/{name}/rejoin.
func (a Machines) AllowRejoin(c *route.Call, d store.Document[records.Machine]) (route.Answer, error) {
	d, err := a.Registration.AllowRejoin(c.Ctx(), d.Key)
	if err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("a registration without the machine's token is allowed", "machine", d.Key, "user", c.Who.UserID, "until", d.Value.RejoinUntil)
	return route.Answer{Status: http.StatusOK, Body: views.OfMachine(d)}, nil
}

// Label is POST /v1-drover/machines/{namespace}/{name}/labels with {"set": {"rack": "a"}, "remove": ["disk"]}.
func (a Machines) Label(c *route.Call, d store.Document[records.Machine]) (route.Answer, error) {
	var change apitypes.LabelChange
	if err := readAsked(c, &change, `a change of labels, such as {"set": {"rack": "a"}, "remove": ["disk"]}`); err != nil {
		return route.Answer{}, err
	}
	d, err := registration.Label(c.Ctx(), a.State, d.Key, change.Set, change.Remove)
	if err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("labels of a machine changed", "machine", d.Key, "user", c.Who.UserID, "set", len(change.Set), "removed", len(change.Remove))
	return route.Answer{Status: http.StatusOK, Body: views.OfMachine(d)}, nil
}

// Find is the machine of the path, for those who may do with it what the row is for. The errors are *norman.Error of 404 and 403.
func (a Machines) Find(c *route.Call) (store.Document[records.Machine], error) {
	key := c.Param("namespace") + "/" + c.Param("name")
	d, ok := a.State.Machines.Get(key)
	if !ok || !auth.May(c.Who, auth.Get, aboutMachine(d.Value)) {
		return d, norman.Missing("machine", key)
	}
	if !auth.May(c.Who, c.Row.Access.Verb, aboutMachine(d.Value)) {
		return d, c.Denied()
	}
	return d, nil
}

// aboutMachine is a machine as auth.May knows it.
func aboutMachine(m records.Machine) auth.Object {
	return auth.Object{Kind: auth.Machine, Key: m.Key(), Cluster: m.ClusterID}
}

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
