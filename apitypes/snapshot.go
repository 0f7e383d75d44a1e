// Snapshots of etcd, and tries of their restore.

package apitypes

import (
	"fmt"
	"time"
)

// Snapshot is a snapshot of a cluster's etcd that the server knows of.
type Snapshot struct {
	Type    string `json:"type"`    // snapshot
	Cluster string `json:"cluster"` // <namespace>/<name>
	ID      string `json:"id"`
	// Name is what it is restored by.
	Name      string    `json:"name"`
	By        string    `json:"by,omitempty"` // id of the user
	Scheduled bool      `json:"scheduled"`
	Created   time.Time `json:"created"`
	Version   string    `json:"version,omitempty"` // of Kubernetes, at that time
	// Hosts are the hosts that have the snapshot, Bucket the bucket that has it, too; absent for none.
	Hosts  []SnapshotHost `json:"hosts"`
	Bucket string         `json:"bucket,omitempty"`
	// Failure is why there is none.
	Failure string `json:"failure,omitempty"`
	// Machine, File and SHA256 are of snapshots of k3s and RKE2, each of which is a file on the host of one machine; the
	// checksum is there when drover looked whether the file is whole.
	Machine string `json:"machine,omitempty"`
	File    string `json:"file,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	// Restorable says whether it can be restored today by what the server knows, and Why why not.
	Restorable bool   `json:"restorable"`
	Why        string `json:"why,omitempty"`
	// Rehearsal is the last restore of it on a machine without a cluster; absent when there was none. Of k3s.
	Rehearsal *Rehearsal `json:"rehearsal,omitempty"`
}

// SnapshotInS3 stands for a machine in the records of snapshots that are in S3.
const SnapshotInS3 = "s3"

// SnapshotHost is a snapshot on a host.
type SnapshotHost struct {
	Address string `json:"address"`
	// Size is the archive's, in bytes.
	Size int64 `json:"size"`
	// State says that the cluster's state is in it.
	State bool `json:"state,omitempty"`
}

// Rehearsal is what came of restoring a snapshot on a machine of a fleet.
type Rehearsal struct {
	// Operation is the ID of the operation that restored it, and At when that was.
	Operation string    `json:"operation"`
	At        time.Time `json:"at"`
	// Machine is where, by its name and its host's.
	Machine string `json:"machine"`
	// Cause is why it failed; empty when the snapshot was restored and read.
	Cause string `json:"cause,omitempty"`
	// Objects is how many objects the restored API lists, without events; Counts has some kinds of them, as kubectl names them.
	Objects int            `json:"objects,omitempty"`
	Counts  map[string]int `json:"counts,omitempty"`
	// Unread are kinds that could not be listed without pods of the cluster, with spaces between.
	Unread string `json:"unread,omitempty"`
	// Seconds is how long it took on the host.
	Seconds int `json:"seconds,omitempty"`
	// Good is when the last one that did not fail was done, this one included; zero when there was none.
	Good time.Time `json:"good,omitzero"`
}

// Counted is what a rehearsal that did not fail counted: "3 nodes, 412 objects".
func (r Rehearsal) Counted() string {
	plural := func(n int, what string) string {
		if n == 1 {
			return fmt.Sprintf("%d %s", n, what)
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	return plural(r.Counts["nodes"], "node") + ", " + plural(r.Objects, "object")
}

// Fields of the header of a snapshot's file that say what it is, beside those of HTTP.
const (
	// FileMachine is the machine on whose host it is, or s3.
	FileMachine = "X-Drover-Machine"
	// FileSum is the SHA-256 of the whole file in hex, where that is known.
	FileSum = "X-Drover-Sha256"
	// FileCreated is when it was taken, in RFC 3339, and FileVersion the cluster's Kubernetes version then.
	FileCreated = "X-Drover-Created"
	FileVersion = "X-Drover-Kubernetes-Version"
)

// AskedRehearsals is the body of POST /v1-drover/clusters/{namespace}/{name}/rehearsals/set; an empty Every ends the schedule.
type AskedRehearsals struct {
	// Every is the time from the end of one to the next, as in 24h.
	Every string `json:"every"`
	// Fleet is the name of the fleet on whose machines they are done.
	Fleet string `json:"fleet,omitempty"`
}

// Rehearsals is how the rehearsals of a cluster's snapshots stand.
type Rehearsals struct {
	Type string `json:"type"` // rehearsals
	// Every and Fleet are the schedule, By the ID of the user who set it, and Since when; absent without one.
	Every string    `json:"every,omitempty"`
	Fleet string    `json:"fleet,omitempty"`
	By    string    `json:"by,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Next is when the next one is due, and Waits why one that is due has not begun. Operation is the ID of one that is under way.
	Next      time.Time `json:"next,omitzero"`
	Waits     string    `json:"waits,omitempty"`
	Operation string    `json:"operation,omitempty"`
	// Last is the rehearsal that ended last, and Good the last one whose snapshot was restored and read; absent for none. Rehearsals
	// that users asked for count, too.
	Last *RehearsalEnd `json:"last,omitempty"`
	Good *RehearsalEnd `json:"good,omitempty"`
}

// RehearsalEnd is how a rehearsal ended.
type RehearsalEnd struct {
	// Operation is the ID of the operation that did it, State how that ended, and At when.
	Operation string    `json:"operation"`
	State     string    `json:"state"`
	At        time.Time `json:"at"`
	// Snapshot is the name of the snapshot, and Machine the name of the machine on which it was restored.
	Snapshot string `json:"snapshot"`
	Machine  string `json:"machine"`
	// Counted is what was found in it, such as "3 nodes, 412 objects"; empty when it could not be restored and read.
	Counted string `json:"counted,omitempty"`
	// Cause is why the operation did not succeed; empty when it did. There may be one beside Counted: of a host that was not cleaned up.
	Cause string `json:"cause,omitempty"`
}
