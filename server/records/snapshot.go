// Snapshots of clusters' etcd, as the server knows of them, and their rehearsals: how often they are, and how the last ones ended.

package records

import (
	"path"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
)

// SnapshotInS3 stands for a machine in the records of snapshots that are in S3.
const SnapshotInS3 = apitypes.SnapshotInS3

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
type Rehearsal = apitypes.Rehearsal

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
	// Last is the one that ended last, and Good the last one whose snapshot was restored and read; nil for none. Rehearsals that people asked
	// for count, too.
	Last *RehearsalEnd `json:"last,omitempty"`
	Good *RehearsalEnd `json:"good,omitempty"`
	// Held is why one that is due has not begun; nil while none is held up.
	Held *HeldRehearsal `json:"held,omitempty"`
}

// RehearsalEnd is how a rehearsal ended.
type RehearsalEnd = apitypes.RehearsalEnd

// HeldRehearsal is that a rehearsal which is due has not begun.
type HeldRehearsal struct {
	// Why is a sentence, and At when it was noted.
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}
