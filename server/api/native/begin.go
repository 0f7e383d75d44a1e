// What people ask for on clusters that run: snapshots, restores, rotations, rehearsals, updates of agents.

package native

import (
	"net/http"

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

// Begin is POST /v1-drover/clusters/{namespace}/{name}/operations?dryRun=true&queue=true&replace=true with a views.Asked.
func (a Operations) Begin(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
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

// beginOnHosts begins an operation on a cluster whose machines get plans.
func (a Operations) beginOnHosts(c *route.Call, d store.Document[records.Cluster], asked apitypes.Asked, how clusters.Request) (route.Answer, error) {
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
func (a Operations) draftOnHosts(key records.ClusterKey, ask etcdops.Request) (route.Answer, error) {
	o, err := a.DayTwo.Draft(key, ask)
	if err != nil {
		return route.Answer{}, err
	}
	lines, err := a.Preview(o)
	if err != nil {
		return route.Answer{}, norman.Errorf(http.StatusConflict, norman.Conflict, "%v", err)
	}
	return route.Answer{Status: http.StatusOK, Body: apitypes.Begun{Type: "begun", Lines: lines}}, nil
}
