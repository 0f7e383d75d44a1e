// The ways into a cluster that do not lead through the server: contexts of a kubeconfig for the control-plane hosts
// of a cluster with an authorized endpoint, or for the name that stands for them.

package management

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/ways"
	"github.com/drover-project/drover/server/records"
)

// arrival is how long a kubeconfig waits until its token is in the cluster.
const arrival = 10 * time.Second

// endpoint is a cluster's authorized endpoint, and the ways that it comes to.
func (a *API) endpoint(id, name string) (on bool, direct []ways.Way, missing string) {
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
	direct, missing = ways.Of(name, e, machines, ca)
	return true, direct, missing
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

// lead adds the ways that do not lead through the server, once the cluster has the token of that name; "" for none.
func (a *API) lead(c *route.Call, k *Kubeconfig, clusterID, token string, direct []ways.Way) {
	if len(direct) > 0 && token != "" {
		if reason := a.arrived(c.Ctx(), clusterID, token); reason != "" {
			c.Warn(reason)
		}
	}
	k.lead(direct)
}

// lead adds ways with the user of the first context.
func (k *Kubeconfig) lead(direct []ways.Way) {
	for _, way := range direct {
		var c namedCluster
		c.Name, c.Cluster.Server = way.Context, way.Server
		if way.CA != "" {
			c.Cluster.CAData = base64.StdEncoding.EncodeToString([]byte(way.CA))
		}
		var context namedContext
		context.Name, context.Context.Cluster, context.Context.User = way.Context, way.Context, k.Users[0].Name
		k.Clusters, k.Contexts = append(k.Clusters, c), append(k.Contexts, context)
	}
}
