// Secrets and ConfigMaps that clusters refer to: what a pass sees of them, how documents change them, and which
// clusters a change concerns.

package clusters

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/objects"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/references"
	"github.com/drover-project/drover/server/store"
)

// objects are those that a cluster refers to and may use, by their keys, with a text that differs whenever they do. Given ones are
// taken instead of the stored ones.
func (c *Controller) objects(cluster records.Cluster, given []objects.Object) (found map[string]objects.Object, version string) {
	var revisions strings.Builder
	found = references.Of(cluster, references.Stored(c.State, given...))
	for _, key := range slices.Sorted(maps.Keys(found)) {
		d, _ := c.State.Objects.Get(key)
		fmt.Fprintf(&revisions, "%s@%d ", key, d.Revision)
	}
	return found, revisions.String()
}

// objectChanged queues the clusters that refer to a Secret or ConfigMap.
func (c *Controller) objectChanged(e store.Event[objects.Object], q reconcile.Queue) {
	for _, d := range c.State.Clusters.List() {
		if slices.Contains(d.Value.Spec.Objects(d.Value.Namespace), e.Key) {
			q.Hurry(d.Key)
		}
	}
}

// write is what becomes of Secrets and ConfigMaps, and the writes, beside the results of clusters that are made with them.
func (a *Applier) write(all []references.Writing, clusters []Result) (results []Result, ops []store.Op) {
	made := map[string]string{}
	for _, r := range clusters {
		if r.Action == Created {
			made[r.Name] = r.ID
		}
	}
	for _, w := range all {
		result := Result{Kind: w.Value.Kind, Namespace: w.Value.Namespace, Name: w.Value.Name, Action: Unchanged}
		if w.Changed {
			if result.Action = Created; w.Revision != 0 {
				result.Action = Configured
			}
			ops = append(ops, w.Write(a.State, made))
		}
		if text := references.Unbound(w.Value); text != "" {
			result.Warnings = []string{text}
		}
		results = append(results, result)
	}
	return results, ops
}
