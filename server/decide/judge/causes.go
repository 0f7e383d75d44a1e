// Why a host is not where its plan wants it, in words made of what its agent reports and what an
// instruction printed. What hosts say is bounded and without control characters where package plans reads it; here it is only
// put together.

package judge

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
)

// Host is what drover's agent reports of a host about the plan that it has. Of other agents nothing is known.
type Host struct {
	report plans.HostReport // empty when there is none
	unit   string
}

// Of reads the data of a plan Secret. unit is the machine's own of systemd; that of the other role, which some installers put
// on every host, is left out.
func Of(data map[string][]byte, unit string) Host {
	h := Host{unit: unit}
	h.report, _ = plans.ReadHostReport(data)
	h.report.Units = slices.DeleteFunc(slices.Clone(h.report.Units), func(u plans.UnitReport) bool { return u.Name != unit })
	return h
}

// Words are the end of a cause; empty when there is nothing to say. Of the instruction they speak only while the plan is
// applied. A static pod that crashes comes before its unit, which says nothing of it.
func (h Host) Words(applying bool) string {
	text := ""
	if applying && h.report.Instruction != "" {
		text = fmt.Sprintf("; instruction %q runs since %s", h.report.Instruction, h.report.Since.UTC().Format(time.RFC3339))
		if h.report.Output != "" {
			text += fmt.Sprintf(" and printed last: %q", h.report.Output)
		}
	}
	for _, pod := range h.report.Pods {
		text += "; " + pod.String()
	}
	for _, unit := range h.report.Units {
		text += "; " + unit.String()
	}
	return text
}

// Next is what shows more of what is not well, on the machine of that name; empty when all is.
func (h Host) Next(machine string) string {
	if next := h.NextPod(machine); next != "" || len(h.report.Units) == 0 {
		return next
	}
	return "on the host: journalctl -u " + h.unit + "; correct the cluster and apply it with --replace: a newer plan is taken as soon as the instruction waits"
}

// NextPod is Next of a static pod that crashes or does not start; empty when all is well with them.
func (h Host) NextPod(machine string) string {
	if len(h.report.Pods) == 0 {
		return ""
	}
	if h.report.Pods[0].Restarts == 0 { // it has no log
		return "on the host: agent/logs/kubelet.log in the data directory of RKE2 has more; correct the cluster and apply it with --replace"
	}
	return "drover machines logs " + machine + " --pod " + h.report.Pods[0].Name + "; correct the cluster and apply it"
}

// Down says that the machine's unit is not running, and is not being started; empty when that is not known.
func (h Host) Down() string {
	for _, u := range h.report.Units {
		if strings.HasPrefix(u.State, "inactive") || strings.HasPrefix(u.State, "failed") {
			return fmt.Sprintf("%s.service is %s", u.Name, u.State)
		}
	}
	return ""
}

// maxSkew is by how much the clock of a host may differ before that is said: certificates of a cluster that is
// made on other hosts are not valid yet, or not any more, for a clock that is off.
const maxSkew = 5 * time.Minute

// Clock says that the clock of a host is off, by the time at which it began an instruction of a plan that it got later, or
// will only have begun. delivered is when the server gave it the plan, in RFC 3339.
func (h Host) Clock(delivered string, now time.Time) string {
	given, err := time.Parse(time.RFC3339, delivered)
	if err != nil || h.report.Instruction == "" {
		return ""
	}
	way, by := "ahead of", h.report.Since.Sub(now)
	if behind := given.Sub(h.report.Since); behind > by {
		way, by = "behind", behind
	}
	if by <= maxSkew {
		return ""
	}
	return fmt.Sprintf("; the clock of the host is at least %s %s the server's: set it, and restart %s", by.Round(time.Minute), way, h.unit)
}

// failingOutput finds the instruction that failed, which is the last one of the plan that has failed output, and that.
func failingOutput(data map[string][]byte, o plans.Outcome) (name string, output []byte) {
	p, err := plans.Parse(data[plans.KeyPlan])
	if err != nil {
		return "", nil
	}
	for _, in := range slices.Backward(p.Instructions) {
		if out, ok := o.FailedOutput[in.Name]; ok {
			return in.Name, out
		}
	}
	return "", nil
}

// lastLine is the last line of an output behind a colon; empty when there is none.
func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if last == "" {
		return ""
	}
	if len(last) > 300 {
		last = last[:300] + "…"
	}
	return ": " + last
}

// tail is the end of an output, from the beginning of a line on.
func tail(b []byte, limit int) string {
	if len(b) <= limit {
		return string(b)
	}
	cut := b[len(b)-limit:]
	if i := bytes.IndexByte(cut, '\n'); i >= 0 {
		cut = cut[i+1:]
	}
	return string(cut)
}

// Member is a member of a cluster's etcd. Gone is why it is not there; empty for one that is.
type Member struct{ Name, Gone string }

// LostQuorum says that too few members are there for etcd to have its quorum, who is gone, and what to do; empty while there
// are enough, and where nothing is known of members.
func LostQuorum(members []Member) (cause, next string) {
	var gone, names, left []string
	for _, m := range members {
		if m.Gone == "" {
			left = append(left, m.Name)
			continue
		}
		names, gone = append(names, m.Name), append(gone, m.Name+" ("+m.Gone+")")
	}
	need := len(members)/2 + 1
	if len(members) == 0 || len(left) >= need {
		return "", ""
	}
	cause = fmt.Sprintf("etcd has lost its quorum: %d of its %d members have to be there, and %s", need, len(members), strings.Join(gone, ", "))
	if cause += " is gone"; len(gone) > 1 {
		cause = strings.TrimSuffix(cause, " is gone") + " are gone"
	}
	next = fmt.Sprintf("switch on %d of %s; if they do not come back, drover machines rm NAME --force --yes for each of them, and ", need-len(left), strings.Join(names, ", "))
	if len(left) == 0 {
		return cause, next + "restore a snapshot on a new host: docs/how-to/restore-a-cluster.md#all-servers-are-lost"
	}
	return cause, next + "drover snapshots restore on " + left[0] + ": docs/how-to/restore-a-cluster.md#some-servers-are-lost-and-etcd-has-no-quorum"
}
