package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEachReadsWhatEncodingJSONReads(t *testing.T) {
	for _, text := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":"b\"}","c":{"d":["}"]},"e":null}`, `{"a\\":"\\","b":[1,{"c":"]"}], "d" : true }`, "{\n\"a\": -1.5e3\n}",
	} {
		got := map[string]string{}
		if err := each([]byte(text), func(name, value []byte) bool { got[string(name)] = string(value); return true }); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		as := map[string]string{}
		for name, value := range want {
			quoted, _ := json.Marshal(name)
			as[string(quoted[1:len(quoted)-1])] = string(value)
		}
		if diff := cmp.Diff(as, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", text, diff)
		}
	}
}

func TestEachRefusesWhatIsCutOff(t *testing.T) {
	for _, text := range []string{``, `[]`, `{`, `{"a`, `{"a"`, `{"a":`, `{"a":"b`, `{"a":{"b":1}`, `{1:2}`} {
		if err := each([]byte(text), func(_, _ []byte) bool { return true }); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
