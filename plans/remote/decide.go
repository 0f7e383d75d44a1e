// What to do about a Secret. Deciding knows no clock, network or host: it is a
// function of the Secret, of what this life of the agent remembers, and of the time.

package remote

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// cooldown is the pause between two attempts at a failed plan in the legacy flow.
const cooldown = 30 * time.Second

// maxReason bounds what a status line quotes of a failure, in bytes.
const maxReason = 300

// Action is what a Secret asks of the agent.
type Action string

// The actions.
const (
	// Idle leaves host and Secret alone.
	Idle Action = "idle"
	// Take claims a pending plan in the Secret, then applies it.
	Take Action = "take"
	// Apply applies a plan without a claim: it is claimed already, or the flow knows no claims.
	Apply Action = "apply"
	// Reject reports a plan that cannot be read as failed.
	Reject Action = "reject"
	// Tend asks the probes of the plan that stands and runs its periodic instructions.
	Tend Action = "tend"
	// Withdraw takes back what an earlier life began of a plan that is now cancelled, then tends.
	Withdraw Action = "withdraw"
	// Recall reports once more how a delivery ended that the server has forgotten, as it was
	// restored from a backup. Nothing is executed.
	Recall Action = "recall"
)

// Memory is what this life of the agent knows beside the Secret.
type Memory struct {
	// UID is that of the Secret last acted on; another one is another Secret.
	UID string
	// Applied says that a plan of this Secret was applied or attempted in this life.
	Applied bool
	// Executed is the checksum of the plan last executed in this life.
	Executed string
	// Wrote is the resourceVersion that the last own write got.
	Wrote string
	// Restored is the checksum of the plan whose files were put back in this life.
	Restored string
	// Pending is what the ledger holds; its ID is empty when it holds nothing.
	Pending apply.Pending
	// Past is how the delivery that the Secret asks for ended, where the ledger is about a later
	// one already; see overtaken. Nil: that is not so, or not known.
	Past *apply.Ending
}

// Decision is what to do, and why.
type Decision struct {
	Action   Action
	Plan     *plans.Plan // parsed; nil with Reject and Idle
	Checksum string
	// ID, Attempt and Revision are of the delivery to apply. Revision is the plan-revision
	// that the Secret has once the plan is claimed; 0 in the legacy flow.
	ID       string
	Attempt  int
	Revision int
	// Confirm asks to read the Secret anew and decide again before anything is executed or taken
	// back, as this version of it may be older than what was executed already.
	Confirm bool
	// Periodic says that the plan's periodic instructions run. They do not before the plan was executed.
	Periodic bool
	// Note asks to note that the ledger's outcome is in the Secret.
	Note bool
	// Conclude asks to write down in the ledger the end of a delivery that only the Secret knows.
	Conclude bool
	// Past is, with Recall, how the delivery ended; nil: the ledger has it, below ID.
	Past *apply.Ending
	// Restore asks to put the plan's files back first where they are missing or differ.
	Restore bool
	// Fault is why a plan cannot be read.
	Fault error
	// Again is when to decide again although nothing changed; zero: never.
	Again time.Time
	// Why says in words what is waited for, for people.
	Why string
}

// Decide says what a Secret asks for; nil stands for no Secret.
func Decide(s *Secret, m Memory, now time.Time) Decision {
	if s == nil {
		return Decision{Action: Idle, Why: "the server has no plan Secret for this host"}
	}
	if m.UID != s.UID {
		m = Memory{UID: s.UID, Pending: m.Pending, Past: m.Past}
	}
	delivery := plans.ReadDelivery(s.Data)
	if len(delivery.Plan) == 0 {
		return Decision{Action: Idle, Why: "the server has not decided on a plan yet"}
	}
	// What cannot be read of an earlier outcome counts as absent; writing replaces it.
	outcome, _ := plans.ReadOutcome(s.Data)
	c := &cause{secret: s, memory: m, now: now, delivery: delivery, outcome: outcome, checksum: s.delivered().checksum}
	c.plan, c.fault = s.delivered().read()
	if delivery.State == plans.StateNone {
		return c.legacy()
	}
	return c.stateful()
}

// cause is everything that a decision stands on.
type cause struct {
	secret   *Secret
	memory   Memory
	now      time.Time
	delivery plans.Delivery
	outcome  plans.Outcome
	checksum string
	plan     *plans.Plan
	fault    error
}

