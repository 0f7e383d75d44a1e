// Fleets: what people ask of machines without a cluster.

package native

import (
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/plans/handwritten"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/fleets"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

// Fleets serves fleets.
type Fleets struct {
	*Common
	Fleets     *fleets.Fleets
	Joining    Joining
	Operations Operations
	Reasons    Why
}

// List is GET /v1-drover/fleets?follow=true.
func (a Fleets) List(c *route.Call) (route.Answer, error) {
	if c.Query().Get("follow") == "true" {
		return serveFollow(c, a.Changes, a.following())
	}
	return route.Page(c, a.State.Fleets.List(), func(d store.Document[records.Fleet]) string { return d.Key }, a.show)
}

func (a Fleets) show(d store.Document[records.Fleet]) apitypes.Fleet {
	key := records.ClusterKey(d.Key)
	return views.OfFleet(d, a.machinesOf(key), a.underWay(key))
}

// fleetPause is left between two looks at a fleet, which changes with each of its machines.
const fleetPause = 200 * time.Millisecond

// following is all fleets; one changes with its machines and with what is under way on it, too.
func (a Fleets) following() List {
	l := followDocuments(subscribe.Fleets, a.State.Fleets.List, a.State.Fleets.Get, func(records.Fleet) bool { return true },
		func(f records.Fleet) auth.Object { return auth.Object{Kind: auth.Fleet, Key: f.ID} },
		func(d store.Document[records.Fleet]) any { return a.show(d) })
	l.Pause = fleetPause
	l.Of = func(change subscribe.Change) []string {
		switch change.Collection {
		case subscribe.Fleets:
			return []string{change.Key}
		case subscribe.Operations:
			d, _ := a.State.Operations.Get(change.Key)
			return []string{d.Value.Subject}
		case subscribe.Machines:
			d, _, _ := subscribe.Of(change, a.State.Machines)
			return []string{string(d.Value.Cluster())}
		}
		return nil
	}
	return l
}

// Get is GET /v1-drover/fleets/{name}.
func (a Fleets) Get(c *route.Call, d store.Document[records.Fleet]) (route.Answer, error) {
	return route.Answer{Status: http.StatusOK, Body: a.show(d)}, nil
}

// Why is GET /v1-drover/fleets/{name}/why.
func (a Fleets) Why(c *route.Call, d store.Document[records.Fleet]) (route.Answer, error) {
	return a.Reasons.fleet(d, "")
}

// Find is the fleet that a route is about. The error is a *norman.Error of 404.
func (a Fleets) Find(c *route.Call) (store.Document[records.Fleet], error) {
	d, err := a.Fleets.Find(c.Param("name"))
	if err == nil && !auth.May(c.Who, c.Row.Access.Verb, auth.Object{Kind: c.Row.Access.Kind, Key: d.Value.ID}) {
		err = norman.Missing("fleet", c.Param("name"))
	}
	return d, err
}

// Join is POST /v1-drover/fleets/{name}/join?rotate=true: the command by which a host joins. A fleet is made by the first
// one that asks how to join it.
func (a Fleets) Join(c *route.Call) (route.Answer, error) {
	d, made, err := a.Fleets.Ensure(c.Ctx(), c.Param("name"), c.Who.UserID)
	if err != nil {
		return route.Answer{}, err
	}
	if made {
		a.Logger.Info("fleet made", "fleet", d.Value.Name, "id", d.Value.ID, "user", c.Who.UserID)
	}
	answer, err := a.Joining.join(c, d.Value.ID, d.Value.Name, c.Query().Get("rotate") == "true" && !made)
	if answer.Made = made; answer.Command != "" {
		answer.Command += " --no-roles"
	}
	return route.Answer{Status: http.StatusOK, Body: answer}, err
}

// Remove is POST /v1-drover/fleets/{name}/remove?force=true.
func (a Fleets) Remove(c *route.Call, d store.Document[records.Fleet]) (route.Answer, error) {
	if err := a.Fleets.Remove(c.Ctx(), d.Value.Name, c.Leave().Force); err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("fleet is removed", "fleet", d.Value.Name, "user", c.Who.UserID, "force", c.Leave().Force)
	now, ok := a.State.Fleets.Get(d.Key)
	if !ok {
		now = d
	}
	return route.Answer{Status: http.StatusOK, Body: a.show(now)}, nil
}

// Give is POST /v1-drover/fleets/{name}/plan: a plan in YAML or JSON for the machines that the query chooses.
func (a Fleets) Give(c *route.Call, d store.Document[records.Fleet]) (route.Answer, error) {
	how, err := request(c)
	if err != nil {
		return route.Answer{}, err
	}
	r := fleets.Request{
		Fleet: d.Value.Name, Machines: c.Query()["machine"], Labels: map[string]string{}, Concurrency: c.Query().Get("concurrency"), By: c.Who.UserID, DryRun: how.DryRun, Turn: how.Turn,
	}
	for _, label := range c.Query()["label"] {
		key, value, ok := strings.Cut(label, "=")
		if other, twice := r.Labels[key]; !ok || key == "" || twice && other != value {
			return route.Answer{}, norman.Invalid(norman.InvalidOption, "label", "%.80q is not of the form key=value, or another value is asked for, too", label)
		}
		r.Labels[key] = value
	}
	data, err := norman.ReadBody(c.W, c.R, handwritten.MaxSize)
	if err != nil {
		return route.Answer{}, err
	}
	plan, err := handwritten.Parse("plan", data)
	if err != nil {
		return route.Answer{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "%v", err)
	}
	r.Plan = *plan
	result, err := a.Fleets.Give(c.Ctx(), r)
	if err != nil {
		return route.Answer{}, err
	}
	if result.Operation != "" {
		a.Logger.Info("a plan is given", "fleet", result.Fleet, "plan", result.Plan, "machines", len(result.Machines), "operation", result.Operation, "user", c.Who.UserID)
	}
	return route.Answer{Status: http.StatusOK, Body: result}, nil
}

// Begin is POST /v1-drover/fleets/{name}/operations with an apitypes.Asked: the update of the agents on its hosts.
func (a Fleets) Begin(c *route.Call, d store.Document[records.Fleet]) (route.Answer, error) {
	how, asked, err := askedFor(c)
	if err != nil {
		return route.Answer{}, err
	}
	return a.Operations.beginOnHosts(c, store.Document[records.Cluster]{Key: d.Key, Value: d.Value.AsCluster()}, asked, how)
}

// Remove is POST /v1-drover/machines/{namespace}/{name}/remove, for those of fleets too, which /v3 does not have.
func (a Machines) Remove(c *route.Call, d store.Document[records.Machine]) (route.Answer, error) {
	leave := c.Leave()
	if d.Value.InFleet() && leave.Agent {
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "agent",
			"machine %s is of %s, and is forgotten without another plan: run rancher-system-agent-uninstall.sh on its host", d.Value.Name, d.Value.Home())
	}
	if err := a.Applier.RemoveMachine(c.Ctx(), records.MachineKey(d.Key), leave, c.Turn()); err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("machine is removed", "machine", d.Key, "user", c.Who.UserID, "force", leave.Force)
	if now, ok := a.State.Machines.Get(d.Key); ok {
		return route.Answer{Status: http.StatusOK, Body: views.OfMachine(now)}, nil
	}
	d.Value.Deleting = a.Now().UTC().Truncate(time.Second)
	return route.Answer{Status: http.StatusOK, Body: views.OfMachine(d)}, nil
}
