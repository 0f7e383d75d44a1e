// Docker hosts: where each of them stands, by its record and its tunnel alone.

package planner

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
)

const (
	// returning is how long a host whose tunnel ended is still taken for connected: agents
	// come back within seconds. With the 7 s after which the tunnel of a lost host ends, or 21 s where
	// a balancer answers in its place, and with the 10 s after which the records of a killed server end,
	// a lost host is shown within 30 s.
	returning = 3 * time.Second
	// gathering is how long a new leader waits for hosts that it has not heard of.
	gathering = 15 * time.Second
)

// decideDocker decides where each host of a cluster stands, and the cluster. No plans are
// made for Docker hosts.
func decideDocker(s Snapshot) Decision {
	r := newRound(s)
	var missing []string
	for _, m := range r.members {
		if m.leaving {
			m.remove = true
			continue
		}
		m.Condition, m.again = m.dockerCondition(s.Now, s.Leading)
		if m.State != records.Connected {
			missing = append(missing, m.NodeName)
		}
	}
	r.cluster = dockerCluster(s.Cluster, len(r.staying), missing)
	return r.decision()
}

// dockerCondition is where one host stands, and after which time that may change by itself.
func (m Machine) dockerCondition(now, leading time.Time) (records.Condition, time.Duration) {
	name := m.NodeName
	tunnel := "the tunnel of the node agent on " + name
	next := "on " + name + ": docker ps shows whether the container of the agent runs, docker logs what it waits for"
	switch {
	case m.Tunnel.Connected:
		return records.Condition{State: records.Connected}, 0
	case m.Status.State != "" && m.Status.State != records.Registering && m.Status.State != records.Disconnected:
		gone, grace := m.Tunnel.Since, returning
		if gone.Before(leading) {
			gone, grace = leading, gathering
		}
		if left := gone.Add(grace).Sub(now); left > 0 {
			return m.Status.Condition, left
		}
		cause := fmt.Sprintf("%s ended, last known at %s", tunnel, gone.UTC().Format(time.RFC3339))
		if m.Tunnel.Reason != "" {
			cause += ": " + m.Tunnel.Reason
		}
		return records.Condition{State: records.Disconnected, Code: string(verdict.DockerDisconnected), Cause: cause, WaitingFor: tunnel, NextStep: next}, 0
	case m.Status.State == records.Disconnected:
		same := m.Status.Condition
		same.Code = string(verdict.DockerDisconnected) // servers of before the catalogue wrote none
		return same, 0
	}
	return records.Condition{
		State: records.Registering, Code: string(verdict.DockerRegistering), Cause: name + " has registered; " + tunnel + " is not open yet", WaitingFor: tunnel, NextStep: next,
	}, 0
}

// dockerCluster is what the cluster is by its hosts. "Connected" means for it that some host can be reached.
func dockerCluster(c records.Cluster, total int, missing []string) clusterVerdict {
	connected := total - len(missing)
	v := clusterVerdict{state: records.ClusterActive, connected: connected > 0, message: fmt.Sprintf("connected hosts %d of %d", connected, total)}
	if len(missing) > 0 {
		v.message += "; not connected: " + some(missing)
	}
	switch {
	case total == 0:
		v.state = records.ClusterPending
		v.message = "no machine has joined; run on a host what `drover clusters join-command " + c.Name + " --docker --all-roles` prints"
	case connected == 0:
		v.state = records.ClusterUnavailable
	}
	return v
}

// some are the first names of a list.
func some(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