// stateful is the flow with a plan-state. Only the server starts a plan again that has ended.
func (c *cause) stateful() Decision {
	switch c.delivery.State {
	case plans.StatePending:
		if d, done := c.forgotten(c.outcome.Revision + 1); done {
			return d
		}
		d := c.execute(Take, 1)
		d.Revision = max(c.outcome.Revision, c.pendingRevision()) + 1
		d.ID = c.id(d.Revision)
		return d
	case plans.StateInProgress:
		if d, done := c.forgotten(c.outcome.Revision); done {
			return d
		}
		d := c.execute(Apply, c.failures()+1)
		d.Revision = c.outcome.Revision
		d.ID, d.Confirm = c.running(d.Revision)
		return d
	case plans.StateCancelled:
		d := c.tend("the plan was cancelled")
		if p := c.memory.Pending; p.ID != "" && !p.Finished {
			d.Action, d.Confirm = Withdraw, true
		}
		return d
	case plans.StateFailed:
		return c.known(c.tend("the plan failed" + c.reason() + "; the server starts it again"))
	case plans.StateSucceeded:
		d := c.tend("")
		d.Restore = c.plan != nil && c.outcome.AppliedChecksum == c.checksum &&
			c.memory.Executed != c.checksum && c.memory.Restored != c.checksum
		return c.known(d)
	}
	return c.tend(fmt.Sprintf("the plan has the state %.40q, which means nothing to this agent", c.delivery.State))
}

// legacy is the flow of servers that know no plan-state: checksums say what is done.
func (c *cause) legacy() Decision {
	pending := c.memory.Pending
	failed := c.failures() > 0
	reported := failed || c.outcome.AppliedChecksum == c.checksum
	// What the ledger finished and was not reported is reported, not done again.
	unreported := !reported && c.memory.Executed != c.checksum
	ours := strings.HasPrefix(pending.ID, c.secret.UID+"/") && pending.Checksum == c.checksum
	resumable := ours && (!pending.Finished || unreported)
	d := c.execute(Apply, c.failures()+1)
	d.ID = fmt.Sprintf("%s/%s/%d", c.secret.UID, c.checksum[:12], c.now.UnixNano())
	if resumable {
		d.ID = pending.ID
		return d
	}
	if failed {
		return c.retry(d)
	}
	if c.memory.Wrote == c.secret.ResourceVersion {
		return c.tend("")
	}
	if c.outcome.AppliedChecksum == c.checksum && c.memory.Applied {
		return c.tend("")
	}
	d.Confirm = c.memory.Executed == c.checksum
	return d
}

// retry is the legacy flow's answer to a plan that failed before.
func (c *cause) retry(d Decision) Decision {
	if most := c.delivery.MaxFailures; most != plans.Unlimited && c.failures() >= most {
		return c.tend(fmt.Sprintf("the plan failed %d times%s and is not tried again", c.failures(), c.reason()))
	}
	// A plan that cannot be read stays so; it is counted until the server calls it failed.
	if c.fault != nil && c.failures() >= max(c.delivery.FailureThreshold, 1) {
		return c.tend("")
	}
	// A time of the future is a clock that went back, and no reason to wait longer.
	next := c.outcome.LastApplyTime.Add(cooldown)
	if !c.outcome.LastApplyTime.After(c.now) && !next.Before(c.now) {
		t := c.tend(fmt.Sprintf("the plan failed %d times%s and is tried again at %s", c.failures(), c.reason(), next.UTC().Format(time.RFC3339)))
		t.Again = next.Add(time.Second) // the time on the wire has no fractions
		return t
	}
	return d
}

// execute is a decision to perform the plan, or to say why that cannot be.
func (c *cause) execute(action Action, attempt int) Decision {
	if c.fault != nil {
		return Decision{Action: Reject, Checksum: c.checksum, Attempt: attempt, Fault: c.fault}
	}
	return Decision{Action: action, Plan: c.plan, Checksum: c.checksum, Attempt: attempt, Periodic: true}
}

// tend is a decision not to execute. Probes only ask, but periodic instructions act on
// the host, so they run for a plan that was executed.
func (c *cause) tend(why string) Decision {
	if c.fault != nil {
		return Decision{Action: Idle, Checksum: c.checksum, Fault: c.fault, Why: "the plan was refused: " + c.fault.Error()}
	}
	executed := c.outcome.AppliedChecksum == c.checksum || c.outcome.FailedChecksum == c.checksum
	if !executed && why == "" && c.delivery.State != plans.StateNone {
		why = fmt.Sprintf("the plan is new but its state is already %s, so it is not executed until the server makes it pending", c.delivery.State)
	}
	return Decision{Action: Tend, Plan: c.plan, Checksum: c.checksum, Periodic: executed, Why: why}
}

