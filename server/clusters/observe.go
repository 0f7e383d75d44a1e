// What wakes the controller from outside the store.

package clusters

import (
	"reflect"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/versions"
)

// WatchChanged looks at a cluster again when the agent of a plan Secret came or went.
func (c *Controller) WatchChanged(secretKey string, _ bool) {
	if d, ok := c.State.PlanSecrets.Get(secretKey); ok {
		c.Changed(d.Value.Cluster())
	}
}

// VersionsChanged looks again at the clusters of whose version something else is known now.
func (c *Controller) VersionsChanged(before, after *versions.Data) {
	concerned := map[string]bool{}
	for _, d := range c.State.Clusters.List() {
		version := d.Value.Spec.KubernetesVersion
		if _, looked := concerned[version]; !looked {
			was, _ := before.Permissive(version)
			is, _ := after.Permissive(version)
			concerned[version] = !reflect.DeepEqual(was, is)
		}
		if concerned[version] {
			c.Changed(records.ClusterKey(d.Key))
		}
	}
}

// TunnelChanged looks at a cluster of Docker hosts again, or at one with an agent, when one of its tunnels came or went.
func (c *Controller) TunnelChanged(subject records.Subject, _ bool) {
	if id, ok := subject.ClusterID(); ok {
		if d, ok := c.State.ClustersByID.First(id); ok {
			c.Changed(records.ClusterKey(d.Key))
		}
		return
	}
	if d, ok := c.State.Machines.Get(string(subject.Machine())); ok && d.Value.Docker != nil {
		c.Changed(d.Value.Cluster())
	}
}
