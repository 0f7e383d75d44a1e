// What pages draw of a cluster: its machines by tier, the members of its etcd, and its operations over
// time. Each picture is a value made of others, which templates draw; what it says by a colour it says in words, too.

package ui

import (
	"cmp"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/views"
)

// Tone is what a state means: good, bad, work, or rest for what waits for people or has ended.
func Tone(state string) string {
	switch state {
	case string(records.ClusterActive), string(operations.Succeeded), string(records.Active), string(records.Connected):
		return "good"
	case string(records.ClusterError), string(records.ClusterUnavailable), string(operations.Failed), string(records.Failed), string(records.Unavailable), string(records.Disconnected):
		return "bad"
	case "", string(records.ClusterPending), string(records.ClusterExported), string(records.ClusterPaused), string(records.ClusterRemoving), string(operations.Queued),
		string(operations.Aborted), string(operations.TaskSkipped), string(records.Removing), string(records.Registering):
		return "rest"
	}
	return "work"
}

// mark is a sign for a tone, for those who cannot tell colours apart.
func mark(tone string) string {
	switch tone {
	case "good":
		return "●"
	case "bad":
		return "▲"
	case "work":
		return "◐"
	}
	return "○"
}

// compareStates has what is not well first.
func compareStates(a, b string) int {
	order := map[string]int{"bad": 0, "work": 1, "rest": 2, "good": 3}
	return cmp.Or(cmp.Compare(order[Tone(a)], order[Tone(b)]), strings.Compare(a, b))
}

// Host is what people call a machine: its node, or its host.
func Host(m apitypes.Machine) string {
	if m.Node != nil && m.Node.Name != "" {
		return m.Node.Name
	}
	return cmp.Or(m.NodeName, m.Hostname, m.Name)
}

// Causes are those of a cluster or a machine: First those that stand by themselves, and Below those of machines that wait for others.
type Causes struct {
	apitypes.Why
	First, Below []cause
}

// cause is one with whether who looks may read logs on its host.
type cause struct {
	apitypes.Cause
	MayRead bool
	// Lines is how many of the last lines of a log are asked for.
	Lines int
}

// causesOf are those of a tree.
func causesOf(w apitypes.Why, mayRead bool) Causes {
	shown := func(all []apitypes.Cause) []cause {
		var causes []cause
		for _, c := range all {
			causes = append(causes, cause{Cause: c, MayRead: mayRead, Lines: views.CauseLines})
		}
		return causes
	}
	first, below := views.Tree(w)
	return Causes{Why: w, First: shown(first), Below: shown(below)}
}
