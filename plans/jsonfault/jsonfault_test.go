package jsonfault

import (
	"encoding/json"
	"testing"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": hunter2}`:    "is not JSON, at byte 7",
		`{"a": "hunter2"}`:  "a is a string where a int belongs",
		`["hunter2"]`:       "a array where an object belongs",
		`{"a": 1, "hunter2`: "is not JSON, at byte 17",
	} {
		var into struct {
			A int `json:"a"`
		}
		err := json.Unmarshal([]byte(text), &into)
		if err == nil {
			t.Errorf("%q is taken", text)
			continue
		}
		if got := Plain(err).Error(); got != want {
			t.Errorf("%q: %s, want %s (from %v)", text, got, want, err)
		}
	}
}
