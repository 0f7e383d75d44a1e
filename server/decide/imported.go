// Imported clusters: where one stands, by its agent and by its own API alone. Nothing is planned for its hosts.

package decide

import (
	"time"

	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/records"
)

// decideImported decides what an imported cluster is, and whether it goes out of the store. A cluster that leaves waits until what
// the server has put there is removed, for as long as its agent is connected: without it nothing can be done there.
func decideImported(s pass.Snapshot) Decision {
	agent := s.Import.Agent
	if !s.Cluster.Deleting.IsZero() {
		left := s.Import.Gone(s)
		if agent == nil || !agent.Cleaned.IsZero() || left <= 0 {
			return removal(s)
		}
		p := pass.New(s)
		p.Verdict.State, p.Verdict.Message = records.ClusterRemoving, "what the server has put into the cluster is being removed by its agent"
		p.LookAgain(left)
		d := decision(p)
		d.Cluster.Remove = false // it has no machines that it could wait for
		d.Cluster.Status = clusterStatus(s, p.Verdict)
		return d
	}
	p := pass.New(s)
	v := &p.Verdict
	apply := "apply in it what `drover clusters import " + s.Cluster.Name + "` prints"
	v.Connected = s.Import.Tunnel.Connected
	var again time.Duration
	switch {
	case agent == nil || !agent.Ready():
		v.State, v.Message = records.ClusterPending, "waits for its agent: "+apply
	case s.API.Reachable:
		v.State, v.Ready, v.Initialized = records.ClusterActive, true, true
	case !s.Import.Tunnel.Connected:
		again = s.Import.Gone(s)
		if again > 0 && s.Cluster.Status.State == records.ClusterActive {
			v.State, v.Ready, v.Connected = records.ClusterActive, s.Cluster.Status.Ready, s.Cluster.Status.Connected
			break
		}
		v.State, v.Message = records.ClusterUnavailable, s.Import.Absent()
		if !v.Initialized {
			v.State = records.ClusterPending
			v.Message += "; or " + apply + " again"
		}
	default:
		v.State, v.Message = records.ClusterUnavailable, "its agent is connected, and the Kubernetes API does not answer through it: "+s.API.Cause
		if !v.Initialized {
			v.State = records.ClusterPending
		}
	}
	if agent != nil && agent.Refused != "" {
		v.Warning = records.Warning{
			Code: string(catalogue.ImportedTwice), Cause: agent.Refused,
			NextStep: "remove the agent there, and import that cluster under a name of its own; or, where it is this one with a new authority, drover clusters import " + s.Cluster.Name + " --replace",
		}
		if !agent.Ready() {
			v.Warning.NextStep = "it tries again by itself; in the cluster: kubectl -n cattle-system logs -l app=cattle-cluster-agent"
		}
	}
	p.LookAgain(again)
	return decision(p)
}
