// Fleets: machines without a cluster.

package views

import (
	"time"

	"github.com/drover-project/drover/server/api/conditions"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Fleet is a number of machines to which people give plans.
type Fleet struct {
	Type      string    `json:"type"` // fleet
	ID        string    `json:"id"`   // f-xxxxxxxx
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       string    `json:"uid"`
	Revision  int64     `json:"revision"`
	Created   time.Time `json:"created"`
	CreatorID string    `json:"creatorId,omitempty"`
	Deleting  time.Time `json:"deleting,omitzero"`
	Machines  int       `json:"machines"`
	// States is how many machines are in each state.
	States map[records.MachineState]int `json:"states"`
	// Operation is what is under way, absent when nothing is.
	Operation *OperationSummary `json:"operation,omitempty"`
}

// OfFleet shows a fleet with its machines; operation may be nil.
func OfFleet(d store.Document[records.Fleet], machines []records.Machine, operation *OperationSummary) Fleet {
	f := d.Value
	v := Fleet{
		Type: "fleet", ID: f.ID, Namespace: f.Namespace, Name: f.Name, UID: f.UID, Revision: d.Revision, Created: f.Created, CreatorID: f.CreatorID, Deleting: f.Deleting,
		Machines: len(machines), States: map[records.MachineState]int{}, Operation: operation,
	}
	for _, m := range machines {
		v.States[conditions.MachineState(m)]++
	}
	return v
}
