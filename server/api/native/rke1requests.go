// What people ask of a cluster that runs, beside its document: snapshots, their restore, and rotations.

package native

import (
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

// Begin is POST /v1-drover/clusters/{namespace}/{name}/operations?dryRun=true&queue=true&replace=true with a views.Asked.
func (a *API) Begin(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	how, asked, err := askedFor(c)
	if err != nil {
		return route.Answer{}, err
	}
	switch {
	case asked.Kind == operations.KindRehearse:
		return a.rehearse(c, d, asked, how)
	case !d.Value.Spec.Docker():
		return a.beginOnHosts(c, d, asked, how)
	case a.RKE == nil || !d.Value.Spec.RKE1():
		return route.Answer{}, norman.Errorf(http.StatusConflict, norman.Conflict, "cluster %s is not a cluster of RKE1, and this is not done on others of Docker hosts", d.Value.Name)
	case len(asked.Machines) > 0 || asked.Mode != "" || how.NoSnapshot || how.Hurry:
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "machines", "machines, mode, noSnapshot and now are for clusters of k3s and RKE2, and %s is one of RKE1", d.Value.Name)
	}
	key := records.ClusterKey(d.Key)
	if how.DryRun {
		lines, err := a.RKE.PreviewRequest(c.Ctx(), key, views.RequestOf(asked))
		return route.Answer{Status: http.StatusOK, Body: apitypes.Begun{Type: "begun", Lines: lines}}, err
	}
	o, err := a.RKE.Ask(c.Ctx(), key, views.RequestOf(asked), c.Who.UserID, how.Turn)
	if err != nil {
		return route.Answer{}, err
	}
	return begun(o), nil
}

// askedFor reads what an operation is asked for by, and how.
func askedFor(c *route.Call) (how clusters.Request, asked apitypes.Asked, err error) {
	if how, err = request(c); err == nil {
		err = readAsked(c, &asked, `what an operation is asked for by, such as {"kind": "snapshot"}`)
	}
	if err == nil && asked.Fleet != "" && asked.Kind != operations.KindRehearse {
		err = norman.Invalid(norman.InvalidOption, "fleet", "a snapshot is rehearsed on a fleet, and nothing else is")
	}
	return how, asked, err
}

// ListSnapshots is GET /v1-drover/clusters/{namespace}/{name}/snapshots?follow=true: those that the server took or tried to, the oldest first.
func (a *API) ListSnapshots(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	switch {
	case c.Query().Get("follow") == "true":
		return serveFollow(c, a.Changes, followedSnapshots(a, c.Who, d))
	case !d.Value.Spec.Docker():
		return a.snapshotFiles(c, d.Value)
	}
	kept, _ := a.State.RKEStates.Get(d.Key)
	return route.Page(c, kept.Value.Snapshots, func(s records.RKESnapshot) string { return s.At.UTC().Format("20060102T150405.000000000") + "/" + s.ID },
		func(s records.RKESnapshot) apitypes.Snapshot { return views.OfSnapshot(records.ClusterKey(d.Key), s) })
}

// followedSnapshots are those of one cluster; of RKE1 they are in one document with its state.
func followedSnapshots(a *API, who auth.Identity, cluster store.Document[records.Cluster]) List {
	about := auth.In(cluster.Value.ID, auth.EtcdBackup)
	if !cluster.Value.Spec.Docker() {
		below := cluster.Key + "/"
		l := followDocuments(subscribe.Snapshots, func() []store.Document[records.Snapshot] { return a.State.Snapshots.ListIn(below) }, a.State.Snapshots.Get,
			func(s records.Snapshot) bool {
				return !etcdops.Foreign(a.State, cluster.Value, s) || etcdops.OpensBucket(a.State, who, cluster.Value)
			}, func(records.Snapshot) auth.Object { return about },
			func(d store.Document[records.Snapshot]) any {
				ok, why := a.DayTwo.Restorable(d.Value)
				return views.OfFile(d.Value, ok, why)
			})
		documents := l.Of
		l.Of = func(change subscribe.Change) []string {
			return slices.DeleteFunc(documents(change), func(key string) bool { return !strings.HasPrefix(key, below) })
		}
		return l
	}
	line := func(s records.RKESnapshot) Line {
		return Line{Key: s.ID, About: about, Show: func() any { return views.OfSnapshot(records.ClusterKey(cluster.Key), s) }}
	}
	kept := func() []records.RKESnapshot {
		d, _ := a.State.RKEStates.Get(cluster.Key)
		return d.Value.Snapshots
	}
	return List{
		All: func() []Line {
			var all []Line
			for _, s := range kept() {
				all = append(all, line(s))
			}
			return all
		},
		Of: func(change subscribe.Change) []string {
			var ids []string
			if change.Collection == subscribe.RKEStates && change.Key == cluster.Key {
				for _, s := range kept() {
					ids = append(ids, s.ID)
				}
			}
			return ids
		},
		Now: func(id string) (Line, bool) {
			all := kept()
			i := slices.IndexFunc(all, func(s records.RKESnapshot) bool { return s.ID == id })
			if i < 0 {
				return Line{}, false
			}
			return line(all[i]), true
		},
	}
}
