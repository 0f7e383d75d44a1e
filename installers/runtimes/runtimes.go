// Package runtimes finds the Distribution of a version. It is the one place that knows
// which distributions there are.
package runtimes

import (
	"strings"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/plans"
)

// All are the distributions that can be provisioned.
func All() []installers.Distribution {
	return []installers.Distribution{K3s(), RKE2()}
}

// Of is the distribution of a version: one that contains "k3s" is k3s, anything else RKE2, as
// Rancher's planner has it (rancher/rancher pkg/capr/common.go).
func Of(version string) installers.Distribution {
	if strings.Contains(version, "k3s") {
		return K3s()
	}
	return RKE2()
}

// Restarted is the unit that the instructions of a plan start or restart on a host that has performed
// those of the plan before it, whichever distribution they install.
func Restarted(before, after []plans.OneTimeInstruction) (unit string, restarted bool) {
	for _, d := range All() {
		if unit, restarted := d.Restarted(before, after); restarted {
			return unit, true
		}
	}
	return "", false
}
