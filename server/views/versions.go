// Kubernetes versions and what is known of them; upgrades and maintenance windows.

package views

import (
	"slices"
	"time"

	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/upgrades"
	"github.com/drover-project/drover/server/versions"
)

// Version is a Kubernetes version that clusters can have.
type Version struct {
	Type    string           `json:"type"` // version
	Version string           `json:"version"`
	Runtime versions.Runtime `json:"runtime"`
	// Default says that a new cluster of the distribution should take it.
	Default bool `json:"default"`
	// Upgrades are the versions that a cluster at this one may be upgraded to, newest first.
	Upgrades []string `json:"upgrades"`
}

// VersionDetail is a version with its settings.
type VersionDetail struct {
	Version
	// ServerArgs are settings of machines with the etcd or control-plane role only, AgentArgs of all.
	ServerArgs map[string]versions.Arg   `json:"serverArgs"`
	AgentArgs  map[string]versions.Arg   `json:"agentArgs"`
	Charts     map[string]versions.Chart `json:"charts"`
	Features   map[string]string         `json:"features"`
}

// Versions is the answer to GET /v1-drover/versions.
type Versions struct {
	Data []Version `json:"data"`
	// From is the version that the versions are upgrades of, where the list is that of a cluster's upgrades.
	From   string        `json:"from,omitempty"`
	Source VersionSource `json:"source"`
}

// VersionSource says where a server's version data are from.
type VersionSource struct {
	// Location is a file or an address without credentials; absent for the built-in data alone.
	Location string `json:"location,omitempty"`
	// Date is that of the data, as they give it.
	Date string `json:"date,omitempty"`
	// Read is when the data of Location were last found to be current; absent while they never were.
	Read time.Time `json:"read,omitzero"`
	// Fault is why the last try to read Location failed.
	Fault string `json:"fault,omitempty"`
}

// OfVersion shows one version of the data.
func OfVersion(known *versions.Data, version string) Version {
	runtime := versions.RuntimeOf(version)
	return Version{Type: "version", Version: version, Runtime: runtime, Default: known.Default(runtime) == version, Upgrades: list(known.Upgrades(version))}
}

// OfVersionDetail shows one version with its settings.
func OfVersionDetail(known *versions.Data, r versions.Release) VersionDetail {
	d := VersionDetail{Version: OfVersion(known, r.Version), ServerArgs: r.ServerArgs, AgentArgs: r.AgentArgs, Charts: r.Charts, Features: dict(r.Features)}
	if d.Charts == nil {
		d.Charts = map[string]versions.Chart{}
	}
	return d
}

// OfVersionSource shows where data are from.
func OfVersionSource(s versions.Status) VersionSource {
	return VersionSource{Location: s.Location, Date: s.Date, Read: s.Read, Fault: s.Fault}
}

// OfUpgrades are the versions that a cluster may be upgraded to: not more than one minor line above the lowest
// version that runs in it, and not below the highest. Without any that runs, the wanted version stands for it.
func OfUpgrades(known *versions.Data, wanted string, running []string) (from string, to []string) {
	if len(running) == 0 {
		running = []string{wanted}
	}
	from, highest := slices.MinFunc(running, versions.Compare), slices.MaxFunc(running, versions.Compare)
	to = slices.DeleteFunc(known.Upgrades(from), func(v string) bool { return v == wanted || versions.Compare(v, highest) < 0 })
	return from, to
}

// AskedUpgrade is the body of POST /v1-drover/clusters/{namespace}/{name}/upgrade.
type AskedUpgrade struct {
	Version string `json:"version"`
	// Accept are codes of findings that do not keep the upgrade from beginning: disk-space, removed-apis.
	Accept []string `json:"accept,omitempty"`
}

// Upgrade is the answer to AskedUpgrade.
type Upgrade struct {
	Type string `json:"type"` // upgrade
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// Findings are what was found before anything changes.
	Findings []upgrades.Finding `json:"findings"`
	// Result is what became of the cluster's document, with the preview in a dry run.
	Result *clusters.Result `json:"result,omitempty"`
}

// OfUpgrade shows an upgrade.
func OfUpgrade(a upgrades.Answer) Upgrade {
	return Upgrade{Type: "upgrade", From: a.From, To: a.To, Findings: list(a.Findings), Result: a.Result}
}

// AskedWindow is the body of POST /v1-drover/clusters/{namespace}/{name}/window/set; empty takes the window off.
type AskedWindow struct {
	Window string `json:"window"`
}

// Window is the maintenance window of a cluster.
type Window struct {
	Type string `json:"type"` // window
	// Window is empty for a cluster without one, whose machines may restart at any time.
	Window string `json:"window"`
	Open   bool   `json:"open"`
	// Change is when it closes, or opens next; absent where that is weeks away.
	Change time.Time `json:"change,omitzero"`
}
