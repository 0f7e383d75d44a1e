// Package rehearsing is the part of /v1-drover in which people say how often snapshots of a cluster are rehearsed, and see how that
// stands. One rehearsal is asked for as all operations are; see package native.
package rehearsing

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/controllers/rehearsals"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/views"
)

// maxAsked is the largest body of a request, in bytes.
const maxAsked = 64 << 10

// API shows and sets schedules of rehearsals.
type API struct {
	State *state.State
	// Asker does both; nil answers 503.
	Asker  *rehearsals.Asker
	Logger *slog.Logger
}

// Get is GET /v1-drover/clusters/{namespace}/{name}/rehearsals.
func (a *API) Get(c *route.Call) (route.Answer, error) {
	cluster, err := a.find(c)
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: http.StatusOK, Body: views.OfRehearsals(a.Asker.Standing(cluster))}, nil
}

// Set is POST /v1-drover/clusters/{namespace}/{name}/rehearsals/set with a views.AskedRehearsals.
func (a *API) Set(c *route.Call) (route.Answer, error) {
	cluster, err := a.find(c)
	if err != nil {
		return route.Answer{}, err
	}
	if !auth.May(c.Who, auth.Update, auth.Object{Kind: auth.Fleet}) {
		return route.Answer{}, norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "snapshots are rehearsed on machines of fleets, which are for administrators")
	}
	plan, err := asked(c)
	if err != nil {
		return route.Answer{}, err
	}
	plan.By = c.Who.UserID
	err = a.Asker.SetPlan(c.Ctx(), records.ClusterKey(cluster.Key()), plan)
	if bad, ok := errors.AsType[*rehearsals.InvalidError](err); ok {
		return route.Answer{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidOption, "%s", bad.Reason)
	}
	if err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("schedule of rehearsals set", "cluster", cluster.Key(), "every", plan.Every, "fleet", plan.Fleet, "user", c.Who.UserID)
	return route.Answer{Status: http.StatusOK, Body: views.OfRehearsals(a.Asker.Standing(cluster))}, nil
}

// asked reads the body of a request.
func asked(c *route.Call) (rehearsals.Plan, error) {
	text, err := norman.ReadBody(c.W, c.R, maxAsked)
	if err != nil {
		return rehearsals.Plan{}, err
	}
	var fields map[string]*string // of views.AskedRehearsals; nobody ends a schedule by leaving it out
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

// find is the cluster of the path, for those who may do with it what the row is for.
func (a *API) find(c *route.Call) (records.Cluster, error) {
	key := c.Param("namespace") + "/" + c.Param("name")
	d, ok := a.State.Clusters.Get(key)
	switch {
	case !ok || !auth.May(c.Who, auth.Get, auth.OfCluster(d.Value.ID)):
		return d.Value, norman.Missing("cluster", key)
	case !auth.May(c.Who, c.Row.Access.Verb, auth.OfCluster(d.Value.ID)):
		return d.Value, c.Denied()
	case a.Asker == nil:
		return d.Value, norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "this server rehearses no snapshots")
	}
	return d.Value, nil
}
