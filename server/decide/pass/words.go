// How machines, hosts and versions are named in sentences.

package pass

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/report"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

// TimeFormat is that of times in sentences.
const TimeFormat = "2006-01-02T15:04:05Z07:00"

// Canonical is the same text for the same drain options, which hooks have to write.
func Canonical(options clusterspec.DrainOptions) string {
	text, err := json.Marshal(options)
	if err != nil {
		return "" // a value of numbers, texts and booleans
	}
	return string(text)
}

// NamesOf are machines as a cause names them, with their nodes, by which people may know them; at most three.
func NamesOf(all []*Member) string {
	var names []string
	for _, m := range all {
		names = append(names, WithNode(m.Machine))
	}
	return ThreeOf(names)
}

// WithNode is the name of a machine, with that of its node where that is another one.
func WithNode(m Machine) string {
	if node := nodeName(m); node != "" {
		return m.Name + " (" + node + ")"
	}
	return m.Name
}

// nodeName is the name of a machine's node, or the one that was asked for; empty where it is the machine's own, or not
// known.
func nodeName(m Machine) string {
	name := cmp.Or(m.NodeName, m.Hostname)
	if m.Status.Node != nil {
		name = m.Status.Node.Name
	}
	if name == m.Name {
		return ""
	}
	return name
}

// DescribeServers are machines as Rancher's messages name them, at most three.
func DescribeServers(all []*Member) string {
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
	}
	return ThreeOf(names)
}

// ThreeOf names up to three and counts the others, as Rancher's messages do.
func ThreeOf(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ",")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ","), len(names)-3)
}

// Texts that Rancher's planner shows of a machine.
const (
	statusInitial = "waiting for agent to check in and apply initial plan"
	statusApply   = "waiting for plan to be applied"
	StatusFailed  = "failure while applying plan"
	StatusKubelet = "waiting for kubelet to update"
)

// WasActive says that the machine has been Active with the plan that it has now.
func WasActive(m Machine) bool {
	return (m.Status.State == records.Active || m.Status.State == records.Unavailable || m.Status.State == records.Draining || m.Status.State == records.Uncordoning) && m.Status.Node != nil
}

// DeliveredAt is when the machine got its plan, in RFC 3339; empty when that is not known.
func DeliveredAt(m Machine) string {
	if m.Secret == nil {
		return ""
	}
	return m.Secret.Annotations[AnnotationPlanUpdated]
}

// Unit is the systemd unit of the machine's node, or of its agent where it has no cluster.
func (p *Pass) Unit(m Machine) string {
	if p.Fleet != nil {
		return "rancher-system-agent"
	}
	return p.Distribution.Unit(m.IsServer())
}

// LookAtHost is what a person runs to see why a host that worked does not.
func (p *Pass) LookAtHost(m Machine) string {
	return fmt.Sprintf("on the host: systemctl status rancher-system-agent %s; journalctl -u %s", p.Unit(m), p.Unit(m))
}

// StatusOf is the text of a machine that has not applied its plan.
func StatusOf(r report.Report) string {
	if !r.Applied {
		return statusInitial
	}
	return statusApply
}

// Presence says whether an agent is connected, and since when it is not.
func Presence(p observed.Presence) string {
	since := p.Since.UTC().Format(time.RFC3339)
	switch {
	case p.Connected:
		return "its agent is connected" // since when is not known: a watch that is opened again at once counts as the old one
	case !p.Since.IsZero():
		return "its agent is gone since " + since
	default:
		return "its agent has not connected"
	}
}

// DescribeHost names a machine with its node, where that has another name, and, where known, the address people find
// it at.
func DescribeHost(m Machine) string {
	known := []string{}
	if node := nodeName(m); node != "" {
		known = append(known, node)
	}
	if addresses := append(slices.Clone(m.InternalAddress), m.Address...); len(addresses) > 0 {
		known = append(known, addresses[0])
	}
	if len(known) == 0 {
		return m.Name
	}
	return fmt.Sprintf("%s (%s)", m.Name, strings.Join(known, ", "))
}

// ShortPlan is the beginning of the delivered plan's checksum.
func ShortPlan(data map[string][]byte) string {
	return plans.Short(plans.Checksum(data[plans.KeyPlan]))
}

// SameVersion compares major, minor and patch; distributions write their suffix in different ways.
func SameVersion(a, b string) bool {
	x, _, _ := strings.Cut(a, "+")
	y, _, _ := strings.Cut(b, "+")
	return x == y
}

// Annotations of the plan Secret that belong to a delivery.
const (
	AnnotationPlanUpdated  = "rke.cattle.io/plan-last-updated"
	AnnotationProbesPassed = "rke.cattle.io/plan-probes-passed"
)

// AreOrIs is the verb for some machines.
func AreOrIs(all []*Member) string {
	if len(all) == 1 {
		return "is"
	}
	return "are"
}
