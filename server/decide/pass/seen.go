// What is seen of agents and nodes, and for how long something may be out of sight.

package pass

import (
	"fmt"
	"slices"
	"time"

	rke1versions "github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

// Gathering is how long a new leader waits for hosts that it has not heard of.
const Gathering = 15 * time.Second

// Absent says that a machine's agent is away for longer than a limit; until then, after which time it will be.
func (s Snapshot) Absent(m *Member, limit time.Duration) (absent bool, again time.Duration) {
	if m.Agent.Connected {
		return false, 0
	}
	since := m.Agent.Since
	if since.Before(s.Leading) {
		since, limit = s.Leading, max(limit, Gathering) // agents come to a new leader one after the other
	}
	left := since.Add(limit).Sub(s.Now)
	return left <= 0, max(left, 0)
}

// Import is what is known of an imported cluster beside its record.
type Import struct {
	// Agent is what its agent announced; nil while none has come. It is not Ready while none was let in.
	Agent *records.ClusterAgent
	// Tunnel is that of its agent.
	Tunnel observed.Tunnel
}

// Gone is how long an agent whose tunnel has ended is still waited for: agents come back within seconds, and a new leader has
// heard of none. It is positive while one is there.
func (i Import) Gone(s Snapshot) time.Duration {
	if i.Tunnel.Connected {
		return Gathering
	}
	since, grace := i.Tunnel.Since, Gathering
	if since.Before(s.Leading) {
		since = s.Leading
	}
	return since.Add(grace).Sub(s.Now)
}

// Absent is why there is no way to the cluster.
func (i Import) Absent() string {
	text := "its agent is not connected"
	if !i.Tunnel.Since.IsZero() {
		text += fmt.Sprintf(" since %s", i.Tunnel.Since.UTC().Format(time.RFC3339))
	}
	if i.Tunnel.Reason != "" {
		text += " (" + i.Tunnel.Reason + ")"
	}
	return text + "; in the cluster: kubectl -n cattle-system get pods, kubectl -n cattle-system logs -l app=cattle-cluster-agent"
}

// UnseenLimit is how long an Active machine may be out of sight before that is its state: a control plane that starts
// again is away for some seconds, and a lost host is to be shown within a minute, in which its loss has to be noticed.
const UnseenLimit = 30 * time.Second

// AgentAbsent says that the machine's agent is away for longer than agents take to come back, where the cluster is to
// have agents; until then, after which time it will be. A crashed agent is back before the server notes it as gone.
func (s Snapshot) AgentAbsent(m *Member) (absent bool, again time.Duration) {
	if s.Cluster.Annotations[clusterspec.NoAgents] == "true" {
		return false, 0
	}
	return s.Absent(m, observed.AgentGrace)
}

// NodeOf is the node of a machine as the cluster's API shows it, or, while it cannot be asked, as it was seen last; nil for none.
func (p *Pass) NodeOf(m *Member) *records.NodeRef {
	if node, ok := p.API.Nodes[m.UID]; ok {
		return &node
	}
	if !p.API.Reachable {
		return m.Status.Node
	}
	return nil
}

// RKE1 is what is known of an RKE1 cluster beside its records.
type RKE1 struct {
	// Record is what the server remembers of it; nil when nothing was deployed.
	Record   *records.RKEState
	Versions *rke1versions.Data
}

// StaleNode is the node of this machine's host that still has the label of a machine that was removed: the host joined
// again, and its distribution was kept. It is known by the node's name, or by being the only one where the API
// answers through this host.
func (p *Pass) StaleNode(m *Member) (records.NodeRef, bool) {
	if !p.API.Reachable || !m.HasPlan() {
		return records.NodeRef{}, false
	}
	if _, own := p.API.Nodes[m.UID]; own {
		return records.NodeRef{}, false
	}
	alone := len(p.Members) == 1 && len(p.API.Nodes) == 1 && len(p.API.Unlabelled) == 0
	for uid, node := range p.API.Nodes {
		known := slices.ContainsFunc(p.Members, func(other *Member) bool { return other.UID == uid })
		if !known && (alone || m.NodeName != "" && node.Name == m.NodeName) {
			return node, true
		}
	}
	return records.NodeRef{}, false
}
