// Labels and taints that were changed after a machine joined: its node gets them through the cluster's API, without
// a restart.

package planner

import (
	"maps"
	"slices"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/records"
)

// labels orders what nodes lack of their machines' labels and taints. What was given once and is not changed since is left
// to the cluster's people.
func (r *round) labels() {
	if !r.API.Reachable || r.shut.holds() {
		return
	}
	for _, m := range r.staying {
		if _, seen := r.API.Details[m.UID]; !seen || m.State != records.Active || m.order != nil || m.deliver != nil {
			continue
		}
		if m.next.given == nil {
			m.next.given = given(m) // the node registered with them
			continue
		}
		if maps.Equal(m.next.given.Labels, m.NodeLabels) && slices.Equal(m.next.given.Taints, m.NodeTaints) {
			continue
		}
		order := NodeOrder{Machine: m.key(), UID: m.UID, Node: m.node.Name, Labels: m.NodeLabels}
		for key := range m.next.given.Labels {
			if _, still := m.NodeLabels[key]; !still {
				order.Unlabel = append(order.Unlabel, key)
			}
		}
		slices.Sort(order.Unlabel)
		order.Taints = without(m.NodeTaints, m.next.given.Taints)
		order.Untaint = without(m.next.given.Taints, m.NodeTaints)
		order.ID = "labels-" + plans.Short(plans.Checksum([]byte(describeGiven(given(m)))))
		if m.Work.Order == order.ID && m.Work.Done {
			m.next.given = given(m)
			continue
		}
		m.order = &order
	}
}

func given(m *member) *records.Given {
	return &records.Given{Labels: m.NodeLabels, Taints: m.NodeTaints}
}

// describeGiven is the same text for the same labels and taints.
func describeGiven(g *records.Given) string {
	text := ""
	for _, key := range slices.Sorted(maps.Keys(g.Labels)) {
		text += key + "=" + g.Labels[key] + "\n"
	}
	for _, t := range g.Taints {
		text += t.Key + "=" + t.Value + ":" + t.Effect + "\n"
	}
	return text
}

// without are those of all that are not among some.
func without(all, some []records.Taint) []records.Taint {
	return slices.DeleteFunc(slices.Clone(all), func(t records.Taint) bool { return slices.Contains(some, t) })
}
