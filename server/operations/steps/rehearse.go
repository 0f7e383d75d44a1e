// What a rehearsal is asked with, and its tasks. Its steps are those of a fleet's machine, which package decide takes.

package steps

import (
	"encoding/json"
	"fmt"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// The tasks of a rehearsal, an operation of the kind operations.KindRehearse.
const (
	TaskRehearse = "rehearse"
	TaskCleanUp  = "clean up"
)

// Rehearsal is what is rehearsed: the field rehearsal of the parameters of such an operation.
type Rehearsal struct {
	Cluster records.ClusterKey `json:"cluster"`
	// Snapshot is the key of its record; empty for a file that the server has no record of.
	Snapshot string `json:"snapshot,omitempty"`
	// Machine is the name of the one on which it is done.
	Machine string `json:"machine"`
	// Link is random.Hash of the secret that opens the snapshot to that machine; empty when it does not come through the server.
	Link string `json:"link,omitempty"`
}

// ReadRehearsal reads what a rehearsal is of. The error says to ask for it anew.
func ReadRehearsal(o operations.Operation) (Rehearsal, error) {
	var p struct {
		Rehearsal *Rehearsal `json:"rehearsal"`
	}
	if err := json.Unmarshal(o.Params, &p); err != nil || p.Rehearsal == nil {
		return Rehearsal{}, fmt.Errorf("what operation %s was to rehearse cannot be read, as a server of another version may have written it; ask for it anew", o.ID)
	}
	return *p.Rehearsal, nil
}
