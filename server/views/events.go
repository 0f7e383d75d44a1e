// Events: the changes of states.

package views

import (
	"time"

	"github.com/drover-project/drover/server/audit"

	"github.com/drover-project/drover/server/records"
)

// Event is that a thing came from one state into another.
type Event struct {
	Type string `json:"type"` // event
	// ID sorts as events do.
	ID        string    `json:"id"`
	Revision  int64     `json:"revision"`
	At        time.Time `json:"at"`
	Cluster   string    `json:"clusterName"`
	ClusterID string    `json:"clusterId"`
	// Kind is cluster, machine, operation or rehearsal; Key is "<namespace>/<name>", of an operation its id behind that
	// of the cluster, of a rehearsal the cluster's, and Name what people call it: a machine's node or host, the snapshot of a rehearsal.
	Kind string `json:"kind"`
	Key  string `json:"key"`
	Name string `json:"name"`
	// From is absent for what is new.
	From  string `json:"from,omitempty"`
	To    string `json:"to"`
	Code  string `json:"code,omitempty"`
	Cause string `json:"cause,omitempty"`
}

// OfEvent shows an event of the cluster with a name.
func OfEvent(e records.Event, cluster string) Event {
	return Event{
		Type: "event", ID: e.ID(), Revision: e.Revision, At: e.At, Cluster: cluster, ClusterID: e.ClusterID,
		Kind: e.Kind, Key: e.Key, Name: e.Name, From: e.From, To: e.To, Code: e.Code, Cause: e.Cause,
	}
}

// Audit is a part of the audit log of the server that was asked; others have logs of their own.
type Audit struct {
	// Server is its name, Level the setting audit-level.
	Server string `json:"server"`
	Level  int    `json:"level"`
	// Data are the newest entries that were wanted, oldest first, and More says that there are older ones.
	Data []audit.Entry `json:"data"`
	More bool          `json:"more,omitempty"`
	// Torn is how many lines were skipped that are no entry, as they were cut off when a server was killed.
	Torn int `json:"torn,omitempty"`
	// Lost is how many entries could not be written since the server started.
	Lost int64 `json:"lost,omitempty"`
}
