// What is done on RKE1 clusters that run: snapshots, their restore, and rotations, whose commands are those of other clusters.

package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/cmd/drover/client"
	"github.com/drover-project/drover/server/views"
)

// askRKE has the server begin an operation on an RKE1 cluster.
func (a *app) askRKE(ctx context.Context, c *client.Client, one views.Cluster, asked views.Asked, o askOptions) error {
	var begun views.Begun
	if err := c.Send(ctx, "POST", clusterPath(one)+"/operations?"+o.query(), asked, &begun); err != nil {
		return fmt.Errorf("%s: %w", strings.ReplaceAll(asked.Kind, "-", " "), err) // the server names the cluster
	}
	if o.dryRun {
		return a.show(begun.Lines, func(t *table) {
			for _, line := range begun.Lines {
				t.row(line)
			}
		})
	}
	return a.follows(ctx, c, begun.Operation.ID, begun.Operation.Title, string(begun.Operation.State), begun.Operation, o)
}

// rkeSnapshots lists the snapshots of an RKE1 cluster that the server took, the newest first.
func (a *app) rkeSnapshots(ctx context.Context, c *client.Client, one views.Cluster) error {
	list, err := collect[views.RKESnapshot](ctx, c, clusterPath(one)+"/rke-snapshots")
	if err != nil {
		return fmt.Errorf("list the snapshots of cluster %s: %w", one.Name, err)
	}
	slices.Reverse(list)
	a.hint(len(list) == 0, "there is no snapshot; `drover snapshots create "+one.Name+"` takes one")
	now := time.Now()
	return a.show(list, func(t *table) {
		t.row("NAME", "AGE", "BY", "VERSION", "HOSTS", "SIZE", "BUCKET", "FAILURE")
		for _, s := range list {
			by := orDash(s.By)
			if s.Scheduled {
				by = "schedule"
			}
			var size int64 // of the largest; members that are asked in the same moment have nearly the same
			for _, h := range s.Hosts {
				size = max(size, h.Size)
			}
			t.row(s.Name, ago(now, s.Created), by, orDash(s.Version), fmt.Sprint(len(s.Hosts)), sizeText(size), orDash(s.Bucket), orDash(s.Failure))
		}
	})
}

// onlyFor refuses flags that were given and are not for clusters of a distribution.
func onlyFor(one views.Cluster, given map[string]bool) error {
	for _, flag := range slices.Sorted(maps.Keys(given)) {
		if given[flag] {
			return usage("--%s is not for clusters of %s, as %s is", flag, one.Distribution, one.Name)
		}
	}
	return nil
}
