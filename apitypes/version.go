// Versions of Kubernetes, upgrades and maintenance windows.

package apitypes

import (
	"time"
)

// Version is a Kubernetes version that clusters can have.
type Version struct {
	Type    string `json:"type"` // version
	Version string `json:"version"`
	Runtime string `json:"runtime"`
	// Default says that a new cluster of the distribution should take it.
	Default bool `json:"default"`
	// Upgrades are the versions that a cluster at this one may be upgraded to, newest first.
	Upgrades []string `json:"upgrades"`
}

// VersionDetail is a version with its settings.
type VersionDetail struct {
	Version
	// ServerArgs are settings of machines with the etcd or control-plane role only, AgentArgs of all.
	ServerArgs map[string]VersionArg   `json:"serverArgs"`
	AgentArgs  map[string]VersionArg   `json:"agentArgs"`
	Charts     map[string]VersionChart `json:"charts"`
	Features   map[string]string       `json:"features"`
}

// VersionArg is one setting.
type VersionArg struct {
	// Type is string, boolean (or bool), array, enum, int or map.
	Type string `json:"type"`
	// Default is what the setting is where no document sets it; null where the data do not say.
	Default any `json:"default,omitempty"`
	// Options are the allowed values of an enum, and of an array's items. One with commas stands for an array of several items.
	Options []string `json:"options,omitempty"`
	// Nullable says that null is a value, too.
	Nullable bool `json:"nullable,omitempty"`
}

// VersionChart is a chart that a release brings along.
type VersionChart struct {
	Repo    string `json:"repo,omitempty"`
	Version string `json:"version,omitempty"` // absent where only the name is known
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
	Findings []UpgradeFinding `json:"findings"`
	// Result is what became of the cluster's document, with the preview in a dry run.
	Result *ApplyResult `json:"result,omitempty"`
}

// UpgradeFinding is something about an upgrade that was found before it begins.
type UpgradeFinding struct {
	// Code is a short name of what was found; it is stable.
	Code  string       `json:"code"`
	Level FindingLevel `json:"level"`
	// Text is a sentence, and WayOut what a person can do.
	Text   string `json:"text"`
	WayOut string `json:"wayOut,omitempty"`
}

// FindingLevel is what a finding means.
type FindingLevel string

// The levels.
const (
	// FindingRefused keeps the upgrade from beginning, FindingWarned is for people to know.
	FindingRefused FindingLevel = "refused"
	FindingWarned  FindingLevel = "warned"
)

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
