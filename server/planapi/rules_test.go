package planapi

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/records"
)

// Two plans, one with a probe.
const (
	planA = `{"instructions":[{"name":"a","command":"true"}]}`
	planB = `{"probes":{"web":{"httpGet":{"url":"http://127.0.0.1"}}}}`
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func data(pairs ...string) map[string][]byte {
	m := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = []byte(pairs[i+1])
	}
	return m
}

func sum(plan string) string {
	b := sha256.Sum256([]byte(plan))
	return hex.EncodeToString(b[:])
}

func texts(m map[string][]byte) map[string]string {
	t := map[string]string{}
	for key, value := range m {
		t[key] = string(value)
	}
	return t
}

// step is one update of an agent and what must be stored after it.
type step struct {
	name string
	sent map[string][]byte
	want map[string]string // what differs from the state before; "-" means absent
}

// TestAgentWrite walks recorded sequences of updates.
func TestAgentWrite(t *testing.T) {
	sumA, sumB := sum(planA), sum(planB)
	for _, c := range []struct {
		name   string
		stored map[string][]byte
		steps  []step
	}{
		{
			name:   "a success of the original agent",
			stored: data("plan", planA, "plan-state", "pending", "max-failures", "-1"),
			steps: []step{
				{"takes the plan", data("plan", planA, "plan-state", "in-progress", "plan-revision", "1", "max-failures", "-1"),
					map[string]string{"plan-state": "in-progress", "plan-revision": "1"}},
				{"reports", data("plan-state", "succeeded", "applied-checksum", sumA, "applied-output", "out", "applied-periodic-output", "p",
					"failed-checksum", "", "failed-output", "", "failure-count", "0", "success-count", "1", "last-apply-time", "t1", "probe-statuses", "{}"),
					map[string]string{"plan-state": "succeeded", "applied-checksum": sumA, "applied-output": "out", "applied-periodic-output": "p",
						"failed-checksum": "", "failed-output": "", "failure-count": "0", "success-count": "1", "last-apply-time": "t1",
						"probe-statuses": "{}", "appliedPlan": planA}},
			},
		},
		{
			// The second update of a failure is the original's fault that erases the evidence.
			name:   "a failure of the original agent",
			stored: data("plan", planA, "plan-state", "in-progress", "plan-revision", "1", "applied-checksum", "old", "applied-output", "oldout"),
			steps: []step{
				{"fails", data("plan-state", "failed", "failed-checksum", sumA, "failed-output", "why", "failure-count", "1", "success-count", "0",
					"last-apply-time", "t1", "applied-checksum", "old", "applied-output", "oldout", "applied-periodic-output", "p1"),
					map[string]string{"plan-state": "failed", "failed-checksum": sumA, "failed-output": "why", "failure-count": "1", "success-count": "0",
						"last-apply-time": "t1", "applied-periodic-output": "p1"}},
				{"claims success a moment later", data("plan-state", "failed", "applied-checksum", sumA, "applied-output", "oldout", "failed-checksum", "",
					"failed-output", "", "failure-count", "0", "applied-periodic-output", "p2", "probe-statuses", "{}", "host-report", "{}"),
					map[string]string{"applied-periodic-output": "p2", "probe-statuses": "{}", "host-report": "{}"}},
				{"again without a state", data("failed-output", "", "failure-count", "0"), nil},
			},
		},
		{
			name:   "an agent that knows no states",
			stored: data("plan", planA, "plan-state", "pending"),
			steps: []step{
				{"fails", data("plan-state", "pending", "failed-checksum", sumA, "failed-output", "why", "failure-count", "1"),
					map[string]string{"failed-checksum": sumA, "failed-output": "why", "failure-count": "1"}},
				{"succeeds", data("plan-state", "pending", "failed-checksum", "", "failed-output", "", "failure-count", "0", "applied-checksum", sumA),
					map[string]string{"failed-checksum": "", "failed-output": "", "failure-count": "0", "applied-checksum": sumA, "appliedPlan": planA}},
			},
		},
		{
			name:   "a Secret without states",
			stored: data("plan", planA),
			steps: []step{
				{"succeeds", data("applied-checksum", sumA), map[string]string{"applied-checksum": sumA, "appliedPlan": planA}},
			},
		},
		{
			name:   "the server's keys come back changed",
			stored: data("plan", planA, "plan-state", "in-progress", "max-failures", "-1"),
			steps: []step{
				{"ignored", data("plan", planB, "plan-state", "in-progress", "max-failures", "7", "failure-threshold", "9", "appliedPlan", planB, "more", "x"), nil},
			},
		},
		{
			// After a conflict the original copies its result over whatever state is there.
			name:   "an old result over a newer pending",
			stored: data("plan", planA, "plan-state", "pending", "applied-checksum", "old"),
			steps: []step{
				{"ignored but for what lives on", data("plan-state", "succeeded", "applied-checksum", sumA, "success-count", "1", "probe-statuses", `{"x":{}}`),
					map[string]string{"probe-statuses": `{"x":{}}`}},
				{"then it takes the plan", data("plan-state", "in-progress", "plan-revision", "2"),
					map[string]string{"plan-state": "in-progress", "plan-revision": "2"}},
			},
		},
		{
			name:   "a cancelled plan",
			stored: data("plan", planA, "plan-state", "cancelled"),
			steps: []step{
				{"is not revived", data("plan-state", "succeeded", "applied-checksum", sumA), nil},
				{"nor claimed", data("plan-state", "cancelled", "applied-checksum", sumA), nil},
				{"nor taken", data("plan-state", "in-progress"), nil},
			},
		},
		{
			name:   "a state that does not exist",
			stored: data("plan", planA, "plan-state", "in-progress"),
			steps:  []step{{"ignored", data("plan-state", "finished", "applied-checksum", sumA), nil}},
		},
		{
			name:   "a checksum of another plan",
			stored: data("plan", planA, "plan-state", "in-progress"),
			steps: []step{
				{"is not a success of this one", data("plan-state", "succeeded", "applied-checksum", sumB),
					map[string]string{"plan-state": "succeeded", "applied-checksum": sumB}},
			},
		},
		{
			name:   "resumed after a crash",
			stored: data("plan", planA, "plan-state", "in-progress", "plan-revision", "1"),
			steps: []step{
				{"in progress again", data("plan-state", "in-progress", "plan-revision", "1", "applied-output", "half"), map[string]string{"applied-output": "half"}},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			stored := records.PlanSecret{Data: c.stored}
			for _, s := range c.steps {
				want := texts(stored.Data)
				maps.Copy(want, s.want)
				before := texts(stored.Data)
				next := agentWrite(stored, s.sent, noon)
				if diff := cmp.Diff(want, texts(next.Data)); diff != "" {
					t.Errorf("%s: %s", s.name, diff)
				}
				if diff := cmp.Diff(before, texts(stored.Data)); diff != "" {
					t.Errorf("%s: the stored Secret, which others read, was changed: %s", s.name, diff)
				}
				stored = next
			}
		})
	}
}

