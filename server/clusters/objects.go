// Secrets and ConfigMaps that clusters refer to: what a pass sees of them, how documents change them, and which
// clusters a change concerns.

package clusters

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/objects"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// objects are those that a cluster refers to, by their keys, with a text that differs whenever they do. Given ones are
// taken instead of the stored ones.
func (c *Controller) objects(cluster records.Cluster, given []objects.Object) (found map[string]objects.Object, version string) {
	var revisions strings.Builder
	for _, key := range cluster.Spec.Objects(cluster.Namespace) {
		if found == nil {
			found = map[string]objects.Object{}
		}
		if i := slices.IndexFunc(given, func(o objects.Object) bool { return o.Key() == key }); i >= 0 {
			found[key] = given[i]
		} else if d, ok := c.State.Objects.Get(key); ok {
			found[key] = d.Value
			fmt.Fprintf(&revisions, "%s@%d ", key, d.Revision)
		}
	}
	return found, revisions.String()
}

// observeObjects queues the clusters that refer to a Secret or ConfigMap whenever it changes.
func (c *Controller) observeObjects() (stop func()) {
	return c.State.Objects.Observe(func(e store.Event[objects.Object]) {
		for _, d := range c.State.Clusters.List() {
			if slices.Contains(d.Value.Spec.Objects(d.Value.Namespace), e.Key) {
				c.queue.Hurry(records.ClusterKey(d.Key))
			}
		}
	})
}

// object is what applying a Secret or ConfigMap does; by is the ID of the user.
func (a *Applier) object(o objects.Object, by string) (Result, []store.Op) {
	result := Result{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Action: Unchanged}
	existing, ok := a.State.Objects.Get(o.Key())
	switch {
	case !ok:
		result.Action, o.CreatorID = Created, by
		return result, []store.Op{a.State.Objects.Creating(o.Key(), o)}
	case objects.Equal(existing.Value, o):
		return result, nil
	}
	result.Action = Configured
	o.CreatorID = existing.Value.CreatorID
	existing.Value = o
	return result, []store.Op{a.State.Objects.Updating(existing)}
}

// missing are sentences about Secrets and ConfigMaps that a cluster refers to and that are neither stored nor given:
// they may come later, and its machines wait for them.
func (a *Applier) missing(cluster records.Cluster, given []objects.Object) []string {
	var list []string
	for _, key := range cluster.Spec.Objects(cluster.Namespace) {
		_, stored := a.State.Objects.Get(key)
		if !stored && !slices.ContainsFunc(given, func(o objects.Object) bool { return o.Key() == key }) {
			kind, name, _ := strings.Cut(key, "/")
			list = append(list, fmt.Sprintf("it refers to %s %s, which does not exist; its machines get no plan before it is applied", strings.ToLower(kind), name))
		}
	}
	return list
}

// InUseError says that clusters refer to a Secret or ConfigMap, which cannot be removed then.
type InUseError struct {
	Object   string
	Clusters []string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("remove %s: cluster %s refers to it; take the reference out of the cluster first", e.Object, strings.Join(e.Clusters, ", "))
}

// RemoveObject removes a Secret or ConfigMap by its key. One that a cluster refers to stays: *InUseError.
func (a *Applier) RemoveObject(ctx context.Context, key string) error {
	d, ok := a.State.Objects.Get(key)
	if !ok {
		return &store.NotFoundError{Collection: "objects", Key: key}
	}
	var users []string
	for _, one := range a.State.Clusters.List() {
		if slices.Contains(one.Value.Spec.Objects(one.Value.Namespace), key) {
			users = append(users, one.Key)
		}
	}
	if len(users) > 0 {
		slices.Sort(users)
		return &InUseError{Object: key, Clusters: users}
	}
	if err := a.State.Objects.Delete(ctx, key, d.Revision); err != nil {
		return fmt.Errorf("remove %s: %w", key, err)
	}
	return nil
}
