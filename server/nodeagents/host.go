// The machine of a Docker host: what is made of what its agent says.

package nodeagents

import (
	"crypto/subtle"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/forms"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel/connect"
)

// keep is how long a name stays with its host after the host was last heard of, so that
// another one cannot take it while an agent restarts.
const keep = time.Minute

// newHost is the host as its agent describes it.
func newHost(cluster records.Cluster, n connect.Node) records.Machine {
	m := records.Machine{
		Object:      records.Object{Namespace: cluster.ID, Name: connect.MachineName(n.RequestedHostname)},
		ClusterName: cluster.Name, ClusterNamespace: cluster.Namespace, ClusterID: cluster.ID,
		NodeName: n.RequestedHostname, OS: "linux", Docker: dockerHost(n.DockerInfo),
		Roles: records.Roles{Etcd: n.Etcd, ControlPlane: n.ControlPlane, Worker: n.Worker},
	}
	if c := n.CustomConfig; c != nil {
		m.Address, m.InternalAddress = list(c.Address), list(c.InternalAddress)
		m.NodeLabels, m.NodeTaints = c.Label, taints(c.Taints)
		m.Roles.Etcd = m.Roles.Etcd || slices.Contains(c.Roles, connect.RoleEtcd)
		m.Roles.ControlPlane = m.Roles.ControlPlane || slices.Contains(c.Roles, connect.RoleControlPlane)
		m.Roles.Worker = m.Roles.Worker || slices.Contains(c.Roles, connect.RoleWorker)
	}
	if m.Roles == (records.Roles{}) {
		m.Roles.Worker = true
	}
	return m
}

func dockerHost(i *connect.DockerInfo) *records.DockerHost {
	if i == nil {
		return &records.DockerHost{}
	}
	return &records.DockerHost{
		EngineID: clip(i.ID), ServerVersion: clip(i.ServerVersion), OperatingSystem: clip(i.OperatingSystem), KernelVersion: clip(i.KernelVersion),
		Architecture: clip(i.Architecture), CgroupDriver: clip(i.CgroupDriver), StorageDriver: clip(i.Driver),
	}
}

// clip bounds and cleans what Docker is said to be: it is shown and logged.
func clip(s string) string {
	const most = 200
	s = strings.Map(func(r rune) rune {
		if !plans.Safe(r) {
			return -1
		}
		return r
	}, s)
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

func list(address string) []string {
	if address == "" {
		return nil
	}
	return []string{address}
}

func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// taints reads key=value:Effect, whose form was checked already.
func taints(all []string) []records.Taint {
	var list []records.Taint
	for _, text := range all {
		key, value, effect, _ := forms.Taint(text)
		list = append(list, records.Taint{Key: key, Value: value, Effect: effect})
	}
	return list
}

// created is the machine of a host that registers for the first time.
func created(m records.Machine, now time.Time) records.Machine {
	m.UID, m.Generation, m.Created = randomid.UID(), 1, now
	m.Docker.Seen = now
	m.Status = records.MachineStatus{
		Condition: records.Condition{
			State: records.Registering, Cause: m.NodeName + " has registered; its tunnel is not open yet",
			WaitingFor: "the tunnel of the node agent on " + m.NodeName,
		},
		Since: now, History: []records.Transition{{State: records.Registering, At: now}},
	}
	return m
}

// updated is a machine after its agent was let in again. Roles, labels and taints are those of
// the latest registration; where the host is and what its Docker is are true at any time.
func updated(m, asked records.Machine, register bool, now time.Time) records.Machine {
	docker := *asked.Docker
	if docker == (records.DockerHost{CredentialHash: docker.CredentialHash, Source: docker.Source}) {
		docker = *m.Docker // Docker does not answer; what it was is better than nothing
		docker.Source = asked.Docker.Source
	}
	docker.Seen, docker.AppliedNodeConfig = now, m.Docker.AppliedNodeConfig
	why := elsewhere(m, asked)
	docker.Moved = m.Docker.Moved || why != ""
	// A host that registered without a credential, by an older agent, has the first one that its agent sends, unless it may be
	// another host by then: that would lock the first one out for good.
	if docker.CredentialHash = m.Docker.CredentialHash; docker.CredentialHash == "" && !docker.Moved {
		docker.CredentialHash = asked.Docker.CredentialHash
	}
	m.Docker = &docker
	if len(asked.Address) > 0 {
		m.Address, m.InternalAddress = asked.Address, asked.InternalAddress
	}
	if register {
		m.Refused = ""
	}
	if why != "" {
		m.Refused = fmt.Sprintf("the agent of %s may be that of another host: %s; since %s", m.NodeName, why, now.Format("2006-01-02T15:04Z"))
	}
	if !register {
		return m
	}
	if m.Roles != asked.Roles {
		m.Generation++
	}
	m.Roles, m.NodeLabels, m.NodeTaints = asked.Roles, asked.NodeLabels, asked.NodeTaints
	return m
}

// another is why an agent that asks is not that of the known host; empty when it may be. A
// host with a credential is known by that alone. Others are known by their Docker engine and
// their address, of which none may be missing.
func another(known, asked records.Machine) string {
	want, got := known.Docker.CredentialHash, asked.Docker.CredentialHash
	switch {
	case want != "" && got == "":
		return "it does not send the credential that the host has registered with"
	case want != "" && subtle.ConstantTimeCompare([]byte(want), []byte(got)) != 1:
		return "its credential is not the one that the host has registered with"
	case want != "":
		return ""
	case known.Docker.EngineID != "" && asked.Docker.EngineID == "":
		return "it does not say which Docker engine it has, and has no credential"
	case len(known.Address) > 0 && len(asked.Address) == 0:
		return "it does not say which address it has, and has no credential"
	}
	return differs(known, asked)
}

// elsewhere is why an agent that says of itself what the known one does may be another host, where the host has registered without
// a credential: what it says is no secret then, and the address of its tunnel is all that is left to tell another one by. It
// counts while the name is held.
func elsewhere(known, asked records.Machine) string {
	was, is := known.Docker.Source, asked.Docker.Source
	if known.Docker.CredentialHash != "" || was == "" || is == "" || was == is {
		return ""
	}
	return fmt.Sprintf("it comes from %s and not from %s, and the host has registered without a credential", is, was)
}

// differs is why two descriptions of one name are those of two hosts; empty when they may be one.
func differs(known, asked records.Machine) string {
	switch {
	case known.Docker.EngineID != "" && asked.Docker.EngineID != "" && known.Docker.EngineID != asked.Docker.EngineID:
		return fmt.Sprintf("its Docker engine is %s and not %s", asked.Docker.EngineID, known.Docker.EngineID)
	case len(known.Address) > 0 && len(asked.Address) > 0 && known.Address[0] != asked.Address[0]:
		return fmt.Sprintf("its address is %s and not %s", asked.Address[0], known.Address[0])
	case len(known.InternalAddress) > 0 && len(asked.InternalAddress) > 0 && known.InternalAddress[0] != asked.InternalAddress[0]:
		return fmt.Sprintf("its internal address is %s and not %s", asked.InternalAddress[0], known.InternalAddress[0])
	}
	return ""
}

// held says whether the host that a machine stands for is there, or was a moment ago.
func held(m records.Machine, tunnel observed.Tunnel, now time.Time) bool {
	recently := func(at time.Time) bool { return now.Sub(at) < keep }
	return tunnel.Connected || m.Status.State == records.Connected || recently(tunnel.Since) || recently(m.Docker.Seen) ||
		(m.Status.State == records.Disconnected && recently(m.Status.Since))
}
