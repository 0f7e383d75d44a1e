// The ways into a cluster that do not lead through the server: to the control-plane hosts of a cluster with an
// authorized endpoint, or to the name that stands for them.

package management

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// Endpoint is a way into a cluster.
type Endpoint struct {
	// Context is the name of its context in a kubeconfig.
	Context string
	// Server is a URL.
	Server string
	// CA is PEM; empty for one that is trusted anyway.
	CA string
}

// EndpointsOf are the ways into a cluster whose CA is known, or why there is none though the cluster should have some.
func EndpointsOf(name string, e clusterspec.LocalClusterAuthEndpoint, machines []records.Machine, ca string) (all []Endpoint, missing string) {
	switch {
	case !e.Enabled:
		return nil, ""
	case e.FQDN != "":
		return []Endpoint{{Context: name + "-fqdn", Server: "https://" + host(e.FQDN), CA: e.CACerts}}, ""
	case ca == "":
		return nil, "the server has not reached the cluster since it was started, so that it does not know the cluster's CA: get the kubeconfig again once it is connected"
	}
	for _, m := range machines {
		addresses := slices.Concat(m.Address, m.InternalAddress, nodeAddresses(m))
		if !m.Roles.ControlPlane || !m.Deleting.IsZero() || len(addresses) == 0 {
			continue
		}
		host := strings.TrimPrefix(cmp.Or(nodeName(m), m.NodeName, m.Name), name+"-")
		all = append(all, Endpoint{Context: name + "-" + host, Server: "https://" + net.JoinHostPort(addresses[0], strconv.Itoa(installers.APIPort)), CA: ca})
	}
	if len(all) == 0 {
		return nil, "no control-plane machine of the cluster has an address"
	}
	slices.SortFunc(all, func(a, b Endpoint) int {
		return cmp.Or(strings.Compare(a.Context, b.Context), strings.Compare(a.Server, b.Server))
	})
	return slices.CompactFunc(all, func(a, b Endpoint) bool { return a.Context == b.Context }), ""
}

// host is the name of an endpoint without the scheme and the slash that documents of earlier versions may have in it.
func host(fqdn string) string {
	if _, rest, ok := strings.Cut(fqdn, "://"); ok {
		fqdn = rest
	}
	return strings.TrimRight(fqdn, "/")
}

// nodeAddresses are those that the cluster knows of a machine that was joined without any. It knows host names as well,
// which other machines may not be able to resolve.
func nodeAddresses(m records.Machine) (all []string) {
	if m.Status.Node == nil {
		return nil
	}
	for _, address := range m.Status.Node.Addresses {
		if net.ParseIP(address) != nil {
			all = append(all, address)
		}
	}
	return all
}

func nodeName(m records.Machine) string {
	if m.Status.Node == nil {
		return ""
	}
	return m.Status.Node.Name
}
