// What becomes of a registration: a pure decision over the machine as it is and what
// the host asks for.

package registration

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/records"
)

// requestVerdict is what becomes of a machine that registers again.
type requestVerdict struct {
	// Machine is the machine as it shall be stored, its token aside.
	Machine records.Machine
	// Applied and Kept say what the host asked to change, each as "labels a=b -> a=c".
	Applied, Kept []string
	// Refused says that the host must not go on as if it had what it asked for.
	Refused bool
}

// weighRequest decides about a host that registers again in the cluster it is in. The rule:
//
//   - Until a plan was delivered, nothing stands on the host yet, and the newest
//     registration counts, whole: roles, node name, addresses, labels and taints
//     become what it says. What changed is reported.
//   - Afterwards the host stays what it is, since a runtime takes these only when its
//     node registers. What a registration leaves out then says nothing: an upgrade
//     registers again with fewer headers, without roles too. Labels and taints are
//     taken: the node gets them through the cluster's API.
//   - Other roles than the machine has are refused: the host would come up as
//     something else than its owner typed. Nothing changes, no token is issued.
//   - Another node name, address or operating system is kept as it was,
//     and reported; the registration itself succeeds.
//   - A registration that asks for nothing new always succeeds, and ends an earlier complaint.
func weighRequest(m records.Machine, delivered bool, asked hostRequest) requestVerdict {
	if !delivered {
		next := applyRequest(m, asked)
		next.Refused = ""
		return requestVerdict{Machine: next, Applied: differences(m, next)}
	}
	wanted := applyRequest(m, asked.completedBy(m))
	if wanted.Roles != m.Roles {
		v := requestVerdict{Machine: m, Kept: differences(m, wanted), Refused: true}
		v.Machine.Refused = strings.Join(v.Kept, "; ")
		return v
	}
	next := m
	next.NodeLabels, next.NodeTaints, next.Hostname = wanted.NodeLabels, wanted.NodeTaints, wanted.Hostname
	v := requestVerdict{Machine: next, Applied: differences(m, next), Kept: differences(next, wanted)}
	v.Machine.Refused = strings.Join(v.Kept, "; ")
	return v
}

// applyRequest is the machine with all that the host asks for.
func applyRequest(m records.Machine, asked hostRequest) records.Machine {
	m.Roles, m.OS, m.NodeName, m.Hostname = asked.Roles, asked.OS, asked.NodeName, cmp.Or(asked.Hostname, m.Hostname)
	m.Address, m.InternalAddress = asked.Address, asked.InternalAddress
	m.NodeLabels, m.NodeTaints = asked.Labels, asked.Taints
	return m
}

// completedBy fills what the request leaves out from the machine. Of a list of labels
// each one left out counts as left out, since the flags of labels are given one by one.
func (q hostRequest) completedBy(m records.Machine) hostRequest {
	if q.Roles == (records.Roles{}) {
		q.Roles = m.Roles
	}
	if _, said := q.Labels[labelOS]; !said {
		q.OS = m.OS
	}
	q.NodeName = cmp.Or(q.NodeName, m.NodeName)
	if len(q.Address) == 0 {
		q.Address = m.Address
	}
	if len(q.InternalAddress) == 0 {
		q.InternalAddress = m.InternalAddress
	}
	labels := maps.Clone(m.NodeLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, q.Labels)
	q.Labels = labels
	if len(q.Taints) == 0 {
		q.Taints = m.NodeTaints
	}
	return q
}

// differences lists what is not the same in two states of a machine.
func differences(old, next records.Machine) []string {
	var all []string
	add := func(what, from, to string) {
		if from != to {
			all = append(all, fmt.Sprintf("%s %s -> %s", what, orNone(from), orNone(to)))
		}
	}
	add("roles", old.Roles.String(), next.Roles.String())
	add("node name", old.NodeName, next.NodeName)
	add("address", strings.Join(old.Address, ","), strings.Join(next.Address, ","))
	add("internal address", strings.Join(old.InternalAddress, ","), strings.Join(next.InternalAddress, ","))
	add("operating system", old.OS, next.OS)
	add("labels", labelText(old.NodeLabels), labelText(next.NodeLabels))
	add("taints", taintText(old.NodeTaints), taintText(next.NodeTaints))
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
