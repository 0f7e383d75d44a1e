// What the server may dial on a host. Drover's agents have lists of their own; these hold
// for agents of any make, which let the server dial any address.

package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel"
)

// DockerSocket is where Docker listens on a host.
const DockerSocket = "/var/run/docker.sock"

// AgentService is the agent's own service, which is in its process and not a socket.
const AgentService = "drover-agent:80"

// ports are the API server, etcd and its peers, the kubelet, and the health of the kubelet,
// kube-proxy, the controller manager and the scheduler, the last two of old releases too.
var ports = []uint16{6443, 2379, 2380, 10250, 10248, 10256, 10257, 10259, 10251, 10252}

// allowed refuses what is not to be dialled on a host.
func (h *Hosts) allowed(peer tunnel.Peer, network, address string) error {
	switch peer.Kind {
	case ClusterAgent:
		return h.clusterTarget(peer, network, address)
	case Steve:
		return errors.New("nothing is dialled through the second tunnel of a cluster agent")
	case NodeAgent:
	default:
		return systemTarget(network, address)
	}
	d, ok := h.state.Machines.Get(string(records.Subject(peer.Subject).Machine()))
	if !ok {
		return fmt.Errorf("machine %s does not exist any more", peer.Subject)
	}
	return dockerTarget(d.Value, network, address)
}

// clusterTarget refuses what is not the API server that the cluster's agent announced.
func (h *Hosts) clusterTarget(peer tunnel.Peer, network, address string) error {
	cluster, ok := h.state.ClustersByID.First(peer.Subject)
	if !ok {
		return fmt.Errorf("cluster %s does not exist any more", peer.Subject)
	}
	if d, ok := h.state.ClusterAgents.Get(cluster.Key); !ok || network != "tcp" || d.Value.Address == "" || address != d.Value.Address {
		return fmt.Errorf("%s %s is not the Kubernetes API that the agent of cluster %s announced", network, address, cluster.Value.Name)
	}
	return nil
}

// systemTarget refuses what is not to be dialled on a host with a system agent.
func systemTarget(network, address string) error {
	switch network + " " + address {
	case "tcp 127.0.0.1:6443", "tcp " + AgentService:
		return nil
	}
	return fmt.Errorf("%s %s is not among the targets on a host", network, address)
}

// dockerTarget refuses what is not to be dialled on a Docker host.
func dockerTarget(m records.Machine, network, address string) error {
	switch network + " " + address {
	case "unix " + DockerSocket, "tcp " + AgentService:
		return nil
	}
	if network != "tcp" {
		return fmt.Errorf("of sockets, only %s is dialled on a Docker host", DockerSocket)
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return errors.New("not of the form address:port")
	}
	if !slices.Contains(ports, target.Port()) {
		return fmt.Errorf("port %d is not among those that are dialled on a Docker host", target.Port())
	}
	ip := target.Addr().Unmap().WithZone("")
	switch {
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip.IsUnspecified():
		return fmt.Errorf("%s is not an address of a host: metadata services and the like are not dialled", ip)
	case ip.IsLoopback(), own(m, ip):
		return nil
	}
	return fmt.Errorf("%s is not an address of %s", ip, m.NodeName)
}

func own(m records.Machine, ip netip.Addr) bool {
	return slices.ContainsFunc(slices.Concat(m.Address, m.InternalAddress), func(text string) bool {
		address, err := netip.ParseAddr(text)
		return err == nil && address.Unmap() == ip
	})
}
