// This is /v1-k3s-release and /v1-rke2-release, where Rancher's clients find the
// versions that a form for a new cluster offers, with the settings and charts of each.
//
// Wire source: rancher/channelserver pkg/server, pkg/model; rancher/apiserver's collections.

package management

import (
	"net/http"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
)

// Releases serves the releases of both distributions.
type Releases struct {
	// Versions is the current version data.
	Versions func() *versions.Data
}

// Release is a release on the wire.
type Release struct {
	ID         string                    `json:"id"`
	Type       string                    `json:"type"` // release
	Links      map[string]string         `json:"links"`
	Version    string                    `json:"version"`
	ServerArgs map[string]versions.Arg   `json:"serverArgs"`
	AgentArgs  map[string]versions.Arg   `json:"agentArgs"`
	Charts     map[string]versions.Chart `json:"charts,omitempty"`
	Features   map[string]string         `json:"featureVersions,omitempty"`
}

// Channel is a name for a version that moves.
type Channel struct {
	ID     string            `json:"id"`
	Type   string            `json:"type"` // channel
	Links  map[string]string `json:"links"`
	Name   string            `json:"name"`
	Latest string            `json:"latest"`
}

// releasesCollection is a list on the wire.
type releasesCollection struct {
	Type         string            `json:"type"` // collection
	ResourceType string            `json:"resourceType"`
	Links        map[string]string `json:"links"`
	Actions      map[string]string `json:"actions"`
	Data         any               `json:"data"`
}

func releasesBase(c *route.Call, runtime versions.Runtime) string {
	return c.URLs.Base + "/v1-" + string(runtime) + "-release"
}

func shownRelease(r versions.Release, list string) Release {
	return Release{
		ID: r.Version, Type: "release", Links: map[string]string{"self": list + "/" + r.Version}, Version: r.Version,
		ServerArgs: r.ServerArgs, AgentArgs: r.AgentArgs, Charts: r.Charts, Features: r.Features,
	}
}

// List is GET /v1-<runtime>-release/releases, oldest first.
func (a Releases) List(runtime versions.Runtime) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		self, known := releasesBase(c, runtime)+"/releases", a.Versions()
		names := known.List(runtime)
		data := make([]Release, len(names))
		for i, name := range names {
			r, _ := known.Release(name) // it is in the list
			data[len(names)-1-i] = shownRelease(r, self)
		}
		return releaseList("release", self, data)
	}
}

// Get is GET /v1-<runtime>-release/releases/{version}.
func (a Releases) Get(runtime versions.Runtime) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		r, ok := a.Versions().Release(c.Param("version"))
		if !ok || r.Runtime != runtime {
			return route.Answer{}, norman.Missing("release", c.Param("version"))
		}
		return route.Answer{Status: http.StatusOK, Body: shownRelease(r, releasesBase(c, runtime)+"/releases")}, nil
	}
}

// Channels is GET /v1-<runtime>-release/channels: the one that names the version for new clusters.
func (a Releases) Channels(runtime versions.Runtime) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		self := releasesBase(c, runtime) + "/channels"
		data := []Channel{}
		if latest := a.Versions().Default(runtime); latest != "" {
			data = append(data, Channel{ID: "default", Type: "channel", Links: map[string]string{"self": self}, Name: "default", Latest: latest})
		}
		return releaseList("channel", self, data)
	}
}

func releaseList(kind, self string, data any) (route.Answer, error) {
	return route.Answer{Status: http.StatusOK, Body: releasesCollection{
		Type: "collection", ResourceType: kind, Links: map[string]string{"self": self}, Actions: map[string]string{}, Data: data,
	}}, nil
}
