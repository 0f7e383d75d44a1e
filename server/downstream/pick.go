// Through which host, or whether through its agent, a cluster's API is asked. One that works is kept. After a failure the next
// one in turn is tried, so that a host whose tunnel is open and whose API is down holds
// nothing; and what each of them failed with is shown until one works.

package downstream

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/records"
)

// hosts is a watcher's memory of the control-plane hosts.
type hosts struct {
	// last is the one that was tried last; empty before the first.
	last records.Subject
	// failures are why those failed that were tried since one worked.
	failures map[records.Subject]string
}

// next is the way to be tried now: of those with an open tunnel the first one after the last, the cluster's agent
// before its hosts in the order of their names, and a host that is being removed only where there is no other. The agent is
// empty for a cluster without one.
func (h *hosts) next(agent records.Subject, staying, leaving []records.Subject, connected func(records.Subject) bool) (records.Subject, error) {
	if len(staying)+len(leaving) == 0 && agent == "" {
		return "", errNoControlPlane
	}
	var open []records.Subject
	for _, group := range [][]records.Subject{staying, leaving} {
		if open = slices.DeleteFunc(slices.Clone(group), func(s records.Subject) bool { return !connected(s) }); len(open) > 0 {
			break
		}
	}
	slices.Sort(open)
	i, _ := slices.BinarySearch(open, h.last+"\x00") // the first one after it
	if agent != "" && connected(agent) {
		open = slices.Insert(open, 0, agent)
		switch {
		case h.last == "":
			i = 0
		case h.last == agent:
			i = 1
		default:
			i++
		}
	}
	if len(open) > 0 {
		h.last = open[i%len(open)]
		return h.last, nil
	}
	if len(staying) == 0 {
		staying = leaving
	}
	return "", &NoTunnelError{Agent: agent != "", Machines: staying}
}

// worked forgets failures.
func (h *hosts) worked() { h.failures = nil }

// failed remembers why the last one failed, and returns an error that has what all those
// failed with that would be tried again, in the order of their names.
func (h *hosts) failed(err error, tried func(records.Subject) bool) error {
	if _, ok := errors.AsType[*NoTunnelError](err); ok || errors.Is(err, errNoControlPlane) {
		h.failures = nil
		return err
	}
	if h.failures == nil {
		h.failures = map[records.Subject]string{}
	}
	h.failures[h.last] = err.Error()
	var texts []string
	for _, subject := range slices.Sorted(maps.Keys(h.failures)) {
		if subject != h.last && !tried(subject) {
			delete(h.failures, subject)
			continue
		}
		texts = append(texts, h.failures[subject])
	}
	if len(texts) < 2 {
		return err
	}
	return errors.New(strings.Join(texts, "; "))
}

// controlPlanes are the machines through which a cluster's API may be reached, and those of
// them that are being removed. One that waits for its first plan serves no API, and is among
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
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hosts.next(agent, staying, leaving, w.clusters.hasTunnel)
}

// others says whether there is a way to the API beside that one.
func (w *watcher) others(than records.Subject) bool {
	staying, leaving := w.clusters.controlPlanes(w.key)
	all := append(slices.Concat(staying, leaving), w.clusters.agentOf(w.key))
	return slices.ContainsFunc(all, func(s records.Subject) bool { return s != "" && s != than && w.clusters.hasTunnel(s) })
}

// failed is what is shown after a failure.
func (w *watcher) failed(err error) error {
	staying, leaving := w.clusters.controlPlanes(w.key)
	agent := w.clusters.agentOf(w.key)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hosts.failed(err, func(s records.Subject) bool {
		return w.clusters.hasTunnel(s) && (s == agent || slices.Contains(staying, s) || slices.Contains(leaving, s))
	})
}

func (c *Clusters) hasTunnel(subject records.Subject) bool {
	_, ok := c.Hosts.Connected(subject)
	return ok
}
