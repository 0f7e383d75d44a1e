// Package native is /v1-drover, drover's own API: applying documents whole or not at all,
// everything that is known of clusters, machines, tokens and tunnels in the shapes of
// package views, and what the agent on a host reports this moment.
package native

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/tunnel"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/controllers/events"
	"github.com/drover-project/drover/server/controllers/rehearsals"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

// API serves /v1-drover.
type API struct {
	State *state.State
	// Clusters takes in documents, pauses and previews.
	Clusters *clusters.Applier
	// Versions is the current version data.
	Versions func() *versions.Data
	// VersionStatus says where they are from.
	VersionStatus func() versions.Status
	Registration  *registration.Registration
	// AskAgent sends GET path to the agent on a machine's host, by the subject of its tunnel; nil answers 503.
	AskAgent func(ctx context.Context, subject records.Subject, path string) (*http.Response, error)
	// DialOnHost opens a connection on a machine's host, by the subject of its tunnel; nil answers 503.
	DialOnHost func(ctx context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error)
	// Presence is who is connected to which server; nil knows of no connection.
	Presence *hosts.Presence
	// RKE begins operations on RKE1 clusters; nil refuses them.
	RKE RKE1
	// Changes are what followers of lists see.
	Changes *subscribe.Feed
	// Events are the changes of states; nil shows none.
	Events *events.Log
	// DayTwo begins snapshots, restores and rotations on clusters of k3s and RKE2, and RefreshSnapshots asks one for its
	// snapshots; nil asks none.
	DayTwo           *etcdops.Service
	RefreshSnapshots func(ctx context.Context, key records.ClusterKey) error
	// PreviewOperation is what such an operation would do, in its order.
	PreviewOperation func(operations.Operation) ([]string, error)
	// Rehearsals begins rehearsals of snapshots; nil refuses them.
	Rehearsals *rehearsals.Service
	Now        func() time.Time
	Logger     *slog.Logger
}

// RKE1 begins operations on RKE1 clusters, or says what they would do.
type RKE1 interface {
	Ask(ctx context.Context, key records.ClusterKey, asked desired.Request, by string, turn admission.Turn) (operations.Operation, error)
	PreviewRequest(ctx context.Context, key records.ClusterKey, asked desired.Request) ([]string, error)
}

// ListMachines is GET /v1-drover/machines?cluster=<id>&follow=true.
func (a *API) ListMachines(c *route.Call) (route.Answer, error) {
	id := c.Query().Get("cluster")
	wanted := func(m records.Machine) bool { return id == "" || m.ClusterID == id }
	if c.Query().Get("follow") == "true" {
		return serveFollow(c, a.Changes, followDocuments(subscribe.Machines, a.State.Machines.List, a.State.Machines.Get, wanted, aboutMachine,
			func(d store.Document[records.Machine]) any { return views.OfMachine(d) }))
	}
	all := slices.DeleteFunc(a.State.Machines.List(), func(d store.Document[records.Machine]) bool {
		return !wanted(d.Value) || !auth.May(c.Who, auth.Get, aboutMachine(d.Value))
	})
	return route.Page(c, all, func(d store.Document[records.Machine]) string { return d.Key }, a.machine)
}

// GetMachine is GET /v1-drover/machines/{namespace}/{name}.
func (a *API) GetMachine(c *route.Call, d store.Document[records.Machine]) (route.Answer, error) {
	return route.Answer{Status: http.StatusOK, Body: a.machine(d)}, nil
}

// machine is a machine with the release of its agent.
func (a *API) machine(d store.Document[records.Machine]) apitypes.Machine {
	m := views.OfMachine(d)
	if a.Presence != nil {
		m.Agent = a.Presence.Tunnels.Release(string(d.Value.Subject()))
	}
	return m
}

// AllowRejoin is POST /v1-drover/machines/{namespace}/{name}/rejoin.
func (a *API) AllowRejoin(c *route.Call, d store.Document[records.Machine]) (route.Answer, error) {
	d, err := a.Registration.AllowRejoin(c.Ctx(), d.Key)
	if err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("a registration without the machine's token is allowed", "machine", d.Key, "user", c.Who.UserID, "until", d.Value.RejoinUntil)
	return route.Answer{Status: http.StatusOK, Body: views.OfMachine(d)}, nil
}

// LabelMachine is POST /v1-drover/machines/{namespace}/{name}/labels with {"set": {"rack": "a"}, "remove": ["disk"]}.
func (a *API) LabelMachine(c *route.Call, d store.Document[records.Machine]) (route.Answer, error) {
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

// Machine is the machine of the path, for those who may do with it what the row is for. The errors are *norman.Error of 404 and 403.
func (a *API) Machine(c *route.Call) (store.Document[records.Machine], error) {
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
