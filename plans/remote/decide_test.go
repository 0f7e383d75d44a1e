package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

const (
	planA = `{"instructions":[{"name":"a","command":"true"}]}`
	planB = `{"instructions":[{"name":"b","command":"true"}]}`
	bad   = `{"files":[{"path":"relative"}]}`
)

func sum(plan string) string {
	h := sha256.Sum256([]byte(plan))
	return hex.EncodeToString(h[:])
}

// secretOf is a Secret with UID u1 and version 7.
func secretOf(data map[string]string) *Secret {
	s := &Secret{UID: "u1", ResourceVersion: "7", Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const (
	tenSecondsAgo = "Sat Nov 21 11:59:50 UTC 2026"
	aMinuteAgo    = "Sat Nov 21 11:59:00 UTC 2026"
	tomorrow      = "Sun Nov 22 12:00:00 UTC 2026"
)

type wanted struct {
	Action   Action
	ID       string
	Attempt  int
	Revision int
	Confirm  bool
	Periodic bool
	Restore  bool
	Conclude bool
	Again    time.Time
}

func TestDecide(t *testing.T) {
	known := Memory{UID: "u1", Applied: true}
	for _, tc := range []struct {
		name   string
		secret *Secret
		memory Memory
		want   wanted
	}{
		{"no Secret", nil, known, wanted{Action: Idle}},
		{"no plan yet", secretOf(map[string]string{"probe-statuses": "{}"}), Memory{}, wanted{Action: Idle}},
		{"empty plan", secretOf(map[string]string{"plan": ""}), Memory{}, wanted{Action: Idle}},

		// The flow with states.
		{"pending is taken as attempt 1", secretOf(map[string]string{"plan": planA, "plan-state": "pending"}), Memory{},
			wanted{Action: Take, ID: "u1/1", Attempt: 1, Revision: 1, Periodic: true}},
		{"the revision counts on", secretOf(map[string]string{"plan": planA, "plan-state": "pending", "plan-revision": "4"}), known,
			wanted{Action: Take, ID: "u1/5", Attempt: 1, Revision: 5, Periodic: true}},
		{"a revision that is not a number counts as none", secretOf(map[string]string{"plan": planA, "plan-state": "pending", "plan-revision": "x"}), known,
			wanted{Action: Take, ID: "u1/1", Attempt: 1, Revision: 1, Periodic: true}},
		{"a server restored from a backup does not reuse a delivery",
			secretOf(map[string]string{"plan": planA, "plan-state": "pending", "plan-revision": "4"}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u1/9", Checksum: sum(planA), Finished: true}},
			wanted{Action: Take, ID: "u1/10", Attempt: 1, Revision: 10, Periodic: true}},
		{"pending on a server that has forgotten that it is done is reported again",
			secretOf(map[string]string{"plan": planA, "plan-state": "pending", "plan-revision": "4"}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u1/5", Checksum: sum(planA), Finished: true, Reported: true}},
			wanted{Action: Recall, ID: "u1/5", Attempt: 1, Revision: 5}},
		{"also when the server had had it run again",
			secretOf(map[string]string{"plan": planA, "plan-state": "pending", "plan-revision": "4"}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u1/5.2", Checksum: sum(planA), Finished: true, Reported: true}},
			wanted{Action: Recall, ID: "u1/5.2", Attempt: 1, Revision: 5}},
		{"another plan below the forgotten number is new",
			secretOf(map[string]string{"plan": planB, "plan-state": "pending", "plan-revision": "4"}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u1/5", Checksum: sum(planA), Finished: true, Reported: true}},
			wanted{Action: Take, ID: "u1/6", Attempt: 1, Revision: 6, Periodic: true}},
		{"in-progress on a server that has forgotten the end is reported again",
			secretOf(map[string]string{"plan": planA, "plan-state": "in-progress", "plan-revision": "5", "last-apply-time": aMinuteAgo}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u1/5", Checksum: sum(planA), Finished: true, Reported: true, Started: noon.Add(-30 * time.Second)}},
			wanted{Action: Recall, ID: "u1/5", Attempt: 1, Revision: 5}},
		{"in-progress on a server that knows the end runs it again",
			secretOf(map[string]string{"plan": planA, "plan-state": "in-progress", "plan-revision": "5", "last-apply-time": tenSecondsAgo}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u1/5", Checksum: sum(planA), Finished: true, Reported: true, Started: noon.Add(-9500 * time.Millisecond)}},
			wanted{Action: Apply, ID: "u1/5.1", Attempt: 1, Revision: 5, Confirm: true, Periodic: true}},
		{"what the ledger is beyond is known by the history",
			secretOf(map[string]string{"plan": planA, "plan-state": "pending", "plan-revision": "4"}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u1/9", Checksum: sum(planB), Finished: true, Reported: true}, Past: &apply.Ending{Succeeded: true}},
			wanted{Action: Recall, Attempt: 1, Revision: 5}},
		{"the ledger of another Secret does not count",
			secretOf(map[string]string{"plan": planA, "plan-state": "pending", "plan-revision": "4"}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u0/9", Checksum: sum(planA), Finished: true}},
			wanted{Action: Take, ID: "u1/5", Attempt: 1, Revision: 5, Periodic: true}},
		{"pending again with what was applied already runs anew",
			secretOf(map[string]string{"plan": planA, "plan-state": "pending", "plan-revision": "1", "applied-checksum": sum(planA)}), known,
			wanted{Action: Take, ID: "u1/2", Attempt: 1, Revision: 2, Periodic: true}},
		{"in-progress is gone on with", secretOf(map[string]string{"plan": planA, "plan-state": "in-progress", "plan-revision": "3"}), Memory{},
			wanted{Action: Apply, ID: "u1/3", Attempt: 1, Revision: 3, Periodic: true}},
		{"in-progress counts the failures of this plan",
			secretOf(map[string]string{"plan": planA, "plan-state": "in-progress", "plan-revision": "3", "failure-count": "2", "failed-checksum": sum(planA)}), Memory{},
			wanted{Action: Apply, ID: "u1/3", Attempt: 3, Revision: 3, Periodic: true}},
		{"in-progress whose outcome nobody knows is reported, not run again",
			secretOf(map[string]string{"plan": planA, "plan-state": "in-progress", "plan-revision": "3"}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u1/3", Checksum: sum(planA), Finished: true}},
			wanted{Action: Apply, ID: "u1/3", Attempt: 1, Revision: 3, Periodic: true}},
		{"in-progress by the server on a plan whose outcome it has runs it again",
			secretOf(map[string]string{"plan": planA, "plan-state": "in-progress", "plan-revision": "3", "applied-checksum": sum(planA)}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u1/3", Checksum: sum(planA), Finished: true, Reported: true}},
			wanted{Action: Apply, ID: "u1/3.1", Attempt: 1, Revision: 3, Confirm: true, Periodic: true}},
		{"and goes on with that after a restart",
			secretOf(map[string]string{"plan": planA, "plan-state": "in-progress", "plan-revision": "3", "applied-checksum": sum(planA)}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u1/3.1", Checksum: sum(planA)}},
			wanted{Action: Apply, ID: "u1/3.1", Attempt: 1, Revision: 3, Confirm: true, Periodic: true}},
		{"and runs it once more when asked once more, with the attempt of a failed plan",
			secretOf(map[string]string{"plan": planA, "plan-state": "in-progress", "plan-revision": "3", "failed-checksum": sum(planA), "failure-count": "2"}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u1/3.1", Checksum: sum(planA), Finished: true, Reported: true}},
			wanted{Action: Apply, ID: "u1/3.2", Attempt: 3, Revision: 3, Confirm: true, Periodic: true}},
		{"pending after that counts on from the revision",
			secretOf(map[string]string{"plan": planA, "plan-state": "pending", "plan-revision": "3"}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u1/3.2", Checksum: sum(planA), Finished: true, Reported: true}},
			wanted{Action: Take, ID: "u1/4", Attempt: 1, Revision: 4, Periodic: true}},
		{"in-progress does not count the failures of another plan",
			secretOf(map[string]string{"plan": planA, "plan-state": "in-progress", "plan-revision": "3", "failure-count": "2", "failed-checksum": sum(planB)}), Memory{},
			wanted{Action: Apply, ID: "u1/3", Attempt: 1, Revision: 3, Periodic: true}},
		{"succeeded is looked after",
			secretOf(map[string]string{"plan": planA, "plan-state": "succeeded", "applied-checksum": sum(planA)}),
			Memory{UID: "u1", Applied: true, Executed: sum(planA)},
			wanted{Action: Tend, Periodic: true}},
		{"succeeded gets its files checked once after a restart",
			secretOf(map[string]string{"plan": planA, "plan-state": "succeeded", "applied-checksum": sum(planA)}), Memory{},
			wanted{Action: Tend, Periodic: true, Restore: true}},
		{"and only once",
			secretOf(map[string]string{"plan": planA, "plan-state": "succeeded", "applied-checksum": sum(planA)}),
			Memory{UID: "u1", Restored: sum(planA)},
			wanted{Action: Tend, Periodic: true}},
		{"new content below succeeded is neither executed nor called applied",
			secretOf(map[string]string{"plan": planB, "plan-state": "succeeded", "applied-checksum": sum(planA)}), known,
			wanted{Action: Tend}},
		{"failed stays failed",
			secretOf(map[string]string{"plan": planA, "plan-state": "failed", "failed-checksum": sum(planA), "failure-count": "1"}), Memory{},
			wanted{Action: Tend, Periodic: true}},
		{"an end that only the Secret knows is written down",
			secretOf(map[string]string{"plan": planA, "plan-state": "failed", "plan-revision": "3", "failed-checksum": sum(planA), "failure-count": "1"}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u1/3", Checksum: sum(planA)}},
			wanted{Action: Tend, Periodic: true, Conclude: true}},
		{"the ledger of another delivery is left alone",
			secretOf(map[string]string{"plan": planA, "plan-state": "failed", "plan-revision": "4", "failed-checksum": sum(planA), "failure-count": "1"}),
			Memory{UID: "u1", Pending: apply.Pending{ID: "u1/3", Checksum: sum(planA)}},
			wanted{Action: Tend, Periodic: true}},
		{"max-failures is not for this flow",
			secretOf(map[string]string{"plan": planA, "plan-state": "pending", "max-failures": "1", "failed-checksum": sum(planA), "failure-count": "1"}), known,
			wanted{Action: Take, ID: "u1/1", Attempt: 1, Revision: 1, Periodic: true}},
		{"cancelled is looked after", secretOf(map[string]string{"plan": planA, "plan-state": "cancelled", "applied-checksum": sum(planA)}), known,
			wanted{Action: Tend, Periodic: true}},
		{"cancelled takes back what an earlier life began", secretOf(map[string]string{"plan": planA, "plan-state": "cancelled"}),
			Memory{Pending: apply.Pending{ID: "u1/3", Checksum: sum(planA)}},
			wanted{Action: Withdraw, Confirm: true}},
		{"an unknown state is left alone", secretOf(map[string]string{"plan": planA, "plan-state": "paused"}), known, wanted{Action: Tend}},
		{"a pending plan that cannot be read is rejected", secretOf(map[string]string{"plan": bad, "plan-state": "pending"}), known,
			wanted{Action: Reject, ID: "u1/1", Attempt: 1, Revision: 1}},
		{"and left alone once it is failed",
			secretOf(map[string]string{"plan": bad, "plan-state": "failed", "failed-checksum": sum(bad), "failure-count": "1"}), Memory{},
			wanted{Action: Idle}},

		// The legacy flow.
		{"legacy: a new plan is applied", secretOf(map[string]string{"plan": planA}), known,
			wanted{Action: Apply, ID: "u1/" + sum(planA)[:12] + "/1795262400000000000", Attempt: 1, Periodic: true}},
		{"legacy: an applied plan is left alone", secretOf(map[string]string{"plan": planA, "applied-checksum": sum(planA)}), known,
			wanted{Action: Tend, Periodic: true}},
		{"legacy: the first pass of a life applies by force", secretOf(map[string]string{"plan": planA, "applied-checksum": sum(planA)}), Memory{},
			wanted{Action: Apply, ID: "u1/" + sum(planA)[:12] + "/1795262400000000000", Attempt: 1, Periodic: true}},
		{"legacy: a Secret made anew is a first pass", secretOf(map[string]string{"plan": planA, "applied-checksum": sum(planA)}),
			Memory{UID: "u0", Applied: true, Executed: sum(planA), Wrote: "7"},
			wanted{Action: Apply, ID: "u1/" + sum(planA)[:12] + "/1795262400000000000", Attempt: 1, Periodic: true}},
		{"legacy: the echo of the own write executes nothing", secretOf(map[string]string{"plan": planA}),
			Memory{UID: "u1", Applied: true, Wrote: "7"},
			wanted{Action: Tend}},
		{"legacy: what was executed in this life is confirmed before it is executed again", secretOf(map[string]string{"plan": planA}),
			Memory{UID: "u1", Applied: true, Executed: sum(planA), Wrote: "9", Pending: apply.Pending{ID: "u1/x/1", Checksum: sum(planA), Finished: true}},
			wanted{Action: Apply, ID: "u1/" + sum(planA)[:12] + "/1795262400000000000", Attempt: 1, Confirm: true, Periodic: true}},
		{"legacy: work that was begun is gone on with", secretOf(map[string]string{"plan": planA}),
			Memory{Pending: apply.Pending{ID: "u1/x/1", Checksum: sum(planA)}},
			wanted{Action: Apply, ID: "u1/x/1", Attempt: 1, Periodic: true}},
		{"legacy: an outcome that nobody got is reported", secretOf(map[string]string{"plan": planA}),
			Memory{Pending: apply.Pending{ID: "u1/x/1", Checksum: sum(planA), Finished: true}},
			wanted{Action: Apply, ID: "u1/x/1", Attempt: 1, Periodic: true}},
		{"legacy: but not that of a Secret that is gone", secretOf(map[string]string{"plan": planA}),
			Memory{Pending: apply.Pending{ID: "u0/x/1", Checksum: sum(planA), Finished: true}},
			wanted{Action: Apply, ID: "u1/" + sum(planA)[:12] + "/1795262400000000000", Attempt: 1, Periodic: true}},
		{"legacy: after a failure it cools down",
			secretOf(map[string]string{"plan": planA, "failed-checksum": sum(planA), "failure-count": "1", "last-apply-time": tenSecondsAgo}), known,
			wanted{Action: Tend, Periodic: true, Again: noon.Add(21 * time.Second)}},
		{"legacy: also when the agent was restarted meanwhile",
			secretOf(map[string]string{"plan": planA, "failed-checksum": sum(planA), "failure-count": "1", "last-apply-time": tenSecondsAgo}), Memory{},
			wanted{Action: Tend, Periodic: true, Again: noon.Add(21 * time.Second)}},
		{"legacy: then it is tried again",
			secretOf(map[string]string{"plan": planA, "failed-checksum": sum(planA), "failure-count": "1", "last-apply-time": aMinuteAgo}), known,
			wanted{Action: Apply, ID: "u1/" + sum(planA)[:12] + "/1795262400000000000", Attempt: 2, Periodic: true}},
		{"legacy: a time of the future does not hold it up",
			secretOf(map[string]string{"plan": planA, "failed-checksum": sum(planA), "failure-count": "1", "last-apply-time": tomorrow}), known,
			wanted{Action: Apply, ID: "u1/" + sum(planA)[:12] + "/1795262400000000000", Attempt: 2, Periodic: true}},
		{"legacy: up to max-failures",
			secretOf(map[string]string{"plan": planA, "failed-checksum": sum(planA), "failure-count": "3", "max-failures": "3", "last-apply-time": aMinuteAgo}), known,
			wanted{Action: Tend, Periodic: true}},
		{"legacy: without end when max-failures is -1",
			secretOf(map[string]string{"plan": planA, "failed-checksum": sum(planA), "failure-count": "99", "max-failures": "-1", "last-apply-time": aMinuteAgo}), known,
			wanted{Action: Apply, ID: "u1/" + sum(planA)[:12] + "/1795262400000000000", Attempt: 100, Periodic: true}},
		{"legacy: failures of another plan leave the budget whole",
			secretOf(map[string]string{"plan": planB, "failed-checksum": sum(planA), "failure-count": "3", "max-failures": "3", "last-apply-time": tenSecondsAgo}), known,
			wanted{Action: Apply, ID: "u1/" + sum(planB)[:12] + "/1795262400000000000", Attempt: 1, Periodic: true}},
		{"legacy: a plan that cannot be read is rejected", secretOf(map[string]string{"plan": bad}), known,
			wanted{Action: Reject, ID: "u1/" + sum(bad)[:12] + "/1795262400000000000", Attempt: 1}},
		{"legacy: and counted until the server calls it failed",
			secretOf(map[string]string{"plan": bad, "failed-checksum": sum(bad), "failure-count": "1", "failure-threshold": "3", "last-apply-time": aMinuteAgo}), known,
			wanted{Action: Reject, ID: "u1/" + sum(bad)[:12] + "/1795262400000000000", Attempt: 2}},
		{"legacy: not longer",
			secretOf(map[string]string{"plan": bad, "failed-checksum": sum(bad), "failure-count": "1", "last-apply-time": aMinuteAgo}), known,
			wanted{Action: Idle}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Decide(tc.secret, tc.memory, noon)
			got := wanted{Action: d.Action, ID: d.ID, Attempt: d.Attempt, Revision: d.Revision,
				Confirm: d.Confirm, Periodic: d.Periodic, Restore: d.Restore, Conclude: d.Conclude, Again: d.Again}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if (d.Action == Idle || d.Action == Withdraw) && d.Why == "" {
				t.Error("waits without saying why")
			}
			if (d.Action == Take || d.Action == Apply || d.Action == Recall || d.Action == Tend) != (d.Plan != nil) && d.Action != Withdraw {
				t.Errorf("plan = %v", d.Plan)
			}
		})
	}
}

func TestDecideNeverExecutesWhatEnded(t *testing.T) {
	for _, state := range []string{"succeeded", "failed", "cancelled", "paused", "PENDING"} {
		for _, plan := range []string{planA, planB, bad} {
			for _, m := range []Memory{{}, {UID: "u1", Applied: true}, {UID: "u0", Wrote: "7"}, {Pending: apply.Pending{ID: "u1/1", Checksum: sum(plan)}}} {
				s := secretOf(map[string]string{"plan": plan, "plan-state": state, "applied-checksum": sum(planA)})
				if d := Decide(s, m, noon); d.Action == Take || d.Action == Apply || d.Action == Reject {
					t.Errorf("state %s, memory %+v: %s", state, m, d.Action)
				}
			}
		}
	}
}

func TestOutcome(t *testing.T) {
	before := plans.Outcome{
		State: plans.StateInProgress, Revision: 2,
		AppliedChecksum: "old", AppliedOutput: map[string][]byte{"kept": []byte("k")},
		FailedChecksum: "older", FailureCount: 4, SuccessCount: 7,
		ProbeStatuses:  map[string]plans.ProbeStatus{"p": {Healthy: true}, "gone": {Healthy: true}},
		PeriodicOutput: map[string]plans.PeriodicOutput{"gone": {Name: "gone"}, "beat": {Name: "beat"}},
	}
	plan := &plans.Plan{
		Probes:               map[string]plans.Probe{"p": {}, "q": {}},
		PeriodicInstructions: []plans.PeriodicInstruction{{Instruction: plans.Instruction{Name: "beat"}}},
	}
	d := Decision{Plan: plan, Checksum: "new", Attempt: 1, Revision: 2}
	legacy := before
	legacy.State = ""
	for _, tc := range []struct {
		name string
		got  plans.Outcome
		want plans.Outcome
	}{
		{
			name: "success",
			got:  ended(before, d, apply.Result{Succeeded: true, Outputs: map[string][]byte{"i": []byte("out")}}, noon),
			want: plans.Outcome{
				State: "succeeded", Revision: 2, AppliedChecksum: "new", AppliedOutput: map[string][]byte{"i": []byte("out")},
				SuccessCount: 8, LastApplyTime: noon,
				ProbeStatuses:  map[string]plans.ProbeStatus{"p": {Healthy: true}, "q": {}},
				PeriodicOutput: map[string]plans.PeriodicOutput{"beat": {Name: "beat"}},
			},
		},
		{
			name: "failure keeps what was applied before",
			got:  ended(before, d, apply.Result{Outputs: map[string][]byte{"i": []byte("no")}, Failure: &apply.Failure{}}, noon),
			want: plans.Outcome{
				State: "failed", Revision: 2, AppliedChecksum: "old", AppliedOutput: map[string][]byte{"kept": []byte("k")},
				FailedChecksum: "new", FailedOutput: map[string][]byte{"i": []byte("no")}, FailureCount: 1, LastApplyTime: noon,
				ProbeStatuses:  map[string]plans.ProbeStatus{"p": {Healthy: true}, "q": {}},
				PeriodicOutput: map[string]plans.PeriodicOutput{"beat": {Name: "beat"}},
			},
		},
		{
			name: "legacy has no state",
			got:  ended(legacy, d, apply.Result{Succeeded: true}, noon),
			want: plans.Outcome{
				Revision: 2, AppliedChecksum: "new", SuccessCount: 8, LastApplyTime: noon,
				ProbeStatuses:  map[string]plans.ProbeStatus{"p": {Healthy: true}, "q": {}},
				PeriodicOutput: map[string]plans.PeriodicOutput{"beat": {Name: "beat"}},
			},
		},
		{
			name: "failures of a plan that the server made pending again count on",
			got: ended(plans.Outcome{State: "in-progress", Revision: 3, FailedChecksum: "new", FailureCount: 2}, Decision{Checksum: "new", Attempt: 1, Revision: 3, Plan: &plans.Plan{}},
				apply.Result{Outputs: map[string][]byte{}, Failure: &apply.Failure{}}, noon),
			want: plans.Outcome{
				State: "failed", Revision: 3, FailedChecksum: "new", FailureCount: 3, FailedOutput: map[string][]byte{}, LastApplyTime: noon,
				ProbeStatuses: map[string]plans.ProbeStatus{}, PeriodicOutput: map[string]plans.PeriodicOutput{},
			},
		},
		{
			name: "rejected says why",
			got: rejected(before, Decision{Checksum: "new", Attempt: 1, Revision: 2,
				Fault: &plans.FieldError{Field: "files[0].path", Reason: "is empty"}}, noon),
			want: plans.Outcome{
				State: "failed", Revision: 2, AppliedChecksum: "old", AppliedOutput: map[string][]byte{"kept": []byte("k")},
				FailedChecksum: "new", FailureCount: 1, LastApplyTime: noon,
				FailedOutput:   map[string][]byte{"drover-failure": []byte("plan field files[0].path: is empty\n")},
				ProbeStatuses:  map[string]plans.ProbeStatus{},
				PeriodicOutput: map[string]plans.PeriodicOutput{},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShrink(t *testing.T) {
	big := strings.Repeat("x", 100<<10) + "the end"
	o := plans.Outcome{
		AppliedOutput:  map[string][]byte{"a": []byte(big)},
		FailedOutput:   map[string][]byte{"b": []byte("short"), "drover-failure": []byte("because")},
		PeriodicOutput: map[string]plans.PeriodicOutput{"p": {Stdout: []byte(big)}},
	}
	once := shrink(shrink(shrink(shrink(o, 0), 1), 2), 3)
	if got := string(once.AppliedOutput["a"]); len(got) > 5<<10 || !strings.HasSuffix(got, "the end") || !strings.HasPrefix(got, "[") {
		t.Errorf("first step keeps %d bytes: %.60q", len(got), got)
	}
	if got := string(once.FailedOutput["b"]); got != "short" {
		t.Errorf("what is short became %q", got)
	}
	twice := shrink(once, 4)
	if got := string(twice.PeriodicOutput["p"].Stdout); len(got) > 200 || !strings.Contains(got, "bytes cut") {
		t.Errorf("second step keeps %q", got)
	}
	if got := string(twice.FailedOutput["drover-failure"]); got != "because" {
		t.Errorf("the reason became %q", got)
	}
}
