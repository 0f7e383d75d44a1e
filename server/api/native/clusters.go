// Clusters: documents taken in whole or not at all, and what became of them.

package native

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/controllers/rehearsals"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rketransfer"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/upgrades"
	"github.com/drover-project/drover/server/views"
)

// Clusters serves clusters: what people write, see and change of them.
type Clusters struct {
	*Common
	// Applier takes in documents, pauses and previews.
	Applier *clusters.Applier
	// Versions is the current version data.
	Versions func() *versions.Data
	// Upgrader takes clusters to other versions, and Desk gives RKE1 clusters to the rke command line and takes them in.
	Upgrader *upgrades.Upgrader
	Desk     *rketransfer.Desk
	// Schedules are those of rehearsals; nil refuses them.
	Schedules *rehearsals.Service
}

// request reads how documents are to be taken in from the query.
func request(c *route.Call) (clusters.Request, error) {
	r := clusters.Request{Who: c.Who, Allow: c.MayApply}
	var queue, replace bool
	for name, to := range map[string]*bool{"dryRun": &r.DryRun, "noRestart": &r.Limits.NoRestart, "noDrain": &r.Limits.NoDrain, "queue": &queue, "replace": &replace, "noSnapshot": &r.NoSnapshot, "now": &r.Hurry} {
		var err error
		if *to, err = flag(c, name); err != nil {
			return r, err
		}
	}
	switch {
	case queue && replace:
		return r, norman.Invalid(norman.InvalidOption, "queue", "cannot stand beside replace")
	case queue:
		r.Turn = admission.Queue
	case replace:
		r.Turn = admission.Replace
	}
	if text := c.Query().Get("generation"); text != "" {
		seen, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seen < 0 {
			return r, norman.Invalid(norman.InvalidOption, "generation", "%.40q is not the generation of a cluster", text)
		}
		r.Generation = &seen
	}
	if text := c.Query().Get("maxMachines"); text != "" {
		most, err := strconv.Atoi(text)
		if err != nil || most < 0 {
			return r, norman.Invalid(norman.InvalidOption, "maxMachines", "%.40q is not a number of machines", text)
		}
		r.Limits.Machines = &most
	}
	return r, nil
}

// flag is a part of the query that is true or false.
func flag(c *route.Call, name string) (bool, error) {
	switch value := c.Query().Get(name); value {
	case "", "false":
		return false, nil
	case "true", "All": // the second is kubectl's word of dryRun
		return true, nil
	default:
		return false, norman.Invalid(norman.InvalidOption, name, "%.40q is neither true nor false", value)
	}
}

// Apply is POST /v1-drover/apply?dryRun=true&generation=3: a stream of documents of
// clusters, Secrets and ConfigMaps, YAML or JSON. Either all of them are taken or none.
func (a Clusters) Apply(c *route.Call) (route.Answer, error) {
	how, err := request(c)
	if err != nil {
		return route.Answer{}, err
	}
	data, err := norman.ReadBody(c.W, c.R, clusterspec.MaxSize)
	if err != nil {
		return route.Answer{}, err
	}
	stream, err := clusterspec.ParseStream(data, a.Versions())
	if err != nil {
		return route.Answer{}, err
	}
	results, err := a.Applier.ApplyStream(c.Ctx(), stream, how)
	if err != nil {
		return route.Answer{}, err
	}
	answer := apitypes.Applied{Results: []apitypes.ApplyResult{}, DryRun: how.DryRun}
	for _, r := range results {
		c.Concern(r.Namespace + "/" + r.Name)
		answer.Results = append(answer.Results, r.ApplyResult)
	}
	return route.Answer{Status: http.StatusOK, Body: answer}, nil
}

// List is GET /v1-drover/clusters?follow=true.
func (a Clusters) List(c *route.Call) (route.Answer, error) {
	if c.Query().Get("follow") == "true" {
		return serveFollow(c, a.Changes, followDocuments(subscribe.Clusters, a.State.Clusters.List, a.State.Clusters.Get,
			func(records.Cluster) bool { return true }, aboutCluster, a.show))
	}
	machines := a.State.MachineCounts()
	seen := slices.DeleteFunc(a.State.Clusters.List(), func(d store.Document[records.Cluster]) bool {
		return !auth.May(c.Who, auth.Get, auth.OfCluster(d.Value.ID))
	})
	return route.Page(c, seen, func(d store.Document[records.Cluster]) string { return d.Key },
		func(d store.Document[records.Cluster]) apitypes.Cluster {
			return views.OfCluster(d, machines[d.Value.ID])
		})
}

// Get is GET /v1-drover/clusters/{namespace}/{name}?follow=true; who follows gets it again with each
// change, until it is removed.
func (a Clusters) Get(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	if c.Query().Get("follow") == "true" {
		return serveFollow(c, a.Changes, followDocument(subscribe.Clusters, d.Key, a.State.Clusters.Get, aboutCluster, a.show))
	}
	return route.Answer{Status: http.StatusOK, Body: views.OfCluster(d, a.State.MachineCount(d.Value.ID))}, nil
}

func aboutCluster(cl records.Cluster) auth.Object { return auth.OfCluster(cl.ID) }

func (a Clusters) show(d store.Document[records.Cluster]) any {
	return views.OfCluster(d, a.State.MachineCount(d.Value.ID))
}

