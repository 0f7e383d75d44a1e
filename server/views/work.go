// Operations, servers with the tunnels that end at them, snapshots with their rehearsals, and versions, as they are shown.

package views

import (
	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/store"

	"slices"
)

// SummaryOf shows an operation in a list.
func SummaryOf(d store.Document[operations.Operation]) apitypes.OperationSummary {
	o := d.Value
	done, total := o.Progress()
	return apitypes.OperationSummary{
		Type: "operation", ID: o.ID, Kind: o.Kind, Cluster: o.Subject, Title: o.Title, By: o.By, State: o.State, Revision: d.Revision,
		Done: done, Total: total, Wait: o.Wait, Abort: o.Abort, Retries: o.Retry, Once: o.Once, Generation: o.Generation,
		Created: o.Created, Started: o.Started, Ended: o.Ended, Reason: o.Reason, Hurry: o.Hurry, Back: o.Back,
	}
}

// OfOperation shows an operation.
func OfOperation(d store.Document[operations.Operation]) apitypes.Operation {
	return apitypes.Operation{OperationSummary: SummaryOf(d), Tasks: List(d.Value.Tasks), Log: List(d.Value.Log)}
}

// OfEvent shows an event of the cluster with a name.
func OfEvent(e records.Event, cluster string) apitypes.Event {
	return apitypes.Event{
		Type: "event", ID: e.ID(), Revision: e.Revision, At: e.At, Cluster: cluster, ClusterID: e.ClusterID,
		Kind: e.Kind, Key: e.Key, Name: e.Name, From: e.From, To: e.To, Code: e.Code, Cause: e.Cause,
	}
}

// OfTunnels shows the tunnels of one server; machine finds the machine of a tunnel.
func OfTunnels(server hosts.HeldTunnels, machine func(key string) (records.Machine, bool)) []apitypes.Tunnel {
	tunnels := make([]apitypes.Tunnel, 0, len(server.Value))
	for _, s := range server.Value {
		t := apitypes.Tunnel{
			Subject: s.Subject, Kind: s.Kind, Server: server.Server, Remote: s.Remote, Agent: s.Agent, Protocol: s.Protocol, Since: s.Since, LastHeard: s.LastHeard,
			Healthy: s.Healthy, Connections: s.Connections, Paused: s.Paused, Dials: s.Dials, Failures: s.Failures, BytesIn: s.BytesIn, BytesOut: s.BytesOut,
		}
		t.Machine = string(records.Subject(s.Subject).Machine())
		if m, ok := machine(t.Machine); ok {
			t.Host, t.Cluster = m.NodeName, m.ClusterName
		}
		tunnels = append(tunnels, t)
	}
	return tunnels
}

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

// OfVersion shows one version of the data.
func OfVersion(known *versions.Data, version string) apitypes.Version {
	runtime := versions.RuntimeOf(version)
	return apitypes.Version{Type: "version", Version: version, Runtime: string(runtime), Default: known.Default(runtime) == version, Upgrades: List(known.Upgrades(version))}
}

// OfVersionDetail shows one version with its settings.
func OfVersionDetail(known *versions.Data, r versions.Release) apitypes.VersionDetail {
	d := apitypes.VersionDetail{
		Version: OfVersion(known, r.Version), ServerArgs: args(r.ServerArgs), AgentArgs: args(r.AgentArgs), Charts: map[string]apitypes.VersionChart{}, Features: Dict(r.Features),
	}
	for name, c := range r.Charts {
		d.Charts[name] = apitypes.VersionChart(c)
	}
	return d
}

func args(all map[string]versions.Arg) map[string]apitypes.VersionArg {
	shown := make(map[string]apitypes.VersionArg, len(all))
	for name, a := range all {
		shown[name] = apitypes.VersionArg{Type: string(a.Type), Default: a.Default, Options: a.Options, Nullable: a.Nullable}
	}
	return shown
}

// OfVersionSource shows where data are from.
func OfVersionSource(s versions.Status) apitypes.VersionSource {
	return apitypes.VersionSource{Location: s.Location, Date: s.Date, Read: s.Read, Fault: s.Fault}
}

// OfUpgrades are the versions that a cluster may be upgraded to: not more than one minor line above the lowest
// version that runs in it, and not below the highest. Without any that runs, the wanted version stands for it.
func OfUpgrades(known *versions.Data, wanted string, running []string) (from string, to []string) {
	if len(running) == 0 {
		running = []string{wanted}
	}
	from, highest := slices.MinFunc(running, versions.Compare), slices.MaxFunc(running, versions.Compare)
	to = slices.DeleteFunc(known.Upgrades(from), func(v string) bool { return v == wanted || versions.Compare(v, highest) < 0 })
	return from, to
}
