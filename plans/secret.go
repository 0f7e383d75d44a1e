// The data keys of the plan Secret, decoded: what the server asks (Delivery) and
// what the agent answers (Outcome). Both sides keep keys they do not know.

package plans

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Keys of the plan Secret's data. Source: rancher/system-agent pkg/k8splan, rancher/rancher pkg/plan.
const (
	KeyPlan                  = "plan"                    // server: the plan's bytes
	KeyPlanState             = "plan-state"              // server: pending, cancelled; agent: the rest
	KeyPlanRevision          = "plan-revision"           // agent: +1 each time it takes a pending plan
	KeyMaxFailures           = "max-failures"            // server: legacy flow only
	KeyFailureThreshold      = "failure-threshold"       // server, for itself
	KeyProbePeriodSeconds    = "probe-period-seconds"    // server
	KeyAppliedChecksum       = "applied-checksum"        // agent
	KeyAppliedOutput         = "applied-output"          // agent
	KeyAppliedPeriodicOutput = "applied-periodic-output" // agent
	KeyFailedChecksum        = "failed-checksum"         // agent
	KeyFailedOutput          = "failed-output"           // agent
	KeyFailureCount          = "failure-count"           // agent
	KeySuccessCount          = "success-count"           // agent
	KeyLastApplyTime         = "last-apply-time"         // agent
	KeyProbeStatuses         = "probe-statuses"          // agent; the server deletes it with each new plan
	KeyAppliedPlan           = "appliedPlan"             // server: copy of plan once applied
	KeyHostReport            = "host-report"             // drover's agent; the server deletes it with each new plan
)

// FailureOutput is the name under which drover's agent reports, beside the output of the
// instruction that failed, why a plan could not be applied: its first line is one
// sentence, about bad content, a file that cannot be written, an image that cannot be
// fetched, or an instruction and its exit code. Output of a failing instruction that has
// no name follows it.
const FailureOutput = "drover-failure"

// agentKeys are the keys that an agent writes. plan-state is among them: see MayMove.
var agentKeys = []string{
	KeyPlanState, KeyPlanRevision, KeyAppliedChecksum, KeyAppliedOutput, KeyAppliedPeriodicOutput, KeyFailedChecksum,
	KeyFailedOutput, KeyFailureCount, KeySuccessCount, KeyLastApplyTime, KeyProbeStatuses, KeyHostReport,
}

// AgentKeys lists the data keys that an agent may write; all others belong to the server.
func AgentKeys() []string { return slices.Clone(agentKeys) }

// DefaultProbePeriod is how often probes are asked when the Secret does not say.
const DefaultProbePeriod = 5 * time.Second

// Unlimited as MaxFailures or FailureThreshold means that failures never end the attempts.
const Unlimited = -1

// Delivery is the server's part of a plan Secret.
type Delivery struct {
	// Plan is the plan's exact bytes; empty when the server has not decided yet.
	Plan []byte
	// State is where this delivery stands; StateNone selects the legacy flow.
	State State
	// MaxFailures ends the attempts of the legacy flow; Unlimited never.
	MaxFailures int
	// FailureThreshold is from how many failures on the server calls a legacy plan failed.
	FailureThreshold int
	// ProbePeriod is the distance between two rounds of probes.
	ProbePeriod time.Duration
}

// ReadDelivery decodes the server's keys. Numbers that cannot be read count as
// absent, as they do for the original; a probe period below one second too, as a
// period of zero would make the agent spin.
func ReadDelivery(data map[string][]byte) Delivery {
	d := Delivery{
		Plan:             data[KeyPlan],
		State:            State(data[KeyPlanState]),
		MaxFailures:      number(data[KeyMaxFailures], Unlimited),
		FailureThreshold: number(data[KeyFailureThreshold], 1),
		ProbePeriod:      DefaultProbePeriod,
	}
	if n := number(data[KeyProbePeriodSeconds], 0); n > 0 {
		d.ProbePeriod = secondsOr(n, 0)
	}
	return d
}

// Checksum is the checksum of the delivered plan.
func (d Delivery) Checksum() string { return Checksum(d.Plan) }

// Deliver writes a new plan into the data of a Secret in the one form that both
// agent generations understand: content, state and a clean slate for the probes in one update.
func Deliver(data map[string][]byte, plan []byte) map[string][]byte {
	next := maps.Clone(data)
	if next == nil {
		next = map[string][]byte{}
	}
	next[KeyPlan] = plan
	next[KeyPlanState] = []byte(StatePending)
	next[KeyMaxFailures] = []byte(strconv.Itoa(Unlimited))
	next[KeyFailureThreshold] = []byte("1")
	delete(next, KeyProbeStatuses)
	delete(next, KeyHostReport)
	// What an earlier delivery failed at would make this one look failed before it began.
	for key, clean := range map[string]string{KeyFailedChecksum: "", KeyFailedOutput: "", KeyFailureCount: "0"} {
		if _, ok := next[key]; ok {
			next[key] = []byte(clean)
		}
	}
	return next
}

