// Kubernetes versions: which there are, what a cluster may be upgraded to, and the settings of each.

package native

import (
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/views"
)

// Versions serves the Kubernetes versions that clusters can have.
type Versions struct {
	*Common
	// Data is the current version data, and Status says where they are from.
	Data   func() *versions.Data
	Status func() versions.Status
}

// List is GET /v1-drover/versions?runtime=k3s&cluster=<id>: all known versions, or those that
// a cluster may be upgraded to, newest first.
func (a Versions) List(c *route.Call) (route.Answer, error) {
	known := a.Data()
	answer := apitypes.Versions{Data: []apitypes.Version{}, Source: views.OfVersionSource(a.Status())}
	runtimes := versions.Runtimes()
	if given := versions.Runtime(c.Query().Get("runtime")); given != "" {
		if !slices.Contains(runtimes, given) {
			return route.Answer{}, norman.Invalid(norman.InvalidOption, "runtime", "%.40q is neither k3s nor rke2", given)
		}
		runtimes = []versions.Runtime{given}
	}
	var names []string
	for _, runtime := range runtimes {
		names = append(names, known.List(runtime)...)
	}
	if id := c.Query().Get("cluster"); id != "" {
		d, ok := a.State.ClustersByID.First(id)
		if !ok || !auth.May(c.Who, auth.Get, auth.OfCluster(id)) {
			return route.Answer{}, norman.Missing("cluster", id)
		}
		if d.Value.Spec.Docker() {
			return route.Answer{}, norman.Invalid(norman.InvalidOption, "cluster", "%s is a cluster of Docker hosts, whose Kubernetes is not provisioned here", d.Value.Name)
		}
		from, to := views.OfUpgrades(known, d.Value.Spec.KubernetesVersion, clusters.Running(a.State, d.Value))
		answer.From = from
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(to, name) })
	}
	for _, name := range names {
		answer.Data = append(answer.Data, views.OfVersion(known, name))
	}
	return route.Answer{Status: http.StatusOK, Body: answer}, nil
}

// Get is GET /v1-drover/versions/{version}.
func (a Versions) Get(c *route.Call) (route.Answer, error) {
	known, version := a.Data(), c.Param("version")
	r, ok := known.Release(version)
	if !ok {
		return route.Answer{}, norman.Errorf(http.StatusNotFound, norman.NotFound, "there are no data of version %.80q; known are %s", version, strings.Join(known.Nearest(version), ", "))
	}
	return route.Answer{Status: http.StatusOK, Body: views.OfVersionDetail(known, r)}, nil
}
