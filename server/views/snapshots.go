// How snapshots of clusters' etcd are shown.

package views

import (
	"time"

	"github.com/drover-project/drover/server/records"
)

// Snapshot is a snapshot of a cluster's etcd.
type Snapshot struct {
	Type    string `json:"type"` // snapshot
	Name    string `json:"name"`
	Cluster string `json:"cluster"` // <namespace>/<name>
	// Machine has it on its host, whose name is Node; s3 for one that is there.
	Machine string `json:"machine"`
	Node    string `json:"node,omitempty"`
	File    string `json:"file"`
	// Size is in bytes.
	Size    int64     `json:"size"`
	SHA256  string    `json:"sha256,omitempty"` // when drover looked whether it is whole
	Created time.Time `json:"created"`
	// By is the ID of the operation that took it; absent for those of the cluster's own schedule.
	By string `json:"by,omitempty"`
	// Version is the Kubernetes version that the cluster was to have then.
	Version string `json:"version"`
	// Restorable says whether it can be restored today by what the server knows, and Why why not.
	Restorable bool   `json:"restorable"`
	Why        string `json:"why,omitempty"`
}

// Snapshots are those of a cluster, the newest first.
type Snapshots struct {
	Data []Snapshot `json:"data"`
	// Stale is why the cluster could not be asked now, so that the list is what was known before; absent when it was.
	Stale string `json:"stale,omitempty"`
}

// OfSnapshot shows a snapshot.
func OfSnapshot(s records.Snapshot, restorable bool, why string) Snapshot {
	return Snapshot{
		Type: "snapshot", Name: s.Name(), Cluster: string(s.Cluster), Machine: s.Machine, Node: s.Node, File: s.File, Size: s.Size, SHA256: s.SHA256,
		Created: s.Created, By: s.By, Version: s.Spec.KubernetesVersion, Restorable: restorable, Why: why,
	}
}

// SnapshotRequest asks for a snapshot.
type SnapshotRequest struct {
	// Name begins the names of its files; empty is on-demand.
	Name string `json:"name,omitempty"`
	// Machines are those of whose etcd it is taken; all members without any.
	Machines []string `json:"machines,omitempty"`
}

// RestoreRequest asks for the restore of a snapshot.
type RestoreRequest struct {
	// Snapshot is the name of one, or the path of a file on the host of Machine.
	Snapshot string `json:"snapshot"`
	// Machine says which one, where several have one of that name.
	Machine string `json:"machine,omitempty"`
	// Mode is none, kubernetesVersion or all; empty is none.
	Mode string `json:"mode,omitempty"`
}

// RotateRequest asks for other certificates, or for another encryption key.
type RotateRequest struct {
	// What is certificates or encryption-keys.
	What string `json:"what"`
	// Services are those whose certificates are renewed; all without any.
	Services []string `json:"services,omitempty"`
}
