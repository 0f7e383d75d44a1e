// Schedules of rehearsals: how often snapshots of a cluster are rehearsed, and how that stands.

package native

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/controllers/rehearsals"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

func noRehearsals() error {
	return norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "this server rehearses no snapshots")
}

// Rehearsals is GET /v1-drover/clusters/{namespace}/{name}/rehearsals.
func (a Clusters) Rehearsals(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	if a.Schedules == nil {
		return route.Answer{}, noRehearsals()
	}
	return route.Answer{Status: http.StatusOK, Body: a.Schedules.Standing(d.Value)}, nil
}

// SetRehearsals is POST /v1-drover/clusters/{namespace}/{name}/rehearsals/set with a views.AskedRehearsals.
func (a Clusters) SetRehearsals(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	if a.Schedules == nil {
		return route.Answer{}, noRehearsals()
	}
	if !auth.May(c.Who, auth.Update, auth.Object{Kind: auth.Fleet}) {
		return route.Answer{}, norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "snapshots are rehearsed on machines of fleets, which are for administrators")
	}
	plan, err := askedRehearsals(c)
	if err != nil {
		return route.Answer{}, err
	}
	plan.By = c.Who.UserID
	err = a.Schedules.SetPlan(c.Ctx(), records.ClusterKey(d.Key), plan)
	if err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("schedule of rehearsals set", "cluster", d.Key, "every", plan.Every, "fleet", plan.Fleet, "user", c.Who.UserID)
	return route.Answer{Status: http.StatusOK, Body: a.Schedules.Standing(d.Value)}, nil
}

// askedRehearsals reads the body of a request.
func askedRehearsals(c *route.Call) (rehearsals.Plan, error) {
	text, err := norman.ReadBody(c.W, c.R, maxAsked)
	if err != nil {
		return rehearsals.Plan{}, err
	}
	var fields map[string]*string // of views.AskedRehearsals; a request without every ends no schedule
	if err := json.Unmarshal(text, &fields); err != nil {
		return rehearsals.Plan{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "the body is not of the form {\"every\": \"24h\", \"fleet\": \"spare\"}: %.200v", err)
	}
	for name := range fields {
		if name != "every" && name != "fleet" {
			return rehearsals.Plan{}, norman.Invalid(norman.InvalidOption, name, "%.40q is neither every nor fleet", name)
		}
	}
	every, fleet := fields["every"], fields["fleet"]
	switch {
	case every == nil:
		return rehearsals.Plan{}, norman.Invalid(norman.MissingRequired, "every", "every is missing; an empty one ends the schedule")
	case *every == "" && fleet != nil && *fleet != "":
		return rehearsals.Plan{}, norman.Invalid(norman.MissingRequired, "every", "a fleet without a time is not a schedule; every is as in 24h")
	case *every == "":
		return rehearsals.Plan{}, nil
	case fleet == nil || *fleet == "":
		return rehearsals.Plan{}, norman.Invalid(norman.MissingRequired, "fleet", "on which fleet? drover fleets ls shows those there are")
	}
	length, err := time.ParseDuration(*every)
	if err != nil || length <= 0 {
		return rehearsals.Plan{}, norman.Invalid(norman.InvalidFormat, "every", "%.40q is not a time such as 24h or 90m", *every)
	}
	return rehearsals.Plan{Every: length, Fleet: *fleet}, nil
}

// rehearse begins a rehearsal of a snapshot of a cluster.
func (a Operations) rehearse(c *route.Call, d store.Document[records.Cluster], asked apitypes.Asked, how clusters.Request) (route.Answer, error) {
	switch {
	case a.Rehearsals == nil:
		return route.Answer{}, noRehearsals()
	case !auth.May(c.Who, auth.Update, auth.Object{Kind: auth.Fleet}):
		return route.Answer{}, norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "a snapshot is rehearsed on a machine of a fleet, which is for administrators")
	case asked.KeepState || asked.CA || asked.Mode != "" || len(asked.Services) > 0 || how.NoSnapshot || how.Hurry || how.Turn == admission.Replace:
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "kind", "a rehearsal takes a snapshot, a machine or a fleet, dryRun and queue, and nothing else")
	case len(asked.Machines) > 1:
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "machines", "a snapshot is rehearsed on one machine")
	}
	key := records.ClusterKey(d.Key)
	ask := rehearsals.Request{Snapshot: asked.Snapshot, Fleet: asked.Fleet, By: c.Who.UserID, Turn: how.Turn, Foreign: etcdops.OpensBucket(a.State, c.Who, d.Value)}
	if len(asked.Machines) > 0 {
		ask.Machine = asked.Machines[0]
	}
	if how.DryRun {
		lines, err := a.Rehearsals.Preview(c.Ctx(), key, ask)
		return route.Answer{Status: http.StatusOK, Body: apitypes.Begun{Type: "begun", Lines: lines}}, err
	}
	o, err := a.Rehearsals.Begin(c.Ctx(), key, ask)
	if err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("operation asked for", "operation", o.ID, "kind", o.Kind, "cluster", key, "user", c.Who.UserID)
	return begun(o), nil
}