// failures counts those of this plan; a count left over from another plan is not ours.
func (c *cause) failures() int {
	if c.outcome.FailedChecksum != c.checksum {
		return 0
	}
	return max(c.outcome.FailureCount, 0)
}

// reason is what the failure of this plan was reported with, in brackets; empty when that
// is not known.
func (c *cause) reason() string {
	said := firstLine(c.outcome.FailedOutput[plans.FailureOutput])
	if c.outcome.FailedChecksum != c.checksum || said == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", said)
}

// firstLine is that of a failure's output, bounded.
func firstLine(output []byte) string {
	said, _, _ := bytes.Cut(output, []byte{'\n'})
	return string(said[:min(len(said), maxReason)])
}

// id names a delivery of the flow with states: the plan-revision grows with each one taken.
func (c *cause) id(revision int) string { return c.secret.UID + "/" + strconv.Itoa(revision) }

// running names the delivery of a plan that is in progress. Once its outcome was reported, only
// the server can have put it there again, which has it run again, under an ID of its own and
// after another look at the Secret: "UID/REVISION.N" the Nth time.
func (c *cause) running(revision int) (id string, confirm bool) {
	id = c.id(revision)
	p := c.memory.Pending
	base, again, _ := strings.Cut(p.ID, ".")
	if base != id || p.Checksum != c.checksum {
		return id, false
	}
	if !p.Finished {
		return p.ID, true // the ledger of an earlier life: the Secret may know more by now
	}
	if !p.Reported {
		return p.ID, false
	}
	n, err := strconv.Atoi(again)
	if err != nil {
		n = 0
	}
	return fmt.Sprintf("%s.%d", id, n+1), true
}

// known has it noted that the outcome of the ledger's delivery is in the Secret, and the
// outcome itself where the agent was killed between its report and its ledger.
func (c *cause) known(d Decision) Decision {
	p := c.memory.Pending
	base, _, _ := strings.Cut(p.ID, ".")
	ours := p.ID != "" && base == c.id(c.outcome.Revision) && p.Checksum == c.checksum
	d.Note = ours && p.Finished && !p.Reported
	d.Conclude = ours && !p.Finished && c.plan != nil
	return d
}

// forgotten recognizes a delivery that this host has done and reported, and of which the Secret
// knows nothing: the server was restored from a backup that was made before the report. Running
// it again could do harm, as with a command that resets a cluster. revision is the delivery's.
func (c *cause) forgotten(revision int) (d Decision, done bool) {
	if c.fault != nil {
		return Decision{}, false
	}
	d = Decision{Action: Recall, Plan: c.plan, Checksum: c.checksum, Revision: revision, Attempt: 1}
	if c.memory.Past != nil {
		d.Past = c.memory.Past
		return d, true
	}
	p := c.memory.Pending
	base, _, _ := strings.Cut(p.ID, ".")
	if base != c.id(revision) || p.Checksum != c.checksum || !p.Finished || !p.Reported {
		return Decision{}, false
	}
	// A server that has the report has its time, of which the wire has no fractions.
	if c.delivery.State == plans.StateInProgress && !c.outcome.LastApplyTime.Before(p.Started.Truncate(time.Second)) {
		return Decision{}, false
	}
	d.ID = p.ID
	return d, true
}

// overtaken is the delivery that a Secret asks for when the ledger is about a later one of the
// same Secret: only a server that was restored from a backup asks for such. What is known of it
// is in the history.
func overtaken(s *Secret, p apply.Pending) (id, checksum string, ok bool) {
	if s == nil {
		return "", "", false
	}
	outcome, _ := plans.ReadOutcome(s.Data)
	revision := outcome.Revision
	switch outcome.State {
	case plans.StatePending:
		revision++
	case plans.StateInProgress:
	default:
		return "", "", false
	}
	if pendingRevision(s.UID, p) <= revision {
		return "", "", false
	}
	return s.UID + "/" + strconv.Itoa(revision), s.delivered().checksum, true
}

// pendingRevision is that of the ledger's delivery when it came from this Secret. A server
// restored from a backup counts from an older number, and a number used again would
// make the new delivery look done.
func (c *cause) pendingRevision() int { return pendingRevision(c.secret.UID, c.memory.Pending) }

func pendingRevision(secretUID string, p apply.Pending) int {
	uid, revision, ok := strings.Cut(p.ID, "/")
	if !ok || uid != secretUID {
		return 0
	}
	revision, _, _ = strings.Cut(revision, ".")
	n, err := strconv.Atoi(revision)
	if err != nil {
		return 0
	}
	return n
}
