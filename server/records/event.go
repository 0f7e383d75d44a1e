// Events: the changes of states, kept for a while.

package records

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// The kinds of things that events are about.
const (
	EventOfCluster   = "cluster"
	EventOfMachine   = "machine"
	EventOfOperation = "operation"
	// EventOfRehearsal is that a rehearsal of the cluster's snapshots has ended, or that one which is due does not begin.
	EventOfRehearsal = "rehearsal"
	// EventOfRights is that a user has changed by hand what the server keeps of rights in the cluster, or that nothing differs any more.
	EventOfRights = "rights"
)

// Event is that a thing came from one state into another.
type Event struct {
	// Revision is the store's when the thing was written in its new state; a thing changes once in a revision.
	Revision  int64     `json:"revision"`
	At        time.Time `json:"at"`
	ClusterID string    `json:"clusterID"`
	// Kind is one of those above, Key the thing's key in the store.
	Kind string `json:"kind"`
	Key  string `json:"key"`
	// Name is what people call it: a machine's node or host, a cluster's name, an operation's ID; of a rehearsal the snapshot's.
	Name string `json:"name"`
	// From is the state before; empty for what is new.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// Code is the row of the catalogue of causes; empty where there is none.
	Code string `json:"code,omitempty"`
	// Cause is a sentence, of at most 512 bytes.
	Cause string `json:"cause,omitempty"`
}

// ID names the event; IDs sort as events do.
func (e Event) ID() string { return fmt.Sprintf("%020d/%s/%s", e.Revision, e.Kind, e.Key) }

// CompareEvents orders events by their revisions.
func CompareEvents(a, b Event) int {
	return cmp.Or(cmp.Compare(a.Revision, b.Revision), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Key, b.Key))
}

// EventPage is a part of the events of a cluster, in their order. Sensitive. Key: "<cluster id>/<number>",
// the number of ten digits growing by one.
type EventPage struct {
	Events []Event `json:"events"`
}
