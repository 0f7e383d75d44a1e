// Snapshots without a request: the one that an upgrade begins with, and those of a schedule.

package rke1

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
)

// guard takes the snapshot that an upgrade begins with. It is on the hosts and by the config of before the upgrade.
func (c *Controller) guard(ctx context.Context, o engine.Options, d desired.Decision, name string, begun bool) error {
	key := records.ClusterKey(d.Operation.Subject)
	o.Planned = nil
	id, _, _ := strings.Cut(name, "_")
	one, failed := takeSnapshot(ctx, o, workOf(d.Deployed(), d.Before), records.RKESnapshot{ID: id, Name: name, By: d.Operation.By}, begun)
	if ctx.Err() != nil || errors.Is(failed, engine.ErrStopped) {
		return failed // nil means that the snapshot is looked at again
	}
	_, err := c.State.RKEStates.Modify(ctx, string(key), func(rec records.RKEState) (records.RKEState, error) {
		rec.Snapshots, _ = desired.Noted(rec.Snapshots, one, 0)
		return rec, nil
	})
	if failed != nil {
		return fmt.Errorf("take snapshot %s before the upgrade, of which nothing was begun (the annotation %s: \"true\" of the cluster has it begin without): %w", name, clusterspec.NoSnapshot, failed)
	}
	if err != nil {
		return fmt.Errorf("remember snapshot %s of cluster %s: %w", name, key, err)
	}
	return nil
}

// scheduled takes a snapshot that the schedule says, and removes those that are not kept any more. It is not an operation: nothing
// restarts for it, and it comes also between the tries of one.
func (c *Controller) scheduled(ctx context.Context, s desired.Snapshot, d desired.Decision) error {
	key := records.NewClusterKey(s.Cluster.Namespace, s.Cluster.Name)
	in := desired.Input{Cluster: s.Cluster, Machines: s.Machines, Before: d.Before, Versions: s.Versions}
	schedule, _ := desired.ScheduleOf(in)
	id, name := desired.NameSnapshot(in, true, c.Now(), randomid.ID(5))
	o := c.Engine(s.Machines, Silent{})
	o.Stop = func() error {
		if c, ok := c.State.Clusters.Get(string(key)); !ok || !c.Value.Deleting.IsZero() {
			return engine.ErrStopped
		}
		return context.Cause(ctx)
	}
	work := workOf(d.Config, d.Before)
	one, failed := takeSnapshot(ctx, o, work, records.RKESnapshot{ID: id, Name: name, Scheduled: true}, false)
	if ctx.Err() != nil || errors.Is(failed, engine.ErrStopped) {
		return nil // the next leader takes one
	}
	var gone []records.RKESnapshot
	_, err := c.State.RKEStates.Modify(ctx, string(key), func(rec records.RKEState) (records.RKEState, error) {
		rec.Snapshots, gone = desired.Noted(rec.Snapshots, one, schedule.Keep)
		return rec, nil
	})
	if err != nil {
		return fmt.Errorf("remember snapshot %s of cluster %s: %w", name, key, err)
	}
	if failed != nil {
		c.Logger.Warn("a scheduled snapshot failed", "cluster", key, "snapshot", name, "error", one.Failure)
		return nil
	}
	c.Logger.Info("scheduled snapshot taken", "cluster", key, "snapshot", name, "hosts", len(one.Hosts))
	for _, old := range gone {
		if err := engine.RemoveSnapshot(ctx, o, work, engine.SnapshotRequest{Name: old.Name, S3: bucketOf(d.Config)}); err != nil {
			c.Logger.Warn("an old snapshot could not be removed, and is not looked after any more", "cluster", key, "snapshot", old.Name, "error", err)
		}
	}
	return nil
}
