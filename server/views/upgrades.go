// How upgrades and maintenance windows are shown.

package views

import (
	"time"

	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/upgrades"
)

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
