// What wakes the controller from outside the store.

package clusters

import "github.com/drover-project/drover/server/records"

// WatchChanged looks at a cluster again when the agent of a plan Secret came or went.
func (c *Controller) WatchChanged(secretKey string, _ bool) {
	if d, ok := c.State.PlanSecrets.Get(secretKey); ok {
		c.queue.add(d.Value.Cluster())
	}
}

// TunnelChanged looks at a cluster of Docker hosts again when one of its tunnels came or went.
func (c *Controller) TunnelChanged(subject records.Subject, _ bool) {
	if d, ok := c.State.Machines.Get(string(subject.Machine())); ok && d.Value.Docker != nil {
		c.queue.add(d.Value.Cluster())
	}
}
