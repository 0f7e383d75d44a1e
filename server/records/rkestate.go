// RKE1 clusters: what the server remembers of them, and those that are not the server's to change: exported to the rke command line, or imported and
// not yet taken up.

package records

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/operations"
)

// RKEState is what the server remembers of an RKE1 cluster; without one nothing was deployed. Sensitive. Key: that of the cluster.
type RKEState struct {
	// State is the content of cluster.rkestate, with all keys of the cluster. A large one is in Packed instead, compressed;
	// server/rke/desired reads both.
	State  json.RawMessage `json:"state,omitempty"`
	Packed []byte          `json:"packed,omitempty"`
	// Hosts are the addresses of the hosts that have something of the cluster, or may have, sorted.
	Hosts []string `json:"hosts,omitempty"`
	// Done is the stamp of what was brought about on all hosts last, Halted that of what a user stopped; see server/rke/desired.
	Done   string `json:"done,omitempty"`
	Halted string `json:"halted,omitempty"`
	// Since is when the cluster was what it should be for the first time.
	Since time.Time `json:"since,omitzero"`
	// Carried are the requests of the document that were begun, by the kinds of their operations: each is carried out once.
	Carried map[operations.Kind]string `json:"heeded,omitempty"`
	// Applied is the config of the document that was brought about last, Failed the one whose last try failed, empty where none did.
	Applied json.RawMessage `json:"applied,omitempty"`
	Failed  json.RawMessage `json:"failed,omitempty"`
	// Ends is when each of the cluster's certificates ends, by the names of their entries.
	Ends map[string]time.Time `json:"ends,omitempty"`
	// Snapshots are those of etcd that the server took or tried to, the oldest first.
	Snapshots []RKESnapshot `json:"snapshots,omitempty"`
}

// RKESnapshot is a snapshot of the etcd of an RKE1 cluster, or a try to take one.
type RKESnapshot struct {
	// ID is unique in the cluster and the name of an etcdBackup of the management API.
	ID string `json:"id"`
	// Name is what it is restored by: the archive is NAME.zip.
	Name string `json:"name"`
	// By is the ID of the user who asked for it; a scheduled snapshot has no user.
	By        string `json:"by,omitempty"`
	Scheduled bool   `json:"scheduled,omitempty"`
	// At is when it was begun.
	At time.Time `json:"at"`
	// Version is the Kubernetes version of the cluster at that time.
	Version string `json:"version,omitempty"`
	// Hosts are those that have the snapshot. Bucket is the name of the bucket that has it, too; empty for none.
	Hosts  []RKESnapshotOn `json:"hosts,omitempty"`
	Bucket string          `json:"bucket,omitempty"`
	// Failure is why there is none; empty when there is one.
	Failure string `json:"failure,omitempty"`
}

// RKESnapshotOn is a snapshot on a host.
type RKESnapshotOn = apitypes.SnapshotHost

// Exported says that a cluster is in other hands, and since when.
type Exported = apitypes.Exported

// ExportedError says that something was asked for on a cluster that the server does not touch.
type ExportedError struct {
	Cluster string // its name
	Exported
}

func (e *ExportedError) Error() string {
	return fmt.Sprintf("%s, and the server does not touch it; `drover clusters resume %s` takes it up", ExportedSince(e.Exported, e.Cluster), e.Cluster)
}

// ExportedSince is a part of a sentence, as in "cluster prod was exported at 2026-11-22T12:00:00Z".
func ExportedSince(e Exported, cluster string) string {
	what := "exported"
	if e.Imported {
		what = "imported"
	}
	return fmt.Sprintf("cluster %s was %s at %s", cluster, what, e.At.UTC().Format(time.RFC3339))
}

// MayChange is nil when a cluster is the server's to change, and an *ExportedError otherwise.
func (c Cluster) MayChange() error {
	if c.Exported == nil {
		return nil
	}
	return &ExportedError{Cluster: c.Name, Exported: *c.Exported}
}
