// The maintenance window of a cluster, which is one of its annotations: it is of people, and no plan is made of it.

package clusters

import (
	"context"
	"fmt"
	"maps"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/window"
)

// WindowError is that a text is not a maintenance window, or that a cluster has none.
type WindowError struct{ Reason string }

func (e *WindowError) Error() string { return e.Reason }

// SetWindow gives a cluster a maintenance window, in the form that window.Parse reads; an empty text takes it off. What does
// not fit is a *WindowError.
func (a *Applier) SetWindow(ctx context.Context, key records.ClusterKey, text string) (store.Document[records.Cluster], error) {
	if text != "" {
		all, err := window.Parse(text)
		if err != nil {
			return store.Document[records.Cluster]{}, &WindowError{Reason: err.Error()}
		}
		text = all.String()
	}
	d, err := a.State.Clusters.Modify(ctx, string(key), func(c records.Cluster) (records.Cluster, error) {
		switch {
		case c.Spec.Docker() && !c.Spec.RKE1():
			return c, &WindowError{Reason: fmt.Sprintf("cluster %s has no Kubernetes: nothing is provisioned on its hosts that could be restarted", c.Name)}
		case c.Annotations[clusterspec.MaintenanceWindow] == text:
			return c, store.ErrUnchanged
		}
		c.Annotations = maps.Clone(c.Annotations)
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[clusterspec.MaintenanceWindow] = text
		if text == "" {
			delete(c.Annotations, clusterspec.MaintenanceWindow)
		}
		return c, nil
	})
	if err != nil {
		return d, fmt.Errorf("set the maintenance window of cluster %s: %w", key, err)
	}
	return d, nil
}
