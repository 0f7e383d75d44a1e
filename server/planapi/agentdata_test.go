package planapi

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
)

// The quick way and the general one read the same out of every text.
func TestAgentData(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       map[string][]byte // nil: refused
	}{
		{"nothing", ``, map[string][]byte{}},
		{"null", `null`, map[string][]byte{}},
		{"empty", " { } ", map[string][]byte{}},
		{"own keys of many", `{"plan":"e30=","plan-state":"cGVuZGluZw==","failed-output":"","other":"no base64"}`,
			map[string][]byte{"plan-state": []byte("pending"), "failed-output": {}}},
		{"white space", "{\n\t\"plan-state\" :\r \"\" ,\n \"plan-revision\": \"MQ==\"\n}", map[string][]byte{"plan-state": {}, "plan-revision": []byte("1")}},
		{"null value", `{"plan-state":null,"plan-revision":"MQ=="}`, map[string][]byte{"plan-state": {}, "plan-revision": []byte("1")}},
		{"twice", `{"plan-state":"MQ==","plan-state":"Mg=="}`, map[string][]byte{"plan-state": []byte("2")}},
		{"escapes", `{"plan\u002dstate":"MQ==","plan-revision":"\u004dg=="}`, map[string][]byte{"plan-state": []byte("1"), "plan-revision": []byte("2")}},
		{"other values", `{"other":{"plan-state":"MQ=="},"plan-state":"Mg=="}`, map[string][]byte{"plan-state": []byte("2")}},
		{"quotes in others", `{"other":"\"","plan-state":"Mg=="}`, map[string][]byte{"plan-state": []byte("2")}},
		{"no base64", `{"plan-state":"*"}`, nil},
		{"cut base64", `{"plan-state":"MQ"}`, nil},
		{"a number", `{"plan-state":1}`, nil},
		{"no object", `["plan-state"]`, nil},
		{"text", `"plan-state"`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.data != "" && !json.Valid([]byte(c.data)) {
				t.Fatal("no JSON")
			}
			got, err := agentData(agentValues(c.data))
			if (err != nil) != (c.want == nil) {
				t.Fatalf("%v, %v", got, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" && err == nil {
				t.Error(diff)
			}
			general, err := anyAgentData(agentValues(c.data), plans.AgentKeys())
			if (err != nil) != (c.want == nil) {
				t.Errorf("the general way: %v, %v", general, err)
			}
			if diff := cmp.Diff(general, got); diff != "" && err == nil {
				t.Error(diff)
			}
		})
	}
}
