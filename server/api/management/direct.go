// The ways into a cluster that do not lead through the server: contexts of a kubeconfig for the control-plane hosts
// of a cluster with an authorized endpoint, or for the name that stands for them.

package management

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// arrival is how long a kubeconfig waits until its token is in the cluster.
const arrival = 10 * time.Second

// direct is a way into a cluster.
type direct struct {
	// name is that of its context.
	name   string
	server string
	// ca is PEM; empty for one that is trusted anyway.
	ca string
}

// directly are the ways into a cluster whose CA is known, or why there is none though the cluster should have some.
func directly(name string, e clusterspec.LocalClusterAuthEndpoint, machines []records.Machine, ca string) (ways []direct, missing string) {
	switch {
	case !e.Enabled:
		return nil, ""
	case e.FQDN != "":
		return []direct{{name: name + "-fqdn", server: "https://" + e.FQDN, ca: e.CACerts}}, ""
	case ca == "":
		return nil, "the server has not reached the cluster since it was started, so that it does not know the cluster's CA: get the kubeconfig again once it is connected"
	}
	for _, m := range machines {
		addresses := slices.Concat(m.Address, m.InternalAddress)
		if !m.Roles.ControlPlane || !m.Deleting.IsZero() || len(addresses) == 0 {
			continue
		}
		host := strings.TrimPrefix(cmp.Or(m.NodeName, m.Name), name+"-")
		ways = append(ways, direct{name: name + "-" + host, server: "https://" + net.JoinHostPort(addresses[0], strconv.Itoa(installers.APIPort)), ca: ca})
	}
	if len(ways) == 0 {
		return nil, "no control-plane machine of the cluster has an address"
	}
	slices.SortFunc(ways, func(a, b direct) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.server, b.server))
	})
	return slices.CompactFunc(ways, func(a, b direct) bool { return a.name == b.name }), ""
}

// endpoint is a cluster's authorized endpoint, and the ways that it comes to.
func (a *API) endpoint(id, name string) (on bool, ways []direct, missing string) {
	d, ok := a.ClusterByID(id)
	e := d.Value.Spec.AuthEndpoint()
	if !ok || !e.Enabled {
		return false, nil, ""
	}
	key, ca := records.ClusterKey(d.Key), ""
	if a.ClusterCA != nil {
		ca = string(a.ClusterCA(key))
	}
	var machines []records.Machine
	for _, m := range a.State.MachinesByCluster.Find(key) {
		machines = append(machines, m.Value)
	}
	ways, missing = directly(name, e, machines, ca)
	return true, ways, missing
}

// arrived waits until a token is in its cluster; the reason says why it is not.
func (a *API) arrived(ctx context.Context, clusterID, token string) (reason string) {
	d, ok := a.ClusterByID(clusterID)
	if !ok || a.TokenArrived == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, arrival)
	defer cancel()
	if err := a.TokenArrived(ctx, records.ClusterKey(d.Key), token); err != nil {
		return fmt.Sprintf("the cluster does not have the token yet, and takes it only through the server until then: %v", err)
	}
	return ""
}

// lead adds ways with the user of the first context.
func (k *Kubeconfig) lead(ways []direct) {
	for _, way := range ways {
		var c namedCluster
		c.Name, c.Cluster.Server = way.name, way.server
		if way.ca != "" {
			c.Cluster.CAData = base64.StdEncoding.EncodeToString([]byte(way.ca))
		}
		var context namedContext
		context.Name, context.Context.Cluster, context.Context.User = way.name, way.name, k.Users[0].Name
		k.Clusters, k.Contexts = append(k.Clusters, c), append(k.Contexts, context)
	}
}
