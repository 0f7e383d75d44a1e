// When nothing new begins on a cluster: while it is paused, in which what has begun is finished, and outside of its maintenance window. Both are of
// people, and no plan is made of them.

package clusters

import (
	"context"
	"fmt"
	"maps"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Pause keeps the server from beginning anything on a cluster's machines until Resume. It returns the cluster, and the machines on which work is finished
// first. The errors are those of the store.
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

// Resume ends a pause. The errors are those of the store.
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

// WindowError is that a text is not a maintenance window, or that a cluster has none.
type WindowError struct{ Reason string }

func (e *WindowError) Error() string { return e.Reason }

// SetWindow gives a cluster a maintenance window, in the form that clusterspec.ParseWindows reads; an empty text takes it off. What does
// not fit is a *WindowError.
func (a *Applier) SetWindow(ctx context.Context, key records.ClusterKey, text string) (store.Document[records.Cluster], error) {
	if text != "" {
		all, err := clusterspec.ParseWindows(text)
		if err != nil {
			return store.Document[records.Cluster]{}, &WindowError{Reason: err.Error()}
		}
		text = all.String()
	}
	d, err := Annotate(ctx, a.State, key, clusterspec.MaintenanceWindow, text, func(c records.Cluster) error {
		if c.Spec.Docker() && !c.Spec.RKE1() {
			return &WindowError{Reason: fmt.Sprintf("cluster %s has no Kubernetes: nothing is provisioned on its hosts that could be restarted", c.Name)}
		}
		return nil
	})
	if err != nil {
		return d, fmt.Errorf("set the maintenance window of cluster %s: %w", key, err)
	}
	return d, nil
}

// Annotate gives a cluster an annotation, or takes it off with an empty text, unless may refuses that. The errors are its own and those of the store.
func Annotate(ctx context.Context, s *state.State, key records.ClusterKey, name, text string, may func(records.Cluster) error) (store.Document[records.Cluster], error) {
	return s.Clusters.Modify(ctx, string(key), func(c records.Cluster) (records.Cluster, error) {
		if err := may(c); err != nil {
			return c, err
		}
		return c, annotate(&c.Object, name, text)
	})
}

// annotate gives an object an annotation, or takes it off with an empty text; store.ErrUnchanged says that it was so already.
func annotate(o *records.Object, name, text string) error {
	if o.Annotations[name] == text {
		return store.ErrUnchanged
	}
	o.Annotations = maps.Clone(o.Annotations)
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[name] = text
	if text == "" {
		delete(o.Annotations, name)
	}
	return nil
}

// PinAgents has the agents on the hosts of a cluster or a fleet stay of the releases that they are of, or ends that. The errors are those of the store.
func PinAgents(ctx context.Context, s *state.State, key records.ClusterKey, pinned bool) (err error) {
	text := map[bool]string{true: "true"}[pinned]
	if key.Fleet() {
		_, err = s.Fleets.Modify(ctx, string(key), func(f records.Fleet) (records.Fleet, error) {
			return f, annotate(&f.Object, clusterspec.PinAgents, text)
		})
	} else {
		_, err = Annotate(ctx, s, key, clusterspec.PinAgents, text, func(records.Cluster) error { return nil })
	}
	if err != nil {
		return fmt.Errorf("pin the agents of %s: %w", key.Home(), err)
	}
	return nil
}
