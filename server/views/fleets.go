// Fleets: machines without a cluster.

package views

import (
	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// OfFleet shows a fleet with its machines; operation may be nil.
func OfFleet(d store.Document[records.Fleet], machines []records.Machine, operation *apitypes.OperationSummary) apitypes.Fleet {
	f := d.Value
	v := apitypes.Fleet{
		Type: "fleet", ID: f.ID, Namespace: f.Namespace, Name: f.Name, UID: f.UID, Revision: d.Revision, Created: f.Created, CreatorID: f.CreatorID, Deleting: f.Deleting,
		Machines: len(machines), States: map[records.MachineState]int{}, Operation: operation,
	}
	for _, m := range machines {
		v.States[k8sobjects.MachineState(&m)]++
	}
	return v
}
