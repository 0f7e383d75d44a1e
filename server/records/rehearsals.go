// The rehearsals of a cluster's snapshots: how often they are, and how the last ones ended.

package records

import "time"

// Rehearsals is what is kept of the rehearsals of one cluster's snapshots, so that it outlives snapshots and operations. Sensitive,
// by its causes. Key: the cluster's.
type Rehearsals struct {
	// Every is the time from the end of one to the next, in nanoseconds; 0 while none begins by itself. Fleet is the name of the one on
	// whose machines they are done, By the ID of the user who asked for that, and Since when.
	Every time.Duration `json:"every,omitempty"`
	Fleet string        `json:"fleet,omitempty"`
	By    string        `json:"by,omitempty"`
	Since time.Time     `json:"since,omitzero"`
	// Last is the one that ended last, and Good the last one whose snapshot was restored and read; nil for none. Those that people asked
	// for count, too.
	Last *RehearsalEnd `json:"last,omitempty"`
	Good *RehearsalEnd `json:"good,omitempty"`
	// Held is why one that is due has not begun; nil while none is held up.
	Held *HeldRehearsal `json:"held,omitempty"`
}

// RehearsalEnd is how a rehearsal ended.
type RehearsalEnd struct {
	// Operation is the ID of the one that did it, State how that ended, and At when.
	Operation string    `json:"operation"`
	State     string    `json:"state"`
	At        time.Time `json:"at"`
	// Snapshot is its name, and Machine that of the one on which it was done.
	Snapshot string `json:"snapshot"`
	Machine  string `json:"machine"`
	// Counted is what was found in it, such as "3 nodes, 412 objects"; empty when it could not be restored and read.
	Counted string `json:"counted,omitempty"`
	// Cause is why the operation did not succeed; empty when it did. There may be one beside Counted: of a host that was not cleaned up.
	Cause string `json:"cause,omitempty"`
}

// HeldRehearsal is that a rehearsal which is due has not begun.
type HeldRehearsal struct {
	// Why is a sentence, and At when it was noted.
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}