// Outcome is the agent's part of a plan Secret.
type Outcome struct {
	State           State
	Revision        int // number of times a pending plan was taken
	AppliedChecksum string
	AppliedOutput   map[string][]byte
	PeriodicOutput  map[string]PeriodicOutput
	FailedChecksum  string
	FailedOutput    map[string][]byte
	FailureCount    int
	SuccessCount    int
	LastApplyTime   time.Time // resolution of one second; zero means never
	ProbeStatuses   map[string]ProbeStatus
}

// ReadOutcome decodes the agent's keys. What cannot be read is left empty and reported
// in the error, so that one bad key does not hide the others.
func ReadOutcome(data map[string][]byte) (Outcome, error) {
	o := Outcome{
		State:           State(data[KeyPlanState]),
		Revision:        number(data[KeyPlanRevision], 0),
		AppliedChecksum: string(data[KeyAppliedChecksum]),
		FailedChecksum:  string(data[KeyFailedChecksum]),
		FailureCount:    number(data[KeyFailureCount], 0),
		SuccessCount:    number(data[KeySuccessCount], 0),
		LastApplyTime:   parseTime(string(data[KeyLastApplyTime])),
	}
	var errApplied, errFailed, errPeriodic, errProbes error
	o.AppliedOutput, errApplied = DecodeOutputs(data[KeyAppliedOutput])
	o.FailedOutput, errFailed = DecodeOutputs(data[KeyFailedOutput])
	o.PeriodicOutput, errPeriodic = DecodePeriodicOutputs(data[KeyAppliedPeriodicOutput])
	o.ProbeStatuses, errProbes = DecodeProbeStatuses(data[KeyProbeStatuses])
	return o, errors.Join(
		inKey(KeyAppliedOutput, errApplied), inKey(KeyFailedOutput, errFailed),
		inKey(KeyAppliedPeriodicOutput, errPeriodic), inKey(KeyProbeStatuses, errProbes))
}

// Write encodes the outcome into the agent's keys of the data, which it changes.
// Every key is written, empty ones as empty values, as the original does. Its errors are those of the encoders.
func (o Outcome) Write(data map[string][]byte) error {
	applied, errApplied := EncodeOutputs(o.AppliedOutput)
	periodic, errPeriodic := EncodePeriodicOutputs(o.PeriodicOutput)
	probes, errProbes := EncodeProbeStatuses(o.ProbeStatuses)
	failed := []byte{}
	var errFailed error
	if len(o.FailedOutput) > 0 {
		failed, errFailed = EncodeOutputs(o.FailedOutput)
	}
	if err := errors.Join(errApplied, errPeriodic, errProbes, errFailed); err != nil {
		return err
	}
	if o.State != StateNone {
		data[KeyPlanState] = []byte(o.State)
		data[KeyPlanRevision] = []byte(strconv.Itoa(o.Revision))
	}
	data[KeyAppliedChecksum] = []byte(o.AppliedChecksum)
	data[KeyAppliedOutput] = applied
	data[KeyAppliedPeriodicOutput] = periodic
	data[KeyFailedChecksum] = []byte(o.FailedChecksum)
	data[KeyFailedOutput] = failed
	data[KeyFailureCount] = []byte(strconv.Itoa(o.FailureCount))
	data[KeySuccessCount] = []byte(strconv.Itoa(o.SuccessCount))
	data[KeyLastApplyTime] = []byte(formatTime(o.LastApplyTime))
	data[KeyProbeStatuses] = probes
	return nil
}

// MergeAgentKeys copies the agent's keys of from over those of into and returns the
// result, for a Secret that the server changed while the agent worked.
func MergeAgentKeys(into, from map[string][]byte) map[string][]byte {
	merged := maps.Clone(into)
	if merged == nil {
		merged = map[string][]byte{}
	}
	for _, key := range agentKeys {
		if v, ok := from[key]; ok {
			merged[key] = v
		}
	}
	return merged
}

func inKey(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("secret key %s: %w", key, err)
}

func number(b []byte, absent int) int {
	n, err := strconv.Atoi(string(b))
	if err != nil {
		return absent
	}
	return n
}
