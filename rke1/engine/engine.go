// Package engine brings the hosts of an RKE1 cluster to what its cluster.yml says, and keeps
// the cluster's state. A run goes through phases, which are values (run.Phase): what each does, whether it is
// for this run, and what it would do. Each looks at what is there and does what differs, so that a run that was
// interrupted anywhere is continued by the next one, and a preview goes through the phases of the run.
//
// The tables of phases stand here, a file for each kind of run; what phases do is in packages below:
//
//	run       the run itself: what it works on, its hosts, its state, its phases
//	reach     the hosts: who answers, what should be there, what is there, ports and images
//	files     certificates and files on hosts
//	plane     containers: what differs, one after the other, until each works
//	etcd      members that begin, join, change and leave
//	rollout   the control plane and the workers, in turns
//	api       the cluster's own API: its state there, labels and taints of nodes
//	addon     add-ons; leave: hosts that go; snapshot, restore; rotate: certificates and keys
//
// What should run where is decided in rke1/desired, which certificates there are in rke1/pki;
// hosts are reached through rke1/onhost. The engine runs in the server, through tunnels, and in
// the command line, through SSH. Log lines are those that users of the rke command line know.
package engine

import (
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/engine/snapshot"
)

// What callers give and get, under one name for them.
type (
	Options         = run.Options
	Buckets         = run.Buckets
	Work            = run.Work
	Report          = run.Report
	Planned         = run.Planned
	Step            = run.Step
	Changes         = run.Changes
	HostChanges     = run.HostChanges
	IncompleteError = run.IncompleteError
	SnapshotRequest = snapshot.SnapshotRequest
	RestoreRequest  = snapshot.RestoreRequest
)

// ErrStopped is what Options.Stop returns when the end of a run was asked for.
var ErrStopped = run.ErrStopped
