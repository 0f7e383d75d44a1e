// Snapshots of clusters' etcd, as the server knows of them, and their rehearsals: how often they are, and how the last ones ended.

package records

import (
	"fmt"
	"path"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
)

// SnapshotInS3 stands for a machine in the records of snapshots that are in S3.
const SnapshotInS3 = "s3"

// Snapshot is a snapshot of a cluster's etcd on one of its hosts. Sensitive, by its Spec. Key: Key.
type Snapshot struct {
	Cluster ClusterKey `json:"cluster"`
	// Machine is the one on whose host it is, and Node the host's name.
	Machine string `json:"machine,omitempty"`
	Node    string `json:"node,omitempty"`
	// File is its path there.
	File string `json:"file"`
	// Size is in bytes; 0 for one that failed.
	Size int64 `json:"size,omitempty"`
	// SHA256 is that of the file, when drover looked whether it is whole; empty otherwise.
	SHA256 string `json:"sha256,omitempty"`
	// Created is when it was taken.
	Created time.Time `json:"created"`
	// By is the ID of the operation that took it; empty for those of the distribution's own schedule.
	By string `json:"by,omitempty"`
	// TokenHash says by which server token it can be read; see installers.HashServerToken.
	TokenHash string `json:"tokenHash,omitempty"`
	// Fault is why it could not be taken; empty for one that was.
	Fault string `json:"fault,omitempty"`
	// Spec is what the cluster was to be when the server heard of the snapshot.
	Spec clusterspec.Spec `json:"spec"`
	// Missing is since when the cluster does not list it any more; zero while it does.
	Missing time.Time `json:"missing,omitzero"`
	// Rehearsal is the last one of it; nil when there was none.
	Rehearsal *Rehearsal `json:"rehearsal,omitempty"`
}

// Rehearsal is what came of restoring a snapshot on a machine of a fleet.
type Rehearsal struct {
	// Operation is the ID of the one that did it, and At when it was done.
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

// Name is that of its file, which the distribution gave it.
func (s Snapshot) Name() string { return path.Base(s.File) }

// Key is "<namespace>/<cluster>/<machine>/<name>".
func (s Snapshot) Key() string { return string(s.Cluster) + "/" + s.Machine + "/" + s.Name() }

// maxYear is the last year that a time is stored with.
const maxYear = 9999

// Presentable says whether a snapshot, as a host or a cluster names it, has a file whose name can stand in a key, in a command and
// in a line, and a time that can be stored.
func (s Snapshot) Presentable() bool {
	base := path.Base(s.File)
	return base != "." && base != ".." && base != "/" && plans.SafeText(s.File) && s.Created.Year() >= 0 && s.Created.Year() <= maxYear
}

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
