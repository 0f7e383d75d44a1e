// What is ordered on nodes: pods leave before a machine changes, and come back; labels and taints that were changed after a machine
// joined are given through the cluster's API, without a restart.

package rollout

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/judge"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/records"
)

// Drains says whether pods leave the machine before its change, and how. A change of what needs no drain
// (labels, where to join) does without, as does a node that does not work: nothing there answers an eviction.
func Drains(p *pass.Pass, m *pass.Member, t pass.Tier) (clusterspec.DrainOptions, bool) {
	if t.Drain == nil || m.Node == nil || !m.Node.Ready || p.Healing(m) && m.Next.Drain == nil {
		return clusterspec.DrainOptions{}, false
	}
	was, is := m.DrainHashes[0], m.DrainHashes[1]
	options := *t.Drain
	hooks := len(options.PreDrainHooks)+len(options.PostDrainHooks) > 0
	if len(p.Members) == 1 {
		options.Enabled = false // its pods have nowhere to go
	}
	return options, was != "" && was != is && (options.Enabled || hooks)
}

// drained says that the pods have left; until then it orders that, and says how far it is.
func drained(p *pass.Pass, m *pass.Member, options clusterspec.DrainOptions) bool {
	text := pass.Canonical(options)
	if m.Next.Drain == nil || m.Next.Drain.Options != text && !m.Next.Drain.Done {
		wasCordoned := m.Details.Cordoned
		if m.Next.Drain != nil {
			wasCordoned = m.Next.Drain.WasCordoned
		}
		m.Next.Drain = &records.Drain{ID: "drain-" + p.Now.UTC().Format("20060102T150405.000"), Since: p.Now, WasCordoned: wasCordoned, Options: text}
	}
	drain := *m.Next.Drain
	m.Next.Drain, drain.Generation = &drain, p.Cluster.Generation
	if drain.Done = drain.Done || m.Work.Order == drain.ID && m.Work.Done; drain.Done {
		return true
	}
	order := pass.NodeOrder{ID: drain.ID, Machine: m.MachineKey(), UID: m.UID, Node: m.Node.Name, Cordon: true, Value: text}
	for _, h := range options.PreDrainHooks {
		order.PreHooks = append(order.PreHooks, h.Annotation)
	}
	if options.Enabled {
		order.Drain = &options
	}
	m.Order = &order
	m.Condition = judge.Working(p, m, records.Draining, drain.ID, catalogue.Draining, catalogue.DrainHook, "to be drained")
	m.Text = "draining node"
	return false
}

// uncordon lets pods come back to machines that are through with their change, unless a user had
// cordoned the node before.
func uncordon(p *pass.Pass) {
	if p.Gate.Shut() {
		return
	}
	for _, m := range p.Staying {
		drain := m.Next.Drain
		if drain == nil || m.State != records.Active || m.Deliver != nil || m.Order != nil || m.Node == nil {
			continue
		}
		id := "uncordon-" + drain.ID
		var options clusterspec.DrainOptions
		_ = json.Unmarshal([]byte(drain.Options), &options) // it was written by canonical
		if m.Work.Order == id && m.Work.Done || drain.WasCordoned && len(options.PostDrainHooks) == 0 {
			m.Next.Drain = nil
			continue
		}
		order := pass.NodeOrder{ID: id, Machine: m.MachineKey(), UID: m.UID, Node: m.Node.Name, Uncordon: !drain.WasCordoned, Value: drain.Options}
		for _, h := range options.PostDrainHooks {
			order.PostHooks = append(order.PostHooks, h.Annotation)
		}
		m.Order = &order
		m.Condition = judge.Working(p, m, records.Uncordoning, id, catalogue.Uncordoning, catalogue.UncordonHook, "to take pods again")
		m.Text = "waiting for uncordon to finish"
	}
}

// Labels orders what nodes lack of their machines' labels and taints. What was given once and is not changed since is left
// to the cluster's people.
func labels(p *pass.Pass) {
	if !p.API.Reachable || p.Gate.Shut() {
		return
	}
	for _, m := range p.Staying {
		if _, seen := p.API.Details[m.UID]; !seen || m.State != records.Active || m.Order != nil || m.Deliver != nil {
			continue
		}
		if m.Next.Given == nil {
			m.Next.Given = given(m) // the node registered with them
			continue
		}
		if maps.Equal(m.Next.Given.Labels, m.NodeLabels) && slices.Equal(m.Next.Given.Taints, m.NodeTaints) {
			continue
		}
		order := pass.NodeOrder{Machine: m.MachineKey(), UID: m.UID, Node: m.Node.Name, Labels: m.NodeLabels}
		for key := range m.Next.Given.Labels {
			if _, still := m.NodeLabels[key]; !still {
				order.Unlabel = append(order.Unlabel, key)
			}
		}
		slices.Sort(order.Unlabel)
		order.Taints = without(m.NodeTaints, m.Next.Given.Taints)
		order.Untaint = without(m.Next.Given.Taints, m.NodeTaints)
		order.ID = "labels-" + plans.Short(plans.Checksum([]byte(describeGiven(given(m)))))
		if m.Work.Order == order.ID && m.Work.Done {
			m.Next.Given = given(m)
			continue
		}
		m.Order = &order
	}
}

func given(m *pass.Member) *records.Given {
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
