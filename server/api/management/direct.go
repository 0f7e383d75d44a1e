// The ways into a cluster that do not lead through the server: contexts of a kubeconfig for the control-plane hosts
// of a cluster with an authorized endpoint, or for the name that stands for them.

package management

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/records"
)

// arrival is how long a kubeconfig waits until its token is in the cluster.
const arrival = 10 * time.Second

// endpoint are the ways that a cluster's authorized endpoint comes to, and why there are none though it has one.
func (a *API) endpoint(id, name string) (direct []Endpoint, missing string) {
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
	return EndpointsOf(name, e, machines, ca)
}

// arrived waits until a token is in its cluster; the reason says why it is not.
func (a *API) arrived(ctx context.Context, clusterID, token string) (reason string) {
	d, ok := a.State.ClustersByID.First(clusterID)
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

// lead adds the ways that do not lead through the server, once the cluster has the token.
func (a *API) lead(c *route.Call, k *Kubeconfig, cluster KubeconfigCluster, direct []Endpoint) {
	if name, _, issued := strings.Cut(cluster.Token, ":"); issued && len(direct) > 0 {
		if reason := a.arrived(c.Ctx(), cluster.ID, name); reason != "" {
			c.Warn(reason)
		}
	}
	k.Lead(direct)
}
