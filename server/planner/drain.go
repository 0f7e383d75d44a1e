// Moving pods away before a machine changes, and letting them come back.

package planner

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
)

// drains says whether pods leave the machine before its change, and how. A change of what needs no drain
// (labels, where to join) does without, as does a node that does not work: nothing there answers an eviction.
func (r *round) drains(m *member, t tier) (clusterspec.DrainOptions, bool) {
	if t.drain == nil || m.node == nil || !m.node.Ready || r.healing(m) && m.next.drain == nil {
		return clusterspec.DrainOptions{}, false
	}
	was, is := m.drainHashes[0], m.drainHashes[1]
	options := *t.drain
	hooks := len(options.PreDrainHooks)+len(options.PostDrainHooks) > 0
	if len(r.members) == 1 {
		options.Enabled = false // its pods have nowhere to go
	}
	return options, was != "" && was != is && (options.Enabled || hooks)
}

// inDrain says that the pods of a machine leave, or have left, for the change that is wanted now. What a drain of a change
// that is not wanted any more was for has not begun.
func (r *round) inDrain(m *member) bool {
	d := m.next.drain
	return d != nil && (d.Generation == 0 || d.Generation == r.Cluster.Generation)
}

// drained says that the pods have left; until then it orders that, and says how far it is.
func (r *round) drained(m *member, options clusterspec.DrainOptions) bool {
	text := canonical(options)
	if m.next.drain == nil || m.next.drain.Options != text && !m.next.drain.Done {
		wasCordoned := m.details.Cordoned
		if m.next.drain != nil {
			wasCordoned = m.next.drain.WasCordoned
		}
		m.next.drain = &records.Drain{ID: "drain-" + r.Now.UTC().Format("20060102T150405.000"), Since: r.Now, WasCordoned: wasCordoned, Options: text}
	}
	drain := *m.next.drain
	m.next.drain, drain.Generation = &drain, r.Cluster.Generation
	if drain.Done = drain.Done || m.Work.Order == drain.ID && m.Work.Done; drain.Done {
		return true
	}
	order := NodeOrder{ID: drain.ID, Machine: m.key(), UID: m.UID, Node: m.node.Name, Cordon: true, Value: text}
	for _, h := range options.PreDrainHooks {
		order.PreHooks = append(order.PreHooks, h.Annotation)
	}
	if options.Enabled {
		order.Drain = &options
	}
	m.order = &order
	m.Condition = r.working(m, records.Draining, drain.ID, verdict.Draining, verdict.DrainHook, "to be drained")
	m.status = "draining node"
	return false
}

func canonical(options clusterspec.DrainOptions) string {
	text, err := json.Marshal(options)
	if err != nil {
		return "" // a value of numbers, texts and booleans
	}
	return string(text)
}

// working is the condition of a machine on whose node something is done.
func (r *round) working(m *member, state records.MachineState, id string, code, hook verdict.Code, what string) records.Condition {
	node := m.node.Name
	c := records.Condition{State: state, Code: string(code), WaitingFor: "node " + node + " " + what, Cause: fmt.Sprintf("node %s of %s begins %s", node, describeHost(m.Machine), what)}
	if m.Work.Order != id {
		return c
	}
	phase := m.Work.Phase
	if phase == "" {
		phase = "waiting until other nodes are done"
	}
	c.Cause = fmt.Sprintf("%s, node %s of %s, since %s", phase, node, describeHost(m.Machine), m.Work.Since.UTC().Format(timeFormat))
	if m.Work.Missing != "" {
		c.Code = string(hook)
		kind := "pre-drain"
		if m.Work.Phase == observed.PhasePostHooks {
			kind = "post-drain"
		}
		c.WaitingFor = fmt.Sprintf("annotation %s of the plan Secret of %s", m.Work.Missing, m.Name)
		c.Cause = fmt.Sprintf("waiting for %s hook %s on %s since %s", kind, m.Work.Missing, node, m.Work.Since.UTC().Format(timeFormat))
		c.NextStep = "have it write the value of annotation rke.cattle.io/" + kind + " there, or take the hook out of the cluster's upgradeStrategy"
		return c
	}
	if m.Work.Cause != "" {
		c.Cause += ": " + m.Work.Cause
	}
	if len(m.Work.Pods) > 0 {
		c.WaitingFor = "pods to leave node " + node + ": " + strings.Join(m.Work.Pods, ", ")
		c.NextStep = "see why they stay (kubectl describe pod, a PodDisruptionBudget?); or set a timeout, disableEviction or enabled: false in the drain options and apply"
	}
	return c
}

// uncordon lets pods come back to machines that are through with their change, unless somebody had
// cordoned the node before.
func (r *round) uncordon() {
	if r.shut.holds() {
		return
	}
	for _, m := range r.staying {
		drain := m.next.drain
		if drain == nil || m.State != records.Active || m.deliver != nil || m.order != nil || m.node == nil {
			continue
		}
		id := "uncordon-" + drain.ID
		var options clusterspec.DrainOptions
		_ = json.Unmarshal([]byte(drain.Options), &options) // it was written by canonical
		if m.Work.Order == id && m.Work.Done || drain.WasCordoned && len(options.PostDrainHooks) == 0 {
			m.next.drain = nil
			continue
		}
		order := NodeOrder{ID: id, Machine: m.key(), UID: m.UID, Node: m.node.Name, Uncordon: !drain.WasCordoned, Value: drain.Options}
		for _, h := range options.PostDrainHooks {
			order.PostHooks = append(order.PostHooks, h.Annotation)
		}
		m.order = &order
		m.Condition = r.working(m, records.Uncordoning, id, verdict.Uncordoning, verdict.UncordonHook, "to take pods again")
		m.status = "waiting for uncordon to finish"
	}
}
