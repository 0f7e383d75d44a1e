// Files that a machine's plan named and does not name any more: agents leave what a plan does not name where it is, so
// that the plan itself has to have them removed.

package planner

import (
	"slices"

	"github.com/drover-project/drover/plans"
)

// maxLeftovers bounds how many files one plan removes; the others stay where they are.
const maxLeftovers = 256

// removing is the wanted plan with the removal of what the delivered one wrote and it does not write, before its own
// files. What the delivered plan removes stays in it until that is done, and as long as nothing else changes: a file that
// somebody puts there later is not drover's.
func removing(delivered, wanted plans.Plan, done bool) plans.Plan {
	writes := map[string]bool{}
	for _, f := range wanted.Files {
		writes[f.Path] = true
	}
	var written, unwritten []plans.File
	for _, f := range delivered.Files {
		switch {
		case writes[f.Path] || f.Directory:
		case f.Action == plans.ActionDelete:
			unwritten = append(unwritten, f)
		default:
			written = append(written, plans.File{Path: f.Path, Action: plans.ActionDelete})
		}
	}
	same := delivered
	same.Files = slices.DeleteFunc(slices.Clone(delivered.Files), func(f plans.File) bool { return f.Action == plans.ActionDelete })
	if !done || plans.Equal(same, wanted) {
		written = append(unwritten, written...)
	}
	if len(written) > 0 {
		wanted.Files = append(written[:min(len(written), maxLeftovers)], wanted.Files...)
	}
	return wanted
}
