// Clusters: documents taken in whole or not at all, and what became of them.

package native

import (
	"net/http"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

// Apply is POST /v1-drover/apply?dryRun=true: a stream of documents of
// clusters, Secrets and ConfigMaps, YAML or JSON. Either all of them are taken or none.
func (a *API) Apply(c *route.Call) (route.Answer, error) {
	dryRun := false
	switch value := c.Query().Get("dryRun"); value {
	case "", "false":
	case "true", "All": // the second is kubectl's word
		dryRun = true
	default:
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "dryRun", "%.40q is neither true nor false", value)
	}
	data, err := norman.ReadBody(c.W, c.R, clusterspec.MaxSize)
	if err != nil {
		return route.Answer{}, err
	}
	stream, err := clusterspec.ParseStream(data, a.Versions())
	if err != nil {
		return route.Answer{}, err
	}
	results, err := a.ApplyDocuments(c.Ctx(), stream, c.Who.UserID, dryRun)
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: http.StatusOK, Body: views.Applied{Results: results, DryRun: dryRun}}, nil
}

// ListClusters is GET /v1-drover/clusters.
func (a *API) ListClusters(c *route.Call) (route.Answer, error) {
	machines := a.MachineCounts()
	return page(c, a.State.Clusters.List(), func(d store.Document[records.Cluster]) string { return d.Key },
		func(d store.Document[records.Cluster]) views.Cluster { return views.OfCluster(d, machines[d.Value.ID]) })
}

// GetCluster is GET /v1-drover/clusters/{namespace}/{name}.
func (a *API) GetCluster(c *route.Call) (route.Answer, error) {
	d, err := a.findCluster(c)
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: http.StatusOK, Body: views.OfCluster(d, a.MachineCount(d.Value.ID))}, nil
}

// GetDocument is GET /v1-drover/clusters/{namespace}/{name}/document: the cluster in the form
// that POST /v1-drover/apply takes.
func (a *API) GetDocument(c *route.Call) (route.Answer, error) {
	d, err := a.findCluster(c)
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: http.StatusOK, Body: views.OfDocument(d.Value)}, nil
}

// Join is GET /v1-drover/clusters/{namespace}/{name}/join: the command of the cluster's
// default registration token.
func (a *API) Join(c *route.Call) (route.Answer, error) {
	d, err := a.findCluster(c)
	if err != nil {
		return route.Answer{}, err
	}
	key := d.Value.ID + "/" + registration.DefaultToken
	token, ok := a.State.RegistrationTokens.Get(key)
	if !ok {
		return route.Answer{}, norman.Missing("registration token", key)
	}
	answer := views.Join{Type: "join", Cluster: d.Value.Name, Expires: token.Value.Expires}
	command, err := a.Registration.JoinCommandFor(token.Value)
	switch {
	case err != nil:
		answer.Problem = err.Error()
	case !token.Value.Expires.IsZero() && !a.Now().Before(token.Value.Expires):
		answer.Problem = "the token expired at " + token.Value.Expires.UTC().Format(time.RFC3339)
	default:
		answer.Command = command.Line
	}
	return route.Answer{Status: http.StatusOK, Body: answer}, nil
}

func (a *API) findCluster(c *route.Call) (store.Document[records.Cluster], error) {
	key := c.Param("namespace") + "/" + c.Param("name")
	d, ok := a.State.Clusters.Get(key)
	if !ok || !auth.May(c.Who, c.Row.Access.Verb, auth.Object{Kind: c.Row.Access.Kind, Key: d.Value.ID}) {
		return d, norman.Missing("cluster", key)
	}
	return d, nil
}
