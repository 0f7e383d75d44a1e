// Operations: long work as people see it, and what they ask of it.

package native

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/controllers/rehearsals"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

// Operations serves operations, and begins those that people ask for.
type Operations struct {
	*Common
	// RKE begins operations on RKE1 clusters; nil refuses them.
	RKE RKE1
	// DayTwo begins snapshots, restores and rotations on clusters of k3s and RKE2, and Preview is what such an operation would do, in its order.
	DayTwo  *etcdops.Service
	Preview func(operations.Operation) ([]string, error)
	// Rehearsals begins rehearsals of snapshots; nil refuses them.
	Rehearsals *rehearsals.Service
}

// RKE1 begins operations on RKE1 clusters, or says what they would do.
type RKE1 interface {
	Ask(ctx context.Context, key records.ClusterKey, asked desired.Request, by string, turn admission.Turn) (operations.Operation, error)
	PreviewRequest(ctx context.Context, key records.ClusterKey, asked desired.Request) ([]string, error)
}

// List is GET /v1-drover/operations?cluster=<namespace>/<name>&follow=true: those that
// have ended too, in the order of their clusters and IDs.
func (a Operations) List(c *route.Call) (route.Answer, error) {
	cluster := c.Query().Get("cluster")
	if namespace, name, cut := strings.Cut(cluster, "/"); cluster != "" && (!cut || namespace == "" || name == "" || strings.Contains(name, "/")) {
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "cluster", "cluster %.80q is not of the form NAMESPACE/NAME", cluster)
	}
	list := a.State.Operations.List
	if cluster != "" {
		list = func() []store.Document[operations.Operation] { return a.State.Operations.ListIn(cluster + "/") }
	}
	if c.Query().Get("follow") == "true" {
		return serveFollow(c, a.Changes, followDocuments(subscribe.Operations, list, a.State.Operations.Get,
			func(o operations.Operation) bool { return cluster == "" || o.Subject == cluster }, a.about,
			func(d store.Document[operations.Operation]) any { return views.SummaryOf(d) }))
	}
	seen := slices.DeleteFunc(list(), func(d store.Document[operations.Operation]) bool {
		return !auth.May(c.Who, auth.Get, a.about(d.Value))
	})
	return route.Page(c, seen, func(d store.Document[operations.Operation]) string { return d.Key }, views.SummaryOf)
}

// Get is GET /v1-drover/operations/{id}?follow=true; who follows gets it again with each
// change, until it is removed.
func (a Operations) Get(c *route.Call, d store.Document[operations.Operation]) (route.Answer, error) {
	if c.Query().Get("follow") != "true" {
		return route.Answer{Status: http.StatusOK, Body: views.OfOperation(d)}, nil
	}
	return serveFollow(c, a.Changes, followDocument(subscribe.Operations, d.Key, a.State.Operations.Get, a.about,
		func(d store.Document[operations.Operation]) any { return views.OfOperation(d) }))
}

// Abort is POST /v1-drover/operations/{id}/abort.
func (a Operations) Abort(c *route.Call, d store.Document[operations.Operation]) (route.Answer, error) {
	return a.change(c, d, func(o operations.Operation) (operations.Operation, error) {
		return o.AbortBy(c.Who.UserID, a.Now().UTC())
	})
}

// Retry is POST /v1-drover/operations/{id}/retry. The write is on the condition that the
// operation itself has not changed; should another one of its cluster begin in the same moment,
// operations.Active is one of them, so that they run one after the other.
func (a Operations) Retry(c *route.Call, d store.Document[operations.Operation]) (route.Answer, error) {
	return a.change(c, d, func(o operations.Operation) (operations.Operation, error) {
		if d, ok := a.State.Clusters.Get(o.Subject); ok {
			if err := d.Value.MayChange(); err != nil {
				return o, fmt.Errorf("retry operation %s: %w", o.ID, err)
			}
		}
		return o.RetryBy(c.Who.UserID, a.State.OperationsOf(records.ClusterKey(o.Subject)), a.Now().UTC())
	})
}

// Hurry is POST /v1-drover/operations/{id}/hurry: it does not wait for the maintenance window of its cluster.
func (a Operations) Hurry(c *route.Call, d store.Document[operations.Operation]) (route.Answer, error) {
	return a.change(c, d, func(o operations.Operation) (operations.Operation, error) {
		return o.HurryBy(c.Who.UserID, a.Now().UTC())
	})
}

// change writes what a request makes of the operation. A request that does
// not fit the operation is answered with 409 and the reason.
func (a Operations) change(c *route.Call, d store.Document[operations.Operation], change func(operations.Operation) (operations.Operation, error)) (route.Answer, error) {
	d, err := a.State.Operations.Modify(c.Ctx(), d.Key, change)
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: http.StatusOK, Body: views.OfOperation(d)}, nil
}

// about is an operation as auth.May knows it: of its cluster or fleet.
func (a Operations) about(o operations.Operation) auth.Object {
	about := auth.Object{Kind: auth.Operation, Key: o.ID}
	if d, ok := a.State.Clusters.Get(o.Subject); ok {
		about.Cluster = d.Value.ID
	} else if d, ok := a.State.Fleets.Get(o.Subject); ok {
		about.Cluster = d.Value.ID
	}
	return about
}

// Find is the operation of the path, for those who may do with it what the row is for. The errors are *norman.Error of 404 and 403.
func (a Operations) Find(c *route.Call) (store.Document[operations.Operation], error) {
	id := c.Param("id")
	d, ok := a.State.OperationsByID.First(id)
	if !ok || !auth.May(c.Who, auth.Get, a.about(d.Value)) {
		return d, norman.Missing("operation", id)
	}
	if !auth.May(c.Who, c.Row.Access.Verb, a.about(d.Value)) {
		return d, c.Denied()
	}
	return d, nil
}
