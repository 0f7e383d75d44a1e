// Why something is not well.

package picture

import "github.com/drover-project/drover/server/views"

// Causes are those of a cluster or a machine: First those that stand by themselves, and Below those of machines that wait for others.
type Causes struct {
	views.Why
	First, Below []Cause
}

// Cause is one with whether who looks may read logs on its host.
type Cause struct {
	views.Cause
	MayRead bool
	// Lines is how many of the last lines of a log are asked for.
	Lines int
}

// CausesOf are those of a tree.
func CausesOf(w views.Why, mayRead bool) Causes {
	shown := func(all []views.Cause) []Cause {
		var causes []Cause
		for _, c := range all {
			causes = append(causes, Cause{Cause: c, MayRead: mayRead, Lines: views.CauseLines})
		}
		return causes
	}
	first, below := w.Tree()
	return Causes{Why: w, First: shown(first), Below: shown(below)}
}
