// Events: the changes of states.

package views

import (
	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/records"
)

// OfEvent shows an event of the cluster with a name.
func OfEvent(e records.Event, cluster string) apitypes.Event {
	return apitypes.Event{
		Type: "event", ID: e.ID(), Revision: e.Revision, At: e.At, Cluster: cluster, ClusterID: e.ClusterID,
		Kind: e.Kind, Key: e.Key, Name: e.Name, From: e.From, To: e.To, Code: e.Code, Cause: e.Cause,
	}
}
