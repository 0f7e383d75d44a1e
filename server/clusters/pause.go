// Pausing a cluster: nothing new begins on its machines, and what has begun is finished.

package clusters

import (
	"context"
	"fmt"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Pause keeps the server from beginning anything on a cluster's machines until Resume. It returns the cluster, and the
// machines on which something has begun that is finished first.
func (a *Applier) Pause(ctx context.Context, key records.ClusterKey, by string) (store.Document[records.Cluster], []string, error) {
	d, err := a.pause(ctx, key, &records.Pause{By: by, At: a.Now().UTC()})
	if err != nil {
		return d, nil, fmt.Errorf("pause cluster %s: %w", key, err)
	}
	var busy []string
	for _, m := range a.State.MachinesByCluster.Find(key) {
		switch m.Value.Status.State {
		case records.ApplyingPlan, records.WaitingForProbes, records.WaitingForNode, records.Draining, records.Uncordoning, records.Removing:
			busy = append(busy, m.Value.Name)
		}
	}
	return d, busy, nil
}

// Resume ends a pause.
func (a *Applier) Resume(ctx context.Context, key records.ClusterKey) (store.Document[records.Cluster], error) {
	d, err := a.pause(ctx, key, nil)
	if err != nil {
		return d, fmt.Errorf("resume cluster %s: %w", key, err)
	}
	return d, nil
}

func (a *Applier) pause(ctx context.Context, key records.ClusterKey, pause *records.Pause) (store.Document[records.Cluster], error) {
	return a.State.Clusters.Modify(ctx, string(key), func(c records.Cluster) (records.Cluster, error) {
		if (c.Paused == nil) == (pause == nil) {
			return c, store.ErrUnchanged
		}
		c.Paused = pause
		return c, nil
	})
}
