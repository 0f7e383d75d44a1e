// Operations: long work as people see it, and what they ask of it.

package native

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

// ListOperations is GET /v1-drover/operations?cluster=<namespace>/<name>&follow=true: those that
// have ended too, in the order of their clusters and IDs.
func (a *API) ListOperations(c *route.Call) (route.Answer, error) {
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
			func(o operations.Operation) bool { return cluster == "" || o.Subject == cluster }, a.aboutOperation,
			func(d store.Document[operations.Operation]) any { return views.SummaryOf(d) }))
	}
	seen := slices.DeleteFunc(list(), func(d store.Document[operations.Operation]) bool {
		return !auth.May(c.Who, auth.Get, a.aboutOperation(d.Value))
	})
	return route.Page(c, seen, func(d store.Document[operations.Operation]) string { return d.Key }, views.SummaryOf)
}

// GetOperation is GET /v1-drover/operations/{id}?follow=true; who follows gets it again with each
// change, until it is removed.
func (a *API) GetOperation(c *route.Call, d store.Document[operations.Operation]) (route.Answer, error) {
	if c.Query().Get("follow") != "true" {
		return route.Answer{Status: http.StatusOK, Body: views.OfOperation(d)}, nil
	}
	return serveFollow(c, a.Changes, followDocument(subscribe.Operations, d.Key, a.State.Operations.Get, a.aboutOperation,
		func(d store.Document[operations.Operation]) any { return views.OfOperation(d) }))
}

// AbortOperation is POST /v1-drover/operations/{id}/abort.
func (a *API) AbortOperation(c *route.Call, d store.Document[operations.Operation]) (route.Answer, error) {
	return a.changeOperation(c, d, func(o operations.Operation) (operations.Operation, error) {
		return o.AbortBy(c.Who.UserID, a.Now().UTC())
	})
}

// RetryOperation is POST /v1-drover/operations/{id}/retry. The write is on the condition that the
// operation itself has not changed; should another one of its cluster begin in the same moment,
// operations.Active is one of them, so that they run one after the other.
func (a *API) RetryOperation(c *route.Call, d store.Document[operations.Operation]) (route.Answer, error) {
	return a.changeOperation(c, d, func(o operations.Operation) (operations.Operation, error) {
		if d, ok := a.State.Clusters.Get(o.Subject); ok {
			if err := d.Value.MayChange(); err != nil {
				return o, fmt.Errorf("retry operation %s: %w", o.ID, err)
			}
		}
		return o.RetryBy(c.Who.UserID, a.State.OperationsOf(records.ClusterKey(o.Subject)), a.Now().UTC())
	})
}

// HurryOperation is POST /v1-drover/operations/{id}/hurry: it does not wait for the maintenance window of its cluster.
func (a *API) HurryOperation(c *route.Call, d store.Document[operations.Operation]) (route.Answer, error) {
	return a.changeOperation(c, d, func(o operations.Operation) (operations.Operation, error) {
		return o.HurryBy(c.Who.UserID, a.Now().UTC())
	})
}

// changeOperation writes what a request makes of the operation. A request that does
// not fit the operation is answered with 409 and the reason.
func (a *API) changeOperation(c *route.Call, d store.Document[operations.Operation], change func(operations.Operation) (operations.Operation, error)) (route.Answer, error) {
	d, err := a.State.Operations.Modify(c.Ctx(), d.Key, change)
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: http.StatusOK, Body: views.OfOperation(d)}, nil
}

// aboutOperation is an operation as auth.May knows it: of its cluster or fleet.
func (a *API) aboutOperation(o operations.Operation) auth.Object {
	about := auth.Object{Kind: auth.Operation, Key: o.ID}
	if d, ok := a.State.Clusters.Get(o.Subject); ok {
		about.Cluster = d.Value.ID
	} else if d, ok := a.State.Fleets.Get(o.Subject); ok {
		about.Cluster = d.Value.ID
	}
	return about
}

// Operation is the operation of the path, for those who may do with it what the row is for. The errors are *norman.Error of 404 and 403.
func (a *API) Operation(c *route.Call) (store.Document[operations.Operation], error) {
	id := c.Param("id")
	d, ok := a.State.OperationsByID.First(id)
	if !ok || !auth.May(c.Who, auth.Get, a.aboutOperation(d.Value)) {
		return d, norman.Missing("operation", id)
	}
	if !auth.May(c.Who, c.Row.Access.Verb, a.aboutOperation(d.Value)) {
		return d, c.Denied()
	}
	return d, nil
}
