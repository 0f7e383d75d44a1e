package plans_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
)

// data makes the data of a Secret from texts.
func data(kv ...string) map[string][]byte {
	d := map[string][]byte{}
	for i := 0; i+1 < len(kv); i += 2 {
		d[kv[i]] = []byte(kv[i+1])
	}
	return d
}

func TestReadDelivery(t *testing.T) {
	tests := []struct {
		name string
		data map[string][]byte
		want plans.Delivery
	}{
		{"nothing", nil, plans.Delivery{MaxFailures: -1, FailureThreshold: 1, ProbePeriod: 5 * time.Second}},
		{
			"everything", data("plan", "{}", "plan-state", "pending", "max-failures", "3", "failure-threshold", "-1", "probe-period-seconds", "7"),
			plans.Delivery{Plan: []byte("{}"), State: "pending", MaxFailures: 3, FailureThreshold: -1, ProbePeriod: 7 * time.Second},
		},
		{
			"what cannot be read counts as absent", data("max-failures", "many", "failure-threshold", "", "probe-period-seconds", "5s"),
			plans.Delivery{MaxFailures: -1, FailureThreshold: 1, ProbePeriod: 5 * time.Second},
		},
		{"a period of zero would spin", data("probe-period-seconds", "0"), plans.Delivery{MaxFailures: -1, FailureThreshold: 1, ProbePeriod: 5 * time.Second}},
		{"a negative period", data("probe-period-seconds", "-3"), plans.Delivery{MaxFailures: -1, FailureThreshold: 1, ProbePeriod: 5 * time.Second}},
		{"an endless period", data("probe-period-seconds", "9223372036854775807"), plans.Delivery{MaxFailures: -1, FailureThreshold: 1, ProbePeriod: (1<<31 - 1) * time.Second}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, plans.ReadDelivery(test.data)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := plans.ReadDelivery(data("plan", "{}")).Checksum(); got != plans.Checksum([]byte("{}")) {
		t.Errorf("checksum %s", got)
	}
}

func TestDeliver(t *testing.T) {
	before := data("plan", "old", "plan-state", "succeeded", "plan-revision", "4", "probe-statuses", `{"web":{"healthy":true}}`, "somebody's", "key", "max-failures", "5")
	copied := maps.Clone(before)
	got := plans.Deliver(before, []byte("new"))
	want := data("plan", "new", "plan-state", "pending", "plan-revision", "4", "somebody's", "key", "max-failures", "-1", "failure-threshold", "1")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(copied, before); diff != "" {
		t.Errorf("the caller's data was changed: %s", diff)
	}
	if got := plans.Deliver(nil, nil); string(got["plan-state"]) != "pending" {
		t.Errorf("%v", got)
	}
}

func TestReadOutcomeReportsEachBadKey(t *testing.T) {
	good := packed(t, `{"a":"b25lCg=="}`)
	d := data("plan-state", "failed", "plan-revision", "x", "applied-checksum", "ab", "failure-count", "2",
		"failed-output", "no gzip", "applied-periodic-output", "nor this", "probe-statuses", "[")
	d["applied-output"] = good
	o, err := plans.ReadOutcome(d)
	if err == nil {
		t.Fatal("no error")
	}
	var keys []string
	for line := range strings.Lines(err.Error()) {
		key, _, _ := strings.Cut(strings.TrimPrefix(line, "secret key "), ":")
		keys = append(keys, key)
	}
	if diff := cmp.Diff([]string{"failed-output", "applied-periodic-output", "probe-statuses"}, keys); diff != "" {
		t.Error(diff)
	}
	// The others are not hidden by it.
	want := plans.Outcome{State: "failed", AppliedChecksum: "ab", AppliedOutput: map[string][]byte{"a": []byte("one\n")}, FailureCount: 2}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Error(diff)
	}
}

func TestWriteKeepsTheServersKeys(t *testing.T) {
	d := data("plan", "{}", "somebody's", "key", "failed-output", "old", "plan-state", "pending")
	if err := (plans.Outcome{}).Write(d); err != nil {
		t.Fatal(err)
	}
	// In the legacy flow there is no state to write.
	if string(d["plan"]) != "{}" || string(d["somebody's"]) != "key" || string(d["plan-state"]) != "pending" {
		t.Errorf("%q", d)
	}
	if _, ok := d["plan-revision"]; ok {
		t.Error("a revision in the legacy flow")
	}
	for _, key := range plans.AgentKeys() {
		if key == "plan-state" || key == "plan-revision" || key == "host-report" {
			continue
		}
		if _, ok := d[key]; !ok {
			t.Errorf("%s is not written", key)
		}
	}
	if v, ok := d["failed-output"]; !ok || len(v) != 0 {
		t.Errorf("failed-output %q", v)
	}
}

func TestMergeAgentKeys(t *testing.T) {
	into := data("plan", "new", "max-failures", "3", "plan-state", "pending", "applied-checksum", "old", "extra", "kept")
	from := data("plan", "old", "max-failures", "9", "plan-state", "succeeded", "applied-checksum", "sum", "failed-output", "", "mine", "not ours to write")
	before := maps.Clone(into)
	got := plans.MergeAgentKeys(into, from)
	want := data("plan", "new", "max-failures", "3", "plan-state", "succeeded", "applied-checksum", "sum", "failed-output", "", "extra", "kept")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, into); diff != "" {
		t.Errorf("the caller's data was changed: %s", diff)
	}
	if got := plans.MergeAgentKeys(nil, from); len(got) != 3 {
		t.Errorf("%q", got)
	}
}

func TestAgentKeys(t *testing.T) {
	want := []string{
		"plan-state", "plan-revision", "applied-checksum", "applied-output", "applied-periodic-output", "failed-checksum",
		"failed-output", "failure-count", "success-count", "last-apply-time", "probe-statuses", "host-report",
	}
	got := plans.AgentKeys()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, key := range []string{"plan", "max-failures", "failure-threshold", "probe-period-seconds", "appliedPlan"} {
		if slices.Contains(got, key) {
			t.Errorf("%s belongs to the server", key)
		}
	}
}
