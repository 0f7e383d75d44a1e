// How what people ask of a running cluster is shown, its snapshots, and their rehearsals.

package views

import (
	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
)

// RequestOf is what is asked for of a cluster of RKE1.
func RequestOf(a apitypes.Asked) desired.Request {
	if a.Kind == operations.KindRotateCA {
		a.Kind, a.CA = operations.KindRotateCertificates, true
	}
	return desired.Request{Kind: a.Kind, Snapshot: a.Snapshot, KeepState: a.KeepState, CA: a.CA, Services: a.Services}
}

// OfSnapshot shows a snapshot of a cluster.
func OfSnapshot(cluster records.ClusterKey, s records.RKESnapshot) apitypes.Snapshot {
	return apitypes.Snapshot{
		Type: "snapshot", Cluster: string(cluster), ID: s.ID, Name: s.Name, By: s.By, Scheduled: s.Scheduled, Created: s.At, Version: s.Version,
		Hosts: List(s.Hosts), Bucket: s.Bucket, Failure: s.Failure, Restorable: s.Failure == "", Why: s.Failure,
	}
}

// OfFile shows a snapshot of k3s or RKE2.
func OfFile(s records.Snapshot, restorable bool, why string) apitypes.Snapshot {
	shown := apitypes.Snapshot{
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
