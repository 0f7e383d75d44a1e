// What becomes of a registration: a pure decision over the machine as it is and what
// the host asks for.

package registration

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/records"
)

// verdict is what becomes of a machine that registers again.
type verdict struct {
	// machine is the machine as it shall be stored, its token aside.
	machine records.Machine
	// applied and kept say what the host asked to change, each as "labels a=b -> a=c".
	applied, kept []string
	// refused says that the host must not go on as if it had what it asked for.
	refused bool
}

// weigh decides about a host that registers again in the cluster it is in. The rule:
//
//   - Until a plan was delivered, nothing stands on the host yet, and the newest
//     registration counts, whole: roles, node name, addresses, labels and taints
//     become what it says. What changed is told.
//   - Afterwards the host stays what it is, since a runtime takes these only when its
//     node registers. What a registration leaves out then says nothing: an upgrade
//     registers again with fewer headers, without roles too.
//   - Other roles than the machine has are refused: the host would come up as
//     something else than its owner typed. Nothing changes, no token is issued.
//   - Another node name, address, label, taint or operating system is kept as it was,
//     and told; the registration itself succeeds.
//   - A registration that asks for nothing new always succeeds, and ends an earlier complaint.
func weigh(m records.Machine, delivered bool, asked request) verdict {
	if !delivered {
		next := apply(m, asked)
		next.Refused = ""
		return verdict{machine: next, applied: differences(m, next)}
	}
	wish := apply(m, asked.completedBy(m))
	v := verdict{machine: m, kept: differences(m, wish), refused: wish.Roles != m.Roles}
	v.machine.Refused = strings.Join(v.kept, "; ")
	return v
}

// apply is the machine with all that the host asks for.
func apply(m records.Machine, asked request) records.Machine {
	m.Roles, m.OS, m.NodeName = asked.roles, asked.os, asked.nodeName
	m.Address, m.InternalAddress = asked.address, asked.internalAddress
	m.NodeLabels, m.NodeTaints = asked.labels, asked.taints
	return m
}

// completedBy fills what the request leaves out from the machine. Of a list of labels
// each one left out counts as left out, since the flags of labels are given one by one.
func (q request) completedBy(m records.Machine) request {
	if q.roles == (records.Roles{}) {
		q.roles = m.Roles
	}
	if _, said := q.labels[labelOS]; !said {
		q.os = m.OS
	}
	if q.nodeName == "" {
		q.nodeName = m.NodeName
	}
	if len(q.address) == 0 {
		q.address = m.Address
	}
	if len(q.internalAddress) == 0 {
		q.internalAddress = m.InternalAddress
	}
	labels := maps.Clone(m.NodeLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, q.labels)
	q.labels = labels
	if len(q.taints) == 0 {
		q.taints = m.NodeTaints
	}
	return q
}

// differences lists what is not the same in two states of a machine.
func differences(old, new records.Machine) []string {
	var all []string
	add := func(what, from, to string) {
		if from != to {
			all = append(all, fmt.Sprintf("%s %s -> %s", what, orNone(from), orNone(to)))
		}
	}
	add("roles", old.Roles.String(), new.Roles.String())
	add("node name", old.NodeName, new.NodeName)
	add("address", strings.Join(old.Address, ","), strings.Join(new.Address, ","))
	add("internal address", strings.Join(old.InternalAddress, ","), strings.Join(new.InternalAddress, ","))
	add("operating system", old.OS, new.OS)
	add("labels", labelText(old.NodeLabels), labelText(new.NodeLabels))
	add("taints", taintText(old.NodeTaints), taintText(new.NodeTaints))
	return all
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func labelText(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return strings.Join(all, ",")
}

func taintText(taints []records.Taint) string {
	var all []string
	for _, t := range taints {
		all = append(all, t.Key+"="+t.Value+":"+t.Effect)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
