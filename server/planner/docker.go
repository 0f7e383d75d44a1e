// Docker hosts: where each of them stands, by its record and its tunnel alone.

package planner

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/server/records"
)

const (
	// returning is how long a host whose tunnel ended is still taken for connected: agents
	// come back within seconds. With the 21 s after which silence ends a tunnel, and with the
	// 10 s that a killed server's word holds, a lost host is shown within 30 s.
	returning = 3 * time.Second
	// gathering is how long a new leader waits for hosts that it has not heard of.
	gathering = 15 * time.Second
)

// Tunnel is what is known of a host's tunnel, over all servers.
type Tunnel struct {
	Connected bool
	// Since is when it opened, or when it ended; zero when that is not known.
	Since time.Time
	// Reason is why it ended, where that is known.
	Reason string
}

// DockerHost is one host of a snapshot.
type DockerHost struct {
	Machine records.Machine
	Tunnel  Tunnel
}

// DockerSnapshot is what is known of a cluster of Docker hosts.
type DockerSnapshot struct {
	Cluster records.Cluster
	Hosts   []DockerHost
	Now     time.Time
	// Leading is since when the leader hears of tunnels.
	Leading time.Time
}

// DockerDecision is what to show of a cluster of Docker hosts.
type DockerDecision struct {
	Hosts     map[string]records.Condition // by machine name
	Cluster   ClusterVerdict
	Connected int
	// Again is when to look again though nothing changed; zero: not.
	Again time.Duration
}

// DecideDocker tells where each host of a cluster stands, and the cluster.
func DecideDocker(s DockerSnapshot) DockerDecision {
	d := DockerDecision{Hosts: map[string]records.Condition{}}
	var missing []string
	total := 0
	for _, h := range s.Hosts {
		if !h.Machine.Deleting.IsZero() {
			continue
		}
		total++
		cond, wait := h.condition(s.Now, s.Leading)
		d.Hosts[h.Machine.Name] = cond
		if wait > 0 && (d.Again == 0 || wait < d.Again) {
			d.Again = wait
		}
		if cond.State == records.Connected {
			d.Connected++
		} else {
			missing = append(missing, h.Machine.NodeName)
		}
	}
	d.Cluster = dockerCluster(s.Cluster.Name, total, missing)
	return d
}

// condition is where one host stands, and when that may change by itself.
func (h DockerHost) condition(now, leading time.Time) (records.Condition, time.Duration) {
	m, name := h.Machine, h.Machine.NodeName
	tunnel := "the tunnel of the node agent on " + name
	next := "on " + name + ": docker ps shows whether the container of the agent runs, docker logs what it waits for"
	switch {
	case h.Tunnel.Connected:
		return records.Condition{State: records.Connected}, 0
	case m.Status.State == records.Connected:
		gone, grace := h.Tunnel.Since, returning
		if gone.Before(leading) {
			gone, grace = leading, gathering
		}
		if left := gone.Add(grace).Sub(now); left > 0 {
			return m.Status.Condition, left
		}
		cause := fmt.Sprintf("%s ended, last known at %s", tunnel, gone.UTC().Format(time.RFC3339))
		if h.Tunnel.Reason != "" {
			cause += ": " + h.Tunnel.Reason
		}
		return records.Condition{State: records.Disconnected, Cause: cause, WaitingFor: tunnel, NextStep: next}, 0
	case m.Status.State == records.Disconnected:
		return m.Status.Condition, 0
	}
	return records.Condition{
		State: records.Registering, Cause: name + " has registered; " + tunnel + " is not open yet", WaitingFor: tunnel, NextStep: next,
	}, 0
}

// dockerCluster is what the cluster is by its hosts.
func dockerCluster(name string, total int, missing []string) ClusterVerdict {
	connected := total - len(missing)
	message := fmt.Sprintf("connected hosts %d of %d", connected, total)
	if len(missing) > 0 {
		message += "; not connected: " + some(missing)
	}
	switch {
	case total == 0:
		return ClusterVerdict{State: ClusterPending, Message: "no machine has joined; run on a host what `drover clusters join-command " + name + " --docker --all-roles` prints"}
	case connected == 0:
		return ClusterVerdict{State: ClusterUnavailable, Message: message}
	}
	return ClusterVerdict{State: ClusterActive, Message: message}
}

// some are the first names of a list.
func some(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
