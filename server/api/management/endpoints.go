// The ways into a cluster that do not lead through the server: to the control-plane hosts of a cluster with an
// authorized endpoint, or to the name that stands for them.

package management

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// endpoint is a way into a cluster.
type endpoint struct {
	// Context is the name of its context in a kubeconfig.
	Context string
	// Server is a URL.
	Server string
	// CA is PEM; empty for one that is trusted anyway.
	CA string
}

// endpointsOf are the ways into a cluster whose CA is known, or why there is none though the cluster should have some.
func endpointsOf(name string, e clusterspec.LocalClusterAuthEndpoint, machines []records.Machine, ca string) (all []endpoint, missing string) {
	switch {
	case !e.Enabled:
		return nil, ""
	case e.FQDN != "":
		return []endpoint{{Context: name + "-fqdn", Server: "https://" + host(e.FQDN), CA: e.CACerts}}, ""
	case ca == "":
		return nil, "the server has not reached the cluster since it was started, so that it does not know the cluster's CA: get the kubeconfig again once it is connected"
	}
	for _, m := range machines {
		addresses := slices.Concat(m.Address, m.InternalAddress, nodeAddresses(m))
		if !m.Roles.ControlPlane || !m.Deleting.IsZero() || len(addresses) == 0 {
			continue
		}
		host := strings.TrimPrefix(cmp.Or(nodeName(m), m.NodeName, m.Name), name+"-")
		all = append(all, endpoint{Context: name + "-" + host, Server: "https://" + net.JoinHostPort(addresses[0], strconv.Itoa(installers.APIPort)), CA: ca})
	}
	if len(all) == 0 {
		return nil, "no control-plane machine of the cluster has an address"
	}
	slices.SortFunc(all, func(a, b endpoint) int {
		return cmp.Or(strings.Compare(a.Context, b.Context), strings.Compare(a.Server, b.Server))
	})
	return slices.CompactFunc(all, func(a, b endpoint) bool { return a.Context == b.Context }), ""
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

// arrival is how long a kubeconfig waits until its token is in the cluster.
const arrival = 10 * time.Second

// endpoint are the ways that a cluster's authorized endpoint comes to, and why there are none though it has one.
func (a Kubeconfigs) endpoint(id, name string) (direct []endpoint, missing string) {
	d, ok := a.State.ClustersByID.First(id)
	e := d.Value.Spec.AuthEndpoint()
	if !ok || !e.Enabled {
		return nil, ""
	}
	key, ca := records.ClusterKey(d.Key), ""
	if a.ClusterCA != nil {
		ca = string(a.ClusterCA(key))
	}
	var machines []records.Machine
	for _, m := range a.State.MachinesByCluster.Find(key) {
		machines = append(machines, m.Value)
	}
	return endpointsOf(name, e, machines, ca)
}

// lead adds the ways that do not lead through the server, once the cluster has the token.
func (a Kubeconfigs) lead(c *route.Call, k *Kubeconfig, cluster KubeconfigCluster, direct []endpoint) {
	d, known := a.State.ClustersByID.First(cluster.ID)
	if name, _, issued := strings.Cut(cluster.Token, ":"); issued && len(direct) > 0 && known && a.TokenArrived != nil {
		ctx, cancel := context.WithTimeout(c.Ctx(), arrival)
		defer cancel()
		if err := a.TokenArrived(ctx, records.ClusterKey(d.Key), name); err != nil {
			c.Warn(fmt.Sprintf("the cluster does not have the token yet, and takes it only through the server until then: %v", err))
		}
	}
	k.Lead(direct)
}
