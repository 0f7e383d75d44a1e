// The members of a cluster's etcd, and whether enough of them are well.

package ui

import (
	"cmp"
	"fmt"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

// standing is what a machine with etcd is to the etcd of its cluster.
type standing string

// The standings.
const (
	well    standing = "well"
	unwell  standing = "not healthy"
	unknown standing = "not known whether it is well"
	outside standing = "has not joined"
)

// Member is a machine with the role etcd.
type Member struct {
	// ID is its key, Name what people call it, and State that of the machine.
	ID, Name, State string
	Standing        standing
}

// Tone is what its standing means.
func (m Member) Tone() string {
	return map[standing]string{well: "good", unwell: "bad", unknown: "work", outside: "rest"}[m.Standing]
}

// Evidence is what is known of the etcd on a machine.
type Evidence struct {
	// Joined says that it has joined the cluster's etcd.
	Joined bool
	// Machine is the state of the machine: of one that restarts for a change it says nothing of etcd.
	Machine records.MachineState
	// Probed says what a health question on the host came to last, of an agent that is there; nil when none was answered.
	Probed *bool
	// Voter is what the node reports of its member, and Node the node itself; both as the cluster's API shows them now, nil and
	// unknown while it cannot be asked.
	Voter observed.Voter
	Node  *records.NodeRef
}

// Standing is what follows from that, the nearest to etcd first.
func (e Evidence) Standing() standing {
	switch {
	case !e.Joined:
		return outside
	case e.Probed != nil && *e.Probed:
		return well
	case e.Probed != nil, e.Voter == observed.VoterLearner, e.Node != nil && !e.Node.Ready:
		return unwell
	case e.Node != nil, e.Machine == records.Active:
		return well
	case e.Machine == records.Unavailable, e.Machine == records.Disconnected:
		return unwell
	}
	return unknown
}

// quorum is whether enough members of an etcd are well.
type quorum struct {
	// Told is a sentence, and Warning what is wrong with it; empty for nothing.
	Told, Warning string
}

// quorumOf is that of the machines with etcd.
func quorumOf(machines []Member) quorum {
	n := map[standing]int{}
	for _, m := range machines {
		n[m.Standing]++
	}
	members := n[well] + n[unwell] + n[unknown]
	need := members/2 + 1
	q := quorum{Told: "No member has joined yet."}
	if members > 0 {
		q.Told = fmt.Sprintf("%d of %s; %d %s.", n[well], plural(members, "member is well", "members are well"), need, plainPlural(need, "has to be", "have to be"))
		if n[unknown] > 0 {
			q.Told += fmt.Sprintf(" Of %d it is not known.", n[unknown])
		}
		if n[outside] > 0 {
			q.Told += fmt.Sprintf(" %s not joined.", plural(n[outside], "machine has", "machines have"))
		}
	}
	switch {
	case members == 0:
	case n[well]+n[unknown] < need:
		q.Warning = "there is no quorum"
	case n[well] < need:
		q.Warning = "whether there is a quorum is not known"
	case members > 1 && n[well]+n[unknown] == need:
		q.Warning = "none may fail now"
	}
	return q
}

// plural is a number with what there is so many of.
func plural(n int, one, more string) string { return fmt.Sprint(n, " ", plainPlural(n, one, more)) }

func plainPlural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// CompareMembers has them by name.
func CompareMembers(a, b Member) int { return cmp.Compare(a.Name, b.Name) }
