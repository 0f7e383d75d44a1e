// Package report reads what came back of a machine's plan: the outcome that its agent wrote into the plan Secret, as far as decisions
// depend on it. It is the first stage of a decision, a function of the Secret's data alone.
package report

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
)

// Report is what a plan Secret says, as far as decisions depend on it.
type Report struct {
	// checksum is that of the delivered plan; empty while there is none.
	Checksum string
	State    plans.State
	// unreadable is what could not be read of the agent's report.
	Unreadable error
	// inSync says that the delivered plan was carried out, failed that it could not be.
	InSync, Failed bool
	// applied says that some plan was carried out before.
	Applied bool
	// sick are the plan's probes that are not healthy, sorted.
	Sick []string
	// job is the ID of the job in the delivered plan; empty without one.
	Job string
	// address is that of the machine's own etcd, as Announce asks for; empty when it is not reported.
	Address string
}

// Healthy says that the delivered plan was carried out and that all its probes are healthy.
func (r Report) Healthy() bool { return r.InSync && len(r.Sick) == 0 }

// Contents are what reports depend on of a delivered plan.
type Contents struct {
	checksum string
	probes   []string // sorted
	job      string
}

// ContentsOf are the contents of the wire form of a plan.
func ContentsOf(plan []byte) Contents {
	if len(plan) == 0 {
		return Contents{}
	}
	c := Contents{checksum: plans.Checksum(plan)}
	if p, err := plans.Parse(plan); err == nil {
		c.probes, c.job = slices.Sorted(maps.Keys(p.Probes)), hostjob.Of(p.Instructions)
	}
	return c
}

// Read reads the data of a plan Secret, whose plan has these contents.
func Read(data map[string][]byte, delivered Contents) Report {
	if delivered.checksum == "" {
		return Report{}
	}
	outcome, err := plans.ReadOutcome(data)
	return Report{
		Checksum: delivered.checksum, Job: delivered.job, State: outcome.State, Unreadable: err,
		InSync: inSync(outcome, data), Failed: isFailed(outcome, data), Applied: outcome.AppliedChecksum != "",
		Sick: unhealthy(delivered.probes, outcome), Address: announced(outcome),
	}
}

// announced is the address that the machine's own etcd reports of it, as its plan asks for.
func announced(o plans.Outcome) string {
	name := strings.TrimSpace(string(o.PeriodicOutput[installers.EtcdNameName].Stdout))
	var info struct {
		Members []struct {
			Name       string   `json:"name"`
			ClientURLs []string `json:"clientURLs"`
		} `json:"members"`
	}
	if name == "" || json.Unmarshal(o.PeriodicOutput[installers.AddressName].Stdout, &info) != nil {
		return ""
	}
	for _, member := range info.Members {
		if member.Name == name && len(member.ClientURLs) > 0 {
			return HostOf(member.ClientURLs[0])
		}
	}
	return ""
}

// HostOf is the host of a URL; empty when it cannot be read.
func HostOf(joinURL string) string {
	u, err := url.Parse(joinURL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// inSync says whether the delivered plan is the one that was carried out. Agents from
// before plan-state leave pending in place; for them the server's copy of the applied plan decides.
func inSync(o plans.Outcome, data map[string][]byte) bool {
	switch o.State {
	case plans.StateSucceeded:
		return true
	case plans.StatePending, plans.StateNone:
		return len(data[plans.KeyPlan]) > 0 && bytes.Equal(data[plans.KeyPlan], data[plans.KeyAppliedPlan])
	default:
		return false
	}
}

func isFailed(o plans.Outcome, data map[string][]byte) bool {
	if o.State == plans.StateFailed {
		return true
	}
	threshold := plans.ReadDelivery(data).FailureThreshold
	return o.State != plans.StateSucceeded && o.State != plans.StateInProgress && !inSync(o, data) &&
		o.FailureCount > 0 && threshold != plans.Unlimited && o.FailureCount >= threshold &&
		o.FailedChecksum == plans.Checksum(data[plans.KeyPlan])
}

// unhealthy are those of a plan's probes without a healthy status.
func unhealthy(probes []string, o plans.Outcome) []string {
	var names []string
	for _, name := range probes {
		if !o.ProbeStatuses[name].Healthy {
			names = append(names, name)
		}
	}
	return names
}
