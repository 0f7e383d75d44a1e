// The one message of a cluster, out of what was found of its machines.

package planner

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
)

// message makes the state and the message of the cluster.
func (r *round) message() {
	c := &r.cluster
	switch {
	case !r.Cluster.Deleting.IsZero():
		c.state, c.message = records.ClusterRemoving, r.removing()
		return
	case r.shut.holds():
		c.state, c.message, c.failed = r.shut.state, r.paused(r.shut.message), r.shut.failed
		return
	}
	busy, lost, active := r.busy()
	for _, m := range active {
		c.initialized = c.initialized || m.Roles.ControlPlane
	}
	switch {
	case busy != nil:
		c.state = records.ClusterProvisioning
		if c.initialized {
			c.state = records.ClusterUpdating
		}
		c.message, c.failed = r.tierMessage(busy)
		c.ready = r.API.Reachable && len(lost) == 0 && onlyWaits(busy.members)
	case r.gathers() && len(lost) == 0:
		c.state, c.ready, c.connected = records.ClusterActive, r.Cluster.Status.Ready, r.Cluster.Status.Connected
	case !r.API.Reachable && len(lost) == 0:
		c.state, c.message = records.ClusterUnavailable, "the server has no connection to the cluster: "+r.API.Cause
	case len(active) == 0 || !r.API.Reachable:
		first := max(0, slices.IndexFunc(lost, func(m *member) bool { return m.Code == string(verdict.QuorumLost) }))
		c.state, c.message = records.ClusterUnavailable, lost[first].Cause
		c.ready = r.API.Reachable && !slices.ContainsFunc(lost, func(m *member) bool { return m.Code != string(verdict.AgentLost) })
	case len(lost) > 0:
		c.state, c.ready, c.message = records.ClusterActive, true, fmt.Sprintf("non-ready %s machine(s) %s: %s", r.tiers()[r.tierOf(lost[0])].name, describeServers(lost), lost[0].Cause)
	default:
		c.state, c.ready = records.ClusterActive, true
	}
	if c.message = r.paused(c.message); r.Cluster.Paused != nil {
		if busy != nil && !r.underWay() {
			c.state = records.ClusterPaused
		}
	}
}

// gathers says that the API of a cluster that was active is not reached because the server leads for a moment only: its hosts
// still come to it, one after the other.
func (r *round) gathers() bool {
	left := r.Leading.Add(gathering).Sub(r.Now)
	if r.API.Reachable || r.Cluster.Status.State != records.ClusterActive || left <= 0 {
		return false
	}
	if r.again <= 0 || left < r.again {
		r.again = left
	}
	return true
}

// paused is a message with what a pause adds to it.
func (r *round) paused(message string) string {
	switch {
	case r.Cluster.Paused == nil:
		return message
	case message != "":
		message = "; " + message
	}
	return "CAPI cluster or RKEControlPlane is paused" + message
}

// busy are the machines of the first tier that something is still to be done on; lost are those that
// worked and do not, active those that work.
func (r *round) busy() (busy *tier, lost, active []*member) {
	for _, t := range r.tiers() {
		var open []*member
		for _, m := range t.members {
			switch {
			case m.State == records.Unavailable:
				lost = append(lost, m)
			case m.State == records.Active && m.change == nothing:
				active = append(active, m)
			case m.State == records.Active && m.change == restart && r.cluster.halted == r.Cluster.Generation:
				active = append(active, m) // it stays what it is
			default:
				open = append(open, m)
			}
		}
		if len(open) > 0 && busy == nil {
			one := t
			one.members = open
			busy = &one
		}
	}
	return busy, lost, active
}

// onlyWaits says that all of some machines work, and that nothing but the maintenance window keeps them from their change.
func onlyWaits(all []*member) bool {
	return !slices.ContainsFunc(all, func(m *member) bool { return m.State != records.Active || m.Code != string(verdict.WaitWindow) })
}

// underWay says that something has begun on a machine that is not at its end.
func (r *round) underWay() bool {
	for _, m := range r.staying {
		if m.hasPlan() && m.State != records.Active && m.State != records.Unavailable {
			return true
		}
	}
	return false
}

// tierMessage is the message of machines of a tier, failing ones first, in the form of Rancher's planner: up to three
// names, and what is waited for when it is one.
func (r *round) tierMessage(t *tier) (message string, failed bool) {
	var failing, draining, uncordoning, others []*member
	for _, m := range t.members {
		switch m.State {
		case records.Failed:
			failing = append(failing, m)
		case records.Draining:
			draining = append(draining, m)
		case records.Uncordoning:
			uncordoning = append(uncordoning, m)
		default:
			others = append(others, m)
		}
	}
	detail := func(all []*member, text string) string {
		if len(all) != 1 || text == "" {
			return describeServers(all)
		}
		return describeServers(all) + ": " + text
	}
	switch {
	case len(failing) > 0:
		return fmt.Sprintf("failing %s machine(s) %s", t.name, detail(failing, failing[0].Cause)), true
	case len(draining) > 0:
		return fmt.Sprintf("draining %s node(s) %s", t.name, detail(draining, draining[0].Cause)), false
	case len(uncordoning) > 0:
		return fmt.Sprintf("uncordoning %s node(s) %s", t.name, detail(uncordoning, uncordoning[0].Cause)), false
	}
	return fmt.Sprintf("configuring %s node(s) %s", t.name, detail(others, others[0].status)), false
}

// removing is the message of a cluster that is uninstalled.
func (r *round) removing() string {
	for _, m := range r.members {
		if !m.remove {
			return fmt.Sprintf("waiting for machine [%s] to delete: %s", m.Name, m.Cause)
		}
	}
	return ""
}
