// How what people ask of a running cluster is shown, its snapshots, and their rehearsals.

package views

import (
	"time"

	"github.com/drover-project/drover/server/controllers/rehearsals"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/want"
)

// Asked is the body of POST /v1-drover/clusters/{namespace}/{name}/operations.
type Asked struct {
	// Kind is snapshot, restore, rehearse, rotate-certificates or rotate-encryption-keys; rotate-ca is rotate-certificates
	// with CA. Of k3s and RKE2 rotate-server-token too.
	Kind operations.Kind `json:"kind"`
	// Snapshot is the name of the one to take, which may be left out, or to restore.
	Snapshot string `json:"snapshot,omitempty"`
	// Machines are the names of those on whose hosts it is taken, all members of etcd without any, or of the one on whose host
	// the snapshot to restore is; Mode is what becomes as it was with it: none, kubernetesVersion or all. For k3s and RKE2.
	Machines []string `json:"machines,omitempty"`
	Mode     string   `json:"mode,omitempty"`
	// Fleet is the name of that on one of whose machines a snapshot is rehearsed, where Machines names none.
	Fleet string `json:"fleet,omitempty"`
	// KeepState restores with the certificates and keys that the server has, and not with those in the snapshot.
	KeepState bool `json:"keepState,omitempty"`
	// CA rotates the cluster's CAs, too, and all certificates; Services are those whose certificates are rotated, none being all.
	CA       bool     `json:"ca,omitempty"`
	Services []string `json:"services,omitempty"`
}

// Wish is what is asked for of a cluster of RKE1.
func (a Asked) Wish() want.Wish {
	if a.Kind == operations.KindRotateCA {
		a.Kind, a.CA = operations.KindRotateCertificates, true
	}
	return want.Wish{Kind: a.Kind, Snapshot: a.Snapshot, KeepState: a.KeepState, CA: a.CA, Services: a.Services}
}

// Begun is the answer to Asked.
type Begun struct {
	Type string `json:"type"` // begun
	// Operation carries it out; absent in a dry run.
	Operation *OperationSummary `json:"operation,omitempty"`
	// Lines say what would be done, in a dry run.
	Lines []string `json:"lines,omitempty"`
}

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
	// Hosts are those that have it, Bucket the one that has it besides.
	Hosts  []records.RKESnapshotOn `json:"hosts"`
	Bucket string                  `json:"bucket,omitempty"`
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
	Rehearsal *records.Rehearsal `json:"rehearsal,omitempty"`
}

// OfSnapshot shows a snapshot of a cluster.
func OfSnapshot(cluster records.ClusterKey, s records.RKESnapshot) Snapshot {
	return Snapshot{
		Type: "snapshot", Cluster: string(cluster), ID: s.ID, Name: s.Name, By: s.By, Scheduled: s.Scheduled, Created: s.At, Version: s.Version,
		Hosts: list(s.Hosts), Bucket: s.Bucket, Failure: s.Failure, Restorable: s.Failure == "", Why: s.Failure,
	}
}

// OfFile shows a snapshot of k3s or RKE2.
func OfFile(s records.Snapshot, restorable bool, why string) Snapshot {
	shown := Snapshot{
		Type: "snapshot", Cluster: string(s.Cluster), ID: s.Machine + "/" + s.Name(), Name: s.Name(), By: s.By, Scheduled: s.By == "", Created: s.Created,
		Version: s.Spec.KubernetesVersion, Failure: s.Fault, Machine: s.Machine, File: s.File, SHA256: s.SHA256, Restorable: restorable, Why: why, Rehearsal: s.Rehearsal, Hosts: []records.RKESnapshotOn{},
	}
	if s.Machine == records.SnapshotInS3 {
		shown.Bucket = s.File
		// The distribution's name for where it is, beside which the size stands.
		shown.Hosts = append(shown.Hosts, records.RKESnapshotOn{Address: s.Machine, Size: s.Size})
	} else if s.Fault == "" {
		shown.Hosts = append(shown.Hosts, records.RKESnapshotOn{Address: s.Node, Size: s.Size})
	}
	return shown
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
	// Fleet is the name of the one on whose machines they are done.
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
	// Last is the one that ended last, and Good the last one whose snapshot was restored and read; absent for none. Those that people
	// asked for count, too.
	Last *records.RehearsalEnd `json:"last,omitempty"`
	Good *records.RehearsalEnd `json:"good,omitempty"`
}

// OfRehearsals shows how the rehearsals of a cluster stand.
func OfRehearsals(s rehearsals.Standing) Rehearsals {
	shown := Rehearsals{Type: "rehearsals", Fleet: s.Fleet, By: s.By, Since: s.Since, Next: s.Next, Waits: s.Waits, Operation: s.Running, Last: s.Last, Good: s.Good}
	if s.Every > 0 {
		shown.Every = s.Every.String()
	}
	return shown
}