// Document is GET /v1-drover/clusters/{namespace}/{name}/document: the cluster in the form
// that POST /v1-drover/apply takes.
func (a Clusters) Document(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	return route.Answer{Status: http.StatusOK, Body: views.OfDocument(d.Value)}, nil
}

// Pause is POST /v1-drover/clusters/{namespace}/{name}/pause: nothing new begins on the cluster's machines. The
// answer names those on which something has begun that is finished first.
func (a Clusters) Pause(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	if d.Value.Spec.Imported() {
		return route.Answer{}, norman.Invalid(norman.InvalidState, "", "cluster %s was imported: the server begins nothing on its hosts, so that there is nothing to pause", d.Value.Name)
	}
	d, busy, err := a.Applier.Pause(c.Ctx(), records.ClusterKey(d.Key), c.Who.UserID)
	if err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("cluster paused", "cluster", d.Key, "user", c.Who.UserID)
	return route.Answer{Status: http.StatusOK, Body: apitypes.Paused{Cluster: views.OfCluster(d, a.State.MachineCount(d.Value.ID)), Finishing: append([]string{}, busy...)}}, nil
}

// Preview is GET /v1-drover/clusters/{namespace}/{name}/preview: what is still to be done on its machines.
func (a Clusters) Preview(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	return route.Answer{Status: http.StatusOK, Body: a.Applier.Preview(d.Value)}, nil
}

// Find is the cluster of the path, for those who may do with it what the row is for; error 404 for those who do not see it.
func (a Clusters) Find(c *route.Call) (store.Document[records.Cluster], error) {
	key := c.Param("namespace") + "/" + c.Param("name")
	d, ok := a.State.Clusters.Get(key)
	if !ok || !auth.May(c.Who, auth.Get, auth.OfCluster(d.Value.ID)) {
		return d, norman.Missing("cluster", key)
	}
	about := auth.In(d.Value.ID, c.Row.Access.Kind)
	if about.Kind == auth.Cluster {
		about = auth.OfCluster(d.Value.ID)
	}
	if !auth.May(c.Who, c.Row.Access.Verb, about) {
		return d, c.Denied()
	}
	return d, nil
}

// Upgrade is POST /v1-drover/clusters/{namespace}/{name}/upgrade?dryRun=true&noSnapshot=true&now=true with a
// views.AskedUpgrade. What is in the way is answered with 422, and with everything that was found under findings.
func (a Clusters) Upgrade(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	how, err := request(c)
	if err != nil {
		return route.Answer{}, err
	}
	var asked apitypes.AskedUpgrade
	if err := readAsked(c, &asked, `of the form {"version": "v1.34.4+k3s1"}`); err != nil {
		return route.Answer{}, err
	}
	answer, err := a.Upgrader.Upgrade(c.Ctx(), records.ClusterKey(d.Key), upgrades.Request{To: asked.Version, Accept: asked.Accept, How: how})
	if refused, ok := errors.AsType[*upgrades.RefusedError](err); ok {
		return route.Answer{}, &norman.Error{
			Status: http.StatusUnprocessableEntity, Code: norman.InvalidState, Message: refused.Error(), Details: map[string]any{"findings": refused.Findings},
		}
	}
	if bad, ok := errors.AsType[*upgrades.InvalidError](err); ok {
		return route.Answer{}, norman.Invalid(norman.InvalidOption, bad.Field, "%s", bad.Reason)
	}
	if err != nil {
		return route.Answer{}, err
	}
	if !how.DryRun {
		a.Logger.Info("upgrade asked for", "cluster", d.Key, "from", answer.From, "to", answer.To, "operation", answer.Result.Operation, "user", c.Who.UserID)
	}
	return route.Answer{Status: http.StatusOK, Body: answer.Shown()}, nil
}

// GetWindow is GET /v1-drover/clusters/{namespace}/{name}/window.
func (a Clusters) GetWindow(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	return a.window(d.Value)
}

// SetWindow is POST /v1-drover/clusters/{namespace}/{name}/window/set with a views.AskedWindow.
func (a Clusters) SetWindow(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	var asked struct {
		Window *string `json:"window"` // of views.AskedWindow; a window is not taken off by leaving it out
	}
	if err := readAsked(c, &asked, `of the form {"window": "Sat 22:00-04:00 Europe/Berlin"}`); err != nil {
		return route.Answer{}, err
	}
	if asked.Window == nil {
		return route.Answer{}, norman.Invalid(norman.MissingRequired, "window", "window is missing; an empty one takes the window off")
	}
	d, err := a.Applier.SetWindow(c.Ctx(), records.ClusterKey(d.Key), *asked.Window)
	if bad, ok := errors.AsType[*clusters.WindowError](err); ok {
		return route.Answer{}, norman.Invalid(norman.InvalidFormat, "window", "%s", bad.Reason)
	}
	if err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("maintenance window set", "cluster", d.Key, "window", *asked.Window, "user", c.Who.UserID)
	return a.window(d.Value)
}

func (a Clusters) window(cluster records.Cluster) (route.Answer, error) {
	text, now, err := pass.Window(cluster, a.Now())
	if err != nil {
		return route.Answer{}, norman.Errorf(http.StatusConflict, norman.InvalidState, "%v", err)
	}
	return route.Answer{Status: http.StatusOK, Body: apitypes.Window{Type: "window", Window: text, Open: now.Open, Change: now.Change}}, nil
}
