package planapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/listing"
	"github.com/drover-project/drover/server/records"
)

// FuzzAgentUpdate holds, for whatever a machine sends, that it changes its own keys only,
// moves the state only as it may, and that the answer can be read.
func FuzzAgentUpdate(f *testing.F) {
	f.Add("pending", `{"kind":"Secret","metadata":{"resourceVersion":"7"},"data":{"plan-state":"aW4tcHJvZ3Jlc3M="}}`)
	f.Add("failed", `{"metadata":{"resourceVersion":"7","labels":{"a":"b"}},"data":{"plan":"e30=","failed-output":null,"plan-state":"ZmFpbGVk"}}`)
	f.Add("in-progress", `{"metadata":{"resourceVersion":"7"},"data":{"plan-state":"c3VjY2VlZGVk","probe-statuses":"bnVsbA==","applied-checksum":""},"stringData":{"plan":"x"}}`)
	f.Add("", `{"metadata":{"resourceVersion":"7"},"data":null}`)
	a := &API{now: func() time.Time { return noon }}
	f.Fuzz(func(t *testing.T, state, content string) {
		d := document{Key: "ns/one", Revision: 7, Value: records.PlanSecret{
			Object: records.Object{Namespace: "ns", Name: "one", UID: "u", Labels: map[string]string{"l": "1"}},
			Data:   data("plan", planA, "plan-state", state, "max-failures", "-1", "failed-output", "why"),
		}}
		next, _, err := a.agentChange([]byte(content))(d)
		if err != nil {
			return
		}
		for key, value := range next.Data {
			if value == nil {
				t.Errorf("%s is nil", key)
			}
			if !slices.Contains(plans.AgentKeys(), key) && key != plans.KeyAppliedPlan && string(d.Value.Data[key]) != string(value) {
				t.Errorf("the server's key %s became %q", key, value)
			}
		}
		for key := range d.Value.Data {
			if _, ok := next.Data[key]; !ok {
				t.Errorf("%s is gone", key)
			}
		}
		from, to := plans.State(state), plans.State(next.Data["plan-state"])
		if from != to && !plans.MayMove(plans.Agent, from, to) {
			t.Errorf("the state moved from %q to %q", from, to)
		}
		if from == plans.StateFailed && string(next.Data["failed-output"]) != "why" {
			t.Errorf("the first failure became %q", next.Data["failed-output"])
		}
		if next.UID != "u" || next.Labels["l"] != "1" || len(next.Labels) != 1 {
			t.Errorf("metadata became %+v", next.Object)
		}
		d.Value = next
		var back body[map[string][]byte]
		if err := json.Unmarshal(encodeSecret(d), &back); err != nil {
			t.Errorf("the answer cannot be read: %v", err)
		}
	})
}

// FuzzListOptions holds that a query is understood or refused, and never more than the
// path's namespace is covered.
func FuzzListOptions(f *testing.F) {
	f.Add("fieldSelector=metadata.name%3Dx&watch=1&resourceVersion=5")
	f.Add("labelSelector=a%20in%20(b,c)&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&watch=true")
	f.Add("timeoutSeconds=99999999999&continue=x&limit=-1")
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.RawQuery = query
		r.SetPathValue("namespace", "ns")
		o, err := readListOptions(r)
		if err != nil {
			return
		}
		if o.scope.Covers("other/x") || o.scope.Key != "" && o.scope.Covers("ns/"+o.scope.Key) {
			t.Errorf("%q covers %+v", query, o.scope)
		}
		if d := o.Duration(); d < 0 || d > listing.MaxWatch {
			t.Errorf("%q lasts %v", query, d)
		}
		o.scope.Matches(records.Object{Namespace: "ns", Name: "x"})
	})
}
