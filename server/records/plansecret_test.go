package records

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestKeysOfPlanSecrets(t *testing.T) {
	machine := NewMachineKey("fleet-default", "custom-0a1b2c3d4e5f")
	if got := MachineOfPlanSecret(machine.PlanSecret()); got != machine {
		t.Errorf("machine of %s = %s", machine.PlanSecret(), got)
	}
}

func TestPlanSecretIsStoredWhole(t *testing.T) {
	object := Object{
		Namespace: "fleet-default", Name: "custom-0a1b2c3d4e5f-machine-plan", UID: "u", Generation: 2, Created: time.Unix(1e9, 0).UTC(),
		Labels: map[string]string{"a": `"<é>`, "": "c"}, Annotations: map[string]string{"b": "\n"}, Deleting: time.Unix(2e9, 5).In(time.FixedZone("", 3600)),
	}
	plan := []byte(`{"files":[]}`)
	for name, data := range map[string]map[string][]byte{
		"nothing":        nil,
		"a plan":         {"plan": plan, "plan-state": []byte("pending"), "failed-output": {}},
		"applied":        {"plan": plan, "appliedPlan": bytes.Clone(plan), "applied-checksum": []byte("x")},
		"another":        {"plan": plan, "appliedPlan": []byte("{}")},
		"no plan":        {"appliedPlan": plan},
		"both empty":     {"plan": {}, "appliedPlan": {}},
		"both absent":    {"plan": nil, "appliedPlan": nil},
		"a strange key":  {"\"\n\xff": {0, 255}},
		"only no values": {"a": nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := PlanSecret{Object: object, Data: data}
			text, err := s.AppendJSON([]byte("before "))
			if err != nil {
				t.Fatal(err)
			}
			text = bytes.TrimPrefix(text, []byte("before "))
			var got PlanSecret
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			// What encoding/json makes of it is what is wanted.
			general, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			var want PlanSecret
			if err := json.Unmarshal(general, &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", text, diff)
			}
			if n := strings.Count(string(text), "eyJmaWxlcyI6W119"); n > 1 {
				t.Errorf("the plan is stored %d times: %s", n, text)
			}
		})
	}
}

func TestPlanSecretThatIsNotOne(t *testing.T) {
	for _, text := range []string{`[]`, `{"data":1}`, `{"planIsApplied":true}`, `{"planIsApplied":"yes"}`, `{`} {
		var s PlanSecret
		if err := json.Unmarshal([]byte(text), &s); err == nil && s.Data != nil {
			t.Errorf("%s was read as %+v", text, s)
		}
	}
}
