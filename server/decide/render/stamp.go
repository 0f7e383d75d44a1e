// The stamps: a node restarts when one changes, and is drained when the other does.

package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"github.com/drover-project/drover/plans"
)

// Keys that a stamp leaves out. A node applies labels and taints only when it joins, so a
// change of them must not restart it; where a node joined matters only the first time.
var (
	restartKeys = []string{"node-label", "node-taint", "server"}
	drainKeys   = []string{"node-label", "node-taint", "server", "cluster-init"}
)

// restarts are reasons to restart that are not in what is rendered.
type restarts struct {
	// Machine is the one whose label the node has to take; empty for all others.
	Machine string `json:"machine,omitempty"`
	// Restarts is that of the machine's status.
	Restarts int `json:"restarts,omitempty"`
}

func (r render) restarts() restarts {
	why := restarts{Restarts: r.Machine.Status.Restarts}
	if r.Machine.Status.Relabelled {
		why.Machine = r.Machine.UID
	}
	return why
}

// stamp is the hash that makes a node restart when it changes. Its input is a document of
// values, not rendered bytes, so that a new layout of a file is no reason to restart; and it has
// the version in it instead of the image, so that another registry is none either. Its renderer is 1 for all versions of the rendering whose
// differences are in the values or need no restart.
func (r render) stamp(why restarts, config map[string]any, files []plans.File, leaveOut []string) string {
	input := struct {
		Renderer   int    `json:"renderer"`
		Generation int    `json:"provisionGeneration"`
		Version    string `json:"kubernetesVersion"`
		restarts
		Config map[string]any    `json:"config"`
		Files  map[string]string `json:"files"`
	}{Renderer: 1, Generation: r.rke.ProvisionGeneration, Version: r.Cluster.Spec.KubernetesVersion, restarts: why, Config: maps.Clone(config), Files: map[string]string{}}
	for _, key := range leaveOut {
		delete(input.Config, key)
	}
	// Which machine begins the cluster may change, and none restarts for it.
	if r.distribution.ClusterInit && r.Machine.Roles.Etcd && !slices.Contains(leaveOut, "cluster-init") {
		input.Config["cluster-init"] = true
	}
	for _, f := range files {
		if !f.Dynamic && f.Path != r.distribution.ConfigFile() {
			input.Files[f.Path] = f.Content
		}
	}
	b, err := json.Marshal(input)
	if err != nil {
		// The same values were rendered to JSON a moment ago.
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
