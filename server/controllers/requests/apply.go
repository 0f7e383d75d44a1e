// Writing down what became of requests.

package requests

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// note changes what is known of a request; false forgets it.
func (c *Controller) note(ctx context.Context, key records.ClusterKey, kind operations.Kind, change func(records.Requested, bool) (records.Requested, bool)) error {
	_, err := c.Asker.State.Clusters.Modify(ctx, string(key), func(cluster records.Cluster) (records.Cluster, error) {
		was, ok := cluster.Requests[kind]
		next, keep := change(was, ok)
		cluster.Requests = maps.Clone(cluster.Requests)
		delete(cluster.Requests, kind)
		if keep {
			if cluster.Requests == nil {
				cluster.Requests = map[operations.Kind]records.Requested{}
			}
			cluster.Requests[kind] = next
		}
		return cluster, nil
	})
	if _, gone := errors.AsType[*store.NotFoundError](err); gone {
		return nil
	}
	if err != nil {
		return fmt.Errorf("note what became of %s: %w", kind, err)
	}
	return nil
}
