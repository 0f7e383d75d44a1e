package planapi

import (
	"bytes"
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

// agentBodies are updates in many forms.
var agentBodies = []string{
	`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7","labels":{"a":"{\"}"}},"data":{"plan":"e30=","plan-state":"cGVuZGluZw=="},"type":"x"}`,
	`{"data":{"plan-state":"MQ=="},"metadata":{"name":"a"}}`,
	` { "metadata" : { "ownerReferences":[{},[1,2]] } , "data" : { } , "immutable" : true } `,
	`{"data":null}`, `{}`, ``, `null`, `[]`, `{"data":{}}x`, `{"data":{},}`, `{"data":{"a":"b"}`, `{"data":{"a":1}}`, `{"data":{"a" 1}}`,
	`{"data":{"plan-state":"MQ=="},"data":{"plan-state":"Mg=="}}`, `{"d\u0061ta":{"plan-state":"MQ=="}}`, `{"data":1,"immutable":false}`, `{"data":[}`, `{"data":]}`,
	`{"stringData":{"a":"b,}"},"data":{"plan-revision":"MQ=="},"kind":"Secret"}`, `{"data":"\"","kind":"Secret"}`, `{"immutable":tru,"data":{}}`,
}

// sameAgentBody compares the quick way of reading an update with the general one, which
// refuses a few texts more: characters that JSON strings may not have, in data that no program reads.
func sameAgentBody(t *testing.T, text []byte) {
	t.Helper()
	var general body[agentValues]
	generalErr := decodeBody(text, &general)
	quick, quickErr := readAgentBody(text)
	if generalErr != nil {
		return
	}
	if quickErr != nil {
		t.Fatalf("%q: %v", text, quickErr)
	}
	want, wantErr := agentData(general.Data)
	got, gotErr := agentData(quick.Data)
	general.Data, quick.Data = nil, nil
	if (wantErr == nil) != (gotErr == nil) || cmp.Diff(want, got) != "" || cmp.Diff(general, quick) != "" {
		t.Errorf("%q: %v, %v, want %v, %v; %s", text, got, gotErr, want, wantErr, cmp.Diff(general, quick))
	}
}

func TestAgentBody(t *testing.T) {
	for _, text := range agentBodies {
		sameAgentBody(t, []byte(text))
	}
	if _, data, ok := cutData([]byte(agentBodies[1])); !ok || string(data) != `{"plan-state":"MQ=="}` {
		t.Errorf("an agent's update takes the general way: %q", data)
	}
	for _, broken := range []string{`{"data":{}}x`, `{"data":{},}`, `{"data":[}`, `{"data":{"a":"b"}`, `{"data":]}`} {
		b, err := readAgentBody([]byte(broken))
		if err == nil {
			_, err = agentData(b.Data)
		}
		if err == nil {
			t.Errorf("%s is taken", broken)
		}
	}
}

func FuzzAgentBody(f *testing.F) {
	for _, text := range agentBodies {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, name := range [][]byte{[]byte(`"data"`), []byte(`"d`)} { // encoding/json takes DATA for data too, which no client sends
			if bytes.Count(bytes.ToLower(text), name) > 1 {
				return
			}
		}
		sameAgentBody(t, text)
	})
}
