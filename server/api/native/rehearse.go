// Rehearsals of snapshots, on machines of fleets.

package native

import (
	"errors"
	"net/http"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/controllers/rehearsals"
	"github.com/drover-project/drover/server/daytwo"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/turns"
	"github.com/drover-project/drover/server/views"
)

// rehearse begins a rehearsal of a snapshot of a cluster.
func (a *API) rehearse(c *route.Call, d store.Document[records.Cluster], asked views.Asked, how clusters.Request) (route.Answer, error) {
	switch {
	case a.Rehearsals == nil:
		return route.Answer{}, norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "this server rehearses no snapshots")
	case !auth.May(c.Who, auth.Update, auth.Object{Kind: auth.Fleet}):
		return route.Answer{}, norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "a snapshot is rehearsed on a machine of a fleet, which is for administrators")
	case asked.KeepState || asked.CA || asked.Mode != "" || len(asked.Services) > 0 || how.NoSnapshot || how.Hurry || how.Turn == turns.Replace:
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "kind", "a rehearsal takes a snapshot, a machine or a fleet, dryRun and queue, and nothing else")
	case len(asked.Machines) > 1:
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "machines", "a snapshot is rehearsed on one machine")
	}
	key := records.ClusterKey(d.Key)
	ask := rehearsals.Ask{Snapshot: asked.Snapshot, Fleet: asked.Fleet, By: c.Who.UserID, Turn: how.Turn, Foreign: daytwo.OpensBucket(a.State, c.Who, d.Value)}
	if len(asked.Machines) > 0 {
		ask.Machine = asked.Machines[0]
	}
	if how.DryRun {
		lines, err := a.Rehearsals.Preview(c.Ctx(), key, ask)
		return route.Answer{Status: http.StatusOK, Body: views.Begun{Type: "begun", Lines: lines}}, refusedRehearsal(err)
	}
	o, err := a.Rehearsals.Begin(c.Ctx(), key, ask)
	if err != nil {
		return route.Answer{}, refusedRehearsal(err)
	}
	a.Logger.Info("operation asked for", "operation", o.ID, "kind", o.Kind, "cluster", key, "user", c.Who.UserID)
	shown := views.SummaryOf(store.Document[operations.Operation]{Value: o})
	return route.Answer{Status: http.StatusOK, Body: views.Begun{Type: "begun", Operation: &shown}}, nil
}

// refusedRehearsal is an error as people see it.
func refusedRehearsal(err error) error {
	if bad, ok := errors.AsType[*rehearsals.InvalidError](err); ok {
		return norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidOption, "%s", bad.Reason)
	}
	return err
}
