// What Rancher's own dashboard asks for beside that: the preferences of its user in one object, and types of which there is nothing.

package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/access"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/steve"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// userPreferences have each user's preferences in one object: {"data": {"theme": "dark"}}, with the id of the user.
//
// Wire source: rancher/steve pkg/resources/userpreferences.
func userPreferences(s *state.State, now func() time.Time) steve.Type {
	own := &access.PreferenceAPI{State: s, Now: now}
	show := func(u records.User) steve.Seen {
		data := map[string]string{}
		for _, d := range s.Preferences.ListIn(u.ID + "/") {
			data[d.Value.Name] = d.Value.Value
		}
		return steve.Seen{About: auth.Object{Kind: auth.Preference, Key: u.ID, Owner: u.ID}, Content: map[string]any{
			"metadata": map[string]any{"name": u.ID}, "data": data,
		}}
	}
	return steve.Type{
		Schema: steve.Schema{Kind: "UserPreference", Resource: "userpreferences"}, Of: auth.Preference, Collection: subscribe.Preferences, Own: true,
		List: func() []steve.Seen {
			return shown(s.Users.List(), func(d store.Document[records.User]) steve.Seen { return show(d.Value) })
		},
		Get: func(id string) (steve.Seen, bool) { d, ok := s.Users.Get(id); return show(d.Value), ok },
		Update: func(c *route.Call, id string, body []byte) error {
			var sent struct {
				Data map[string]string `json:"data"`
			}
			if err := json.Unmarshal(body, &sent); err != nil {
				return norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "the body is not an object with data, a map of texts")
			}
			return own.Set(c.Ctx(), id, sent.Data)
		},
		Changed: func(c subscribe.Change) (string, *steve.Seen, bool) {
			user, _, _ := strings.Cut(c.Key, "/")
			return user, nil, true
		},
	}
}

// none are types that dashboards list before they show anything, and of which this server has no objects: everybody is told so.
func none() []steve.Type {
	var all []steve.Type
	for _, of := range []steve.Schema{
		typeSchema("FleetWorkspace", "fleetworkspaces", false),
		{Group: "catalog.cattle.io", Version: "v1", Kind: "UIPlugin", Resource: "uiplugins", Namespaced: true},
		{Group: "catalog.cattle.io", Version: "v1", Kind: "ClusterRepo", Resource: "clusterrepos"},
		{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "MachineDeployment", Resource: "machinedeployments", Namespaced: true},
		{Group: "rke.cattle.io", Version: "v1", Kind: "RKEControlPlane", Resource: "rkecontrolplanes", Namespaced: true},
		{Group: "ext.cattle.io", Version: "v1", Kind: "Kubeconfig", Resource: "kubeconfigs"},
	} {
		all = append(all, steve.Type{
			Schema: of, Of: auth.Feature, Own: true,
			List:    func() []steve.Seen { return nil },
			Get:     func(string) (steve.Seen, bool) { return steve.Seen{}, false },
			Changed: func(subscribe.Change) (string, *steve.Seen, bool) { return "", nil, false },
		})
	}
	return all
}
