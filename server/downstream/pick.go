// Through which host, or whether through its agent, a cluster's API is asked: what there is to choose of.

package downstream

import (
	"slices"

	"github.com/drover-project/drover/server/records"
)

// controlPlanes are the machines through which a cluster's API may be reached, and those of
// them that are being removed. A server that waits for its first plan serves no API, and is among
// them only while all others wait too: a host may still have what runs on it from before.
func (c *Clusters) controlPlanes(key records.ClusterKey) (staying, leaving []records.Subject) {
	var waiting []records.Subject
	for _, d := range c.State.ControlPlanes.Find(key) {
		subject := d.Value.Subject()
		switch state := d.Value.Status.State; {
		case !d.Value.Deleting.IsZero():
			leaving = append(leaving, subject)
		case state == records.Registering, state == records.WaitingForPlan:
			waiting = append(waiting, subject)
		default:
			staying = append(staying, subject)
		}
	}
	if len(staying)+len(leaving) == 0 {
		staying = waiting
	}
	return staying, leaving
}

// pick is the way to be tried now.
func (w *watcher) pick() (records.Subject, error) {
	staying, leaving := w.clusters.controlPlanes(w.key)
	agent := w.clusters.agentOf(w.key)
	now := w.clusters.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	way, err := w.ways.Next(agent, staying, leaving, func(s records.Subject) bool { return w.ways.May(s, now) && w.clusters.hasTunnel(s) })
	if err != nil {
		if b := w.ways.Barred(append(slices.Concat(staying, leaving), agent), w.clusters.hasTunnel, now); b != nil {
			return "", b
		}
	}
	return way, err
}

// others says whether there is a way to the API beside that one.
func (w *watcher) others(than records.Subject) bool {
	staying, leaving := w.clusters.controlPlanes(w.key)
	all := append(slices.Concat(staying, leaving), w.clusters.agentOf(w.key))
	return slices.ContainsFunc(all, func(s records.Subject) bool { return s != "" && s != than && w.may(s) })
}

// may says whether a way may be tried now.
func (w *watcher) may(way records.Subject) bool {
	now := w.clusters.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ways.May(way, now) && w.clusters.hasTunnel(way)
}

// failed is what is shown after a failure.
func (w *watcher) failed(err error) error {
	staying, leaving := w.clusters.controlPlanes(w.key)
	agent := w.clusters.agentOf(w.key)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ways.Failed(err, func(s records.Subject) bool {
		return w.clusters.hasTunnel(s) && (s == agent || slices.Contains(staying, s) || slices.Contains(leaving, s))
	})
}

func (c *Clusters) hasTunnel(subject records.Subject) bool {
	_, ok := c.Hosts.Connected(subject)
	return ok
}
