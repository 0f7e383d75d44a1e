// One pass over one cluster of Docker hosts: who is connected. No plans are made for them.

package clusters

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/server/planner"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

func (c *Controller) dockerPass(ctx context.Context, cluster store.Document[records.Cluster]) (again time.Duration, err error) {
	machines := c.State.Machines.ListIn(cluster.Value.ID + "/")
	if !cluster.Value.Deleting.IsZero() {
		seen := map[string]observed{}
		for _, d := range machines {
			seen[d.Value.Name] = observed{machine: d}
		}
		return 0, c.remove(ctx, cluster, seen)
	}
	snapshot := planner.DockerSnapshot{Cluster: cluster.Value, Now: c.Now(), Leading: time.Unix(0, c.leading.Load())}
	for _, d := range machines {
		snapshot.Hosts = append(snapshot.Hosts, planner.DockerHost{Machine: d.Value, Tunnel: c.Tunnel(d.Value.Subject())})
	}
	decision := planner.DecideDocker(snapshot)
	for _, d := range machines {
		if err := c.dockerHost(ctx, d, decision.Hosts[d.Value.Name]); err != nil {
			return 0, err
		}
	}
	// What the cluster's API would be for others is here that some host can be reached.
	seen := planner.Snapshot{API: planner.API{Reachable: decision.Connected > 0}}
	return decision.Again, c.cluster(ctx, cluster, seen, decision.Cluster)
}

// dockerHost writes where a host stands, when that changed.
func (c *Controller) dockerHost(ctx context.Context, d store.Document[records.Machine], cond records.Condition) error {
	if !d.Value.Deleting.IsZero() {
		return c.removeMachine(ctx, observed{machine: d})
	}
	status := nextStatus(d.Value.Status, planner.Verdict{Condition: cond}, c.Now().UTC())
	if sameStatus(d.Value.Status, status) {
		return nil
	}
	before := d.Value.Status.State
	d.Value.Status = status
	if _, err := c.State.Machines.Update(ctx, d); err != nil {
		return fmt.Errorf("write the state of machine %s: %w", d.Key, err)
	}
	if before != status.State {
		c.Logger.Info("Docker host", "machine", d.Key, "host", d.Value.NodeName, "state", status.State, "cause", status.Cause)
	}
	return nil
}
