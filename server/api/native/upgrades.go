// Upgrades of clusters, and the times at which they may be disturbed.

package native

import (
	"errors"
	"net/http"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/upgrades"
)

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
