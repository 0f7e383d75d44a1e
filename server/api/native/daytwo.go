// Snapshots, restores and rotations of clusters of k3s and RKE2.

package native

import (
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

// beginOnHosts begins an operation on a cluster whose machines get plans.
func (a *API) beginOnHosts(c *route.Call, d store.Document[records.Cluster], asked apitypes.Asked, how clusters.Request) (route.Answer, error) {
	refused := func(field, format string, args ...any) (route.Answer, error) {
		return route.Answer{}, norman.Invalid(norman.InvalidOption, field, format, args...)
	}
	if asked.CA && asked.Kind == operations.KindRotateCertificates {
		asked.Kind, asked.CA = operations.KindRotateCA, false
	}
	updates := asked.Kind == operations.KindUpdateAgents
	snapshots := asked.Kind == operations.KindSnapshot || asked.Kind == operations.KindRestore
	switch {
	case !operations.Stepped(asked.Kind):
		return refused("kind", "%.40q cannot be asked for; there are %s", asked.Kind, operations.Names(operations.Stepped))
	case asked.CA || asked.KeepState:
		return refused("kind", "ca and keepState are for clusters of RKE1, and %s is not one", d.Value.Name)
	case how.NoSnapshot && asked.Kind != operations.KindRestore && asked.Kind != operations.KindRotateCA:
		return refused("noSnapshot", "only upgrades, restores and rotations of the CAs begin with a snapshot")
	case how.Hurry:
		return refused("now", "what is asked for here does not wait for a maintenance window")
	case how.Turn == admission.Replace && asked.Kind != operations.KindRestore:
		return refused("replace", "only a restore takes the place of a change that is under way")
	case asked.Kind == operations.KindRestore && len(asked.Machines) > 1:
		return refused("machines", "a snapshot is restored on one machine")
	case len(asked.Machines) > 0 && !snapshots && !updates:
		return refused("machines", "%s is done on all machines that it concerns", asked.Kind)
	case asked.Snapshot != "" && !snapshots:
		return refused("snapshot", "only snapshot and restore have to do with a snapshot")
	case asked.Mode != "" && asked.Kind != operations.KindRestore:
		return refused("mode", "only restores have a mode")
	case len(asked.Services) > 0 && asked.Kind != operations.KindRotateCertificates:
		return refused("services", "only certificates are rotated by service, and with new CAs all of them")
	}
	ask := etcdops.Request{Kind: asked.Kind, Mode: asked.Mode, By: c.Who.UserID, Turn: how.Turn, Foreign: etcdops.OpensBucket(a.State, c.Who, d.Value)}
	ask.Request.Services, ask.Request.NoSnapshot = asked.Services, how.NoSnapshot
	switch asked.Kind {
	case operations.KindSnapshot:
		ask.Request.Name, ask.Request.Machines = asked.Snapshot, asked.Machines
	case operations.KindUpdateAgents:
		ask.Request.Machines = asked.Machines
	case operations.KindRestore:
		ask.Request.Snapshot = asked.Snapshot
		if len(asked.Machines) > 0 {
			ask.Request.Target = asked.Machines[0]
		}
	}
	if how.DryRun {
		return a.draftOnHosts(records.ClusterKey(d.Key), ask)
	}
	o, err := a.DayTwo.Begin(c.Ctx(), records.ClusterKey(d.Key), ask)
	if err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("operation asked for", "operation", o.ID, "kind", o.Kind, "cluster", d.Key, "user", c.Who.UserID)
	return begun(o), nil
}

// begun answers with the operation that was asked for.
func begun(o operations.Operation) route.Answer {
	shown := views.SummaryOf(store.Document[operations.Operation]{Value: o})
	return route.Answer{Status: http.StatusOK, Body: apitypes.Begun{Type: "begun", Operation: &shown}}
}

// draftOnHosts answers with what would be done on the cluster's machines.
func (a *API) draftOnHosts(key records.ClusterKey, ask etcdops.Request) (route.Answer, error) {
	o, err := a.DayTwo.Draft(key, ask)
	if err != nil {
		return route.Answer{}, err
	}
	lines, err := a.PreviewOperation(o)
	if err != nil {
		return route.Answer{}, norman.Errorf(http.StatusConflict, norman.Conflict, "%v", err)
	}
	return route.Answer{Status: http.StatusOK, Body: apitypes.Begun{Type: "begun", Lines: lines}}, nil
}

// snapshotFiles answers with the snapshots of a cluster whose machines get plans, the oldest first. The cluster is asked
// for them; what was known before is shown when it does not answer.
func (a *API) snapshotFiles(c *route.Call, cluster records.Cluster) (route.Answer, error) {
	if a.RefreshSnapshots != nil {
		if err := a.RefreshSnapshots(c.Ctx(), records.ClusterKey(cluster.Key())); err != nil {
			a.Logger.Debug("snapshots not listed", "cluster", cluster.Key(), "error", err)
		}
	}
	order := func(d store.Document[records.Snapshot]) string {
		return d.Value.Created.UTC().Format("20060102T150405.000000000") + "/" + d.Key
	}
	all := etcdops.Known(a.State, cluster, etcdops.OpensBucket(a.State, c.Who, cluster))
	slices.SortFunc(all, func(x, y store.Document[records.Snapshot]) int { return strings.Compare(order(x), order(y)) })
	return route.Page(c, all, order, func(d store.Document[records.Snapshot]) apitypes.Snapshot {
		ok, why := a.DayTwo.Restorable(d.Value)
		return views.OfFile(d.Value, ok, why)
	})
}
