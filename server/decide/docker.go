// Docker hosts: where each of them stands, by its record and its tunnel alone.

package decide

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/records"
)

// returning is how long a host whose tunnel ended is still taken for connected: agents
// come back within seconds. With the 7 s after which the tunnel of a lost host ends, or 21 s where
// a balancer answers in its place, and with the 10 s after which the records of a killed server end,
// a lost host is shown within 30 s.
const returning = 3 * time.Second

// decideDocker decides where each host of a cluster stands, and the cluster. No plans are
// made for Docker hosts.
func decideDocker(s pass.Snapshot) Decision {
	p := pass.New(s)
	var missing []string
	for _, m := range p.Members {
		if m.Leaving {
			m.Remove = true
			continue
		}
		m.Condition, m.Again = dockerCondition(m.Machine, s.Now, s.Leading)
		if m.State != records.Connected {
			missing = append(missing, m.NodeName)
		}
	}
	p.Verdict = dockerCluster(s.Cluster, len(p.Staying), missing)
	return decision(p)
}

// dockerCondition is where one host stands, and after which time that may change by itself.
func dockerCondition(m pass.Machine, now, leading time.Time) (records.Condition, time.Duration) {
	name := m.NodeName
	tunnel := "the tunnel of the node agent on " + name
	next := "on " + name + ": docker ps shows whether the container of the agent runs, docker logs what it waits for"
	switch {
	case m.Tunnel.Connected:
		return records.Condition{State: records.Connected}, 0
	case m.Status.State != "" && m.Status.State != records.Registering && m.Status.State != records.Disconnected:
		gone, grace := m.Tunnel.Since, returning
		if gone.Before(leading) {
			gone, grace = leading, pass.Gathering
		}
		if left := gone.Add(grace).Sub(now); left > 0 {
			return m.Status.Condition, left
		}
		cause := fmt.Sprintf("%s ended, last known at %s", tunnel, gone.UTC().Format(time.RFC3339))
		if m.Tunnel.Reason != "" {
			cause += ": " + m.Tunnel.Reason
		}
		return records.Condition{State: records.Disconnected, Code: string(catalogue.DockerDisconnected), Cause: cause, WaitingFor: tunnel, NextStep: next}, 0
	case m.Status.State == records.Disconnected:
		same := m.Status.Condition
		same.Code = string(catalogue.DockerDisconnected) // servers of before the catalogue wrote none
		return same, 0
	}
	return records.Condition{
		State: records.Registering, Code: string(catalogue.DockerRegistering), Cause: name + " has registered; " + tunnel + " is not open yet", WaitingFor: tunnel, NextStep: next,
	}, 0
}

// dockerCluster is what the cluster is by its hosts. "Connected" means for it that some host can be reached.
func dockerCluster(c records.Cluster, total int, missing []string) pass.Verdict {
	connected := total - len(missing)
	v := pass.Verdict{State: records.ClusterActive, Connected: connected > 0, Message: fmt.Sprintf("connected hosts %d of %d", connected, total)}
	if len(missing) > 0 {
		v.Message += "; not connected: " + some(missing)
	}
	switch {
	case total == 0:
		v.State = records.ClusterPending
		v.Message = "no machine has joined; run on a host what `drover clusters join-command " + c.Name + " --docker --all-roles` prints"
	case connected == 0:
		v.State = records.ClusterUnavailable
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