func TestProbesPassed(t *testing.T) {
	sumA, sumB := sum(planA), sum(planB)
	const at = "2026-11-21T12:00:00Z"
	for _, c := range []struct {
		name, annotation string
		stored, sent     map[string][]byte
		want             string
	}{
		{name: "all healthy", stored: data("plan", planB, "plan-state", "in-progress"),
			sent: data("plan-state", "succeeded", "applied-checksum", sumB, "probe-statuses", `{"web":{"healthy":true}}`), want: at},
		{name: "healthy later", stored: data("plan", planB, "plan-state", "succeeded", "applied-checksum", sumB),
			sent: data("probe-statuses", `{"web":{"healthy":true}}`), want: at},
		{name: "not healthy", stored: data("plan", planB, "plan-state", "succeeded", "applied-checksum", sumB), sent: data("probe-statuses", `{"web":{}}`)},
		{name: "not asked", stored: data("plan", planB, "plan-state", "succeeded", "applied-checksum", sumB), sent: data("probe-statuses", `{}`)},
		{name: "another probe", stored: data("plan", planB, "plan-state", "succeeded", "applied-checksum", sumB), sent: data("probe-statuses", `{"x":{"healthy":true}}`)},
		{name: "null", stored: data("plan", planB, "plan-state", "succeeded", "applied-checksum", sumB), sent: data("probe-statuses", `null`)},
		{name: "no JSON", stored: data("plan", planB, "plan-state", "succeeded", "applied-checksum", sumB), sent: data("probe-statuses", `{`)},
		{name: "not applied yet", stored: data("plan", planB, "plan-state", "in-progress"), sent: data("probe-statuses", `{"web":{"healthy":true}}`)},
		{name: "passed before", annotation: "2020-01-01T00:00:00Z", stored: data("plan", planB, "plan-state", "succeeded", "applied-checksum", sumB),
			sent: data("probe-statuses", `{"web":{"healthy":true}}`), want: "2020-01-01T00:00:00Z"},
		{name: "no probes", stored: data("plan", planA, "plan-state", "in-progress"),
			sent: data("plan-state", "succeeded", "applied-checksum", sumA), want: at},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := records.PlanSecret{Object: records.Object{Annotations: map[string]string{annotationProbesPassed: c.annotation, "x": "y"}}, Data: c.stored}
			next := agentWrite(s, c.sent, noon)
			if diff := cmp.Diff(map[string]string{annotationProbesPassed: c.want, "x": "y"}, next.Annotations); diff != "" {
				t.Error(diff)
			}
			if s.Annotations[annotationProbesPassed] != c.annotation {
				t.Error("the stored annotations, which others read, were changed")
			}
		})
	}
	next := agentWrite(records.PlanSecret{Data: data("plan", planA, "plan-state", "in-progress")}, data("plan-state", "succeeded", "applied-checksum", sumA), noon)
	if next.Annotations[annotationProbesPassed] != at {
		t.Errorf("without any annotation: %v", next.Annotations)
	}
}
