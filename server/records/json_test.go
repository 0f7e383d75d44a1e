package records

import (
	"bytes"
	"encoding/json"
	"testing"
	"testing/quick"
)

func TestStringsAsEncodingJSONWritesThem(t *testing.T) {
	same := func(s string) bool {
		want, err := json.Marshal(s)
		return err == nil && bytes.Equal(AppendString(nil, s), want)
	}
	for _, s := range []string{"", "plain", `"`, `\`, "<&>", "\x00", "\x7f", "é", "\u2028", "\xff"} {
		if !same(s) {
			t.Errorf("%q is written as %s", s, AppendString(nil, s))
		}
	}
	maps := func(m map[string]string) bool {
		want, err := json.Marshal(struct {
			A int               `json:"a"`
			M map[string]string `json:"m,omitempty"`
		}{1, m})
		return err == nil && bytes.Equal(append(AppendStrings([]byte(`{"a":1`), "m", m), '}'), want)
	}
	if err := quick.Check(maps, nil); err != nil {
		t.Error(err)
	}
}

func BenchmarkPlanSecret(b *testing.B) {
	s := PlanSecret{Object: Object{Namespace: "a", Name: "b", UID: "u", Labels: map[string]string{"c": "d", "e": "f"}}, Data: map[string][]byte{}}
	for _, key := range []string{"plan", "appliedPlan", "plan-state", "plan-revision", "applied-output", "failure-count", "success-count"} {
		s.Data[key] = bytes.Repeat([]byte("x"), 300)
	}
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buffer, err = s.AppendJSON(buffer[:0]); err != nil {
			b.Fatal(err)
		}
	}
}
