// Imported clusters: where one stands, by its agent and by its own API alone. Nothing is planned for its hosts.

package planner

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
)

// Import is what is known of an imported cluster beside its record.
type Import struct {
	// Agent is what its agent announced; nil while none has come. It is not Ready while none was let in.
	Agent *records.ClusterAgent
	// Tunnel is that of its agent.
	Tunnel observed.Tunnel
}

// decideImported decides what an imported cluster is, and whether it goes out of the store. One that leaves waits until what
// the server has put there is removed, for as long as its agent is connected: without it nothing can be done there.
func decideImported(s Snapshot) Decision {
	agent := s.Import.Agent
	if !s.Cluster.Deleting.IsZero() {
		left := s.Import.gone(s)
		if agent == nil || !agent.Cleaned.IsZero() || left <= 0 {
			return removal(s)
		}
		r := newRound(s)
		r.cluster.state, r.cluster.message = records.ClusterRemoving, "what the server has put into the cluster is being removed by its agent"
		d := r.decision()
		d.Cluster.Remove = false // it has no machines that it could wait for
		d.Cluster.Status = s.clusterStatus(r.cluster)
		d.again(left)
		return d
	}
	r := newRound(s)
	v := &r.cluster
	apply := "apply in it what `drover clusters import " + s.Cluster.Name + "` prints"
	v.connected = s.Import.Tunnel.Connected
	var again time.Duration
	switch {
	case agent == nil || !agent.Ready():
		v.state, v.message = records.ClusterPending, "waits for its agent: "+apply
	case s.API.Reachable:
		v.state, v.ready, v.initialized = records.ClusterActive, true, true
	case !s.Import.Tunnel.Connected:
		again = s.Import.gone(s)
		if again > 0 && s.Cluster.Status.State == records.ClusterActive {
			v.state, v.ready, v.connected = records.ClusterActive, s.Cluster.Status.Ready, s.Cluster.Status.Connected
			break
		}
		v.state, v.message = records.ClusterUnavailable, s.Import.absent()
		if !v.initialized {
			v.state = records.ClusterPending
			v.message += "; or " + apply + " again"
		}
	default:
		v.state, v.message = records.ClusterUnavailable, "its agent is connected, and the Kubernetes API does not answer through it: "+s.API.Cause
		if !v.initialized {
			v.state = records.ClusterPending
		}
	}
	if agent != nil && agent.Refused != "" {
		v.warning = records.Warning{
			Code: string(verdict.ImportedTwice), Cause: agent.Refused,
			NextStep: "remove the agent there, and import that cluster under a name of its own; or, where it is this one with a new authority, drover clusters import " + s.Cluster.Name + " --replace",
		}
		if !agent.Ready() {
			v.warning.NextStep = "it tries again by itself; in the cluster: kubectl -n cattle-system logs -l app=cattle-cluster-agent"
		}
	}
	d := r.decision()
	d.again(again)
	return d
}

// gone is how long an agent whose tunnel has ended is still waited for: agents come back within seconds, and a new leader has
// heard of none. It is positive while one is there.
func (i Import) gone(s Snapshot) time.Duration {
	if i.Tunnel.Connected {
		return gathering
	}
	since, grace := i.Tunnel.Since, gathering
	if since.Before(s.Leading) {
		since = s.Leading
	}
	return since.Add(grace).Sub(s.Now)
}

// absent is why there is no way to the cluster.
func (i Import) absent() string {
	text := "its agent is not connected"
	if !i.Tunnel.Since.IsZero() {
		text += fmt.Sprintf(" since %s", i.Tunnel.Since.UTC().Format(time.RFC3339))
	}
	if i.Tunnel.Reason != "" {
		text += " (" + i.Tunnel.Reason + ")"
	}
	return text + "; in the cluster: kubectl -n cattle-system get pods, kubectl -n cattle-system logs -l app=cattle-cluster-agent"
}
