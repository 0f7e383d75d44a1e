package drop

import (
	"bytes"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
)

func FuzzParsePosition(f *testing.F) {
	outputs, err := plans.EncodeOutputs(map[string][]byte{"a": []byte("x\n")})
	if err != nil {
		f.Fatal(err)
	}
	whole, err := position{
		AppliedChecksum: "ab", Output: outputs, ProbeStatus: map[string]plans.ProbeStatus{"p": {Healthy: true}},
		Delivery: "ab/1", AppliedDelivery: "ab/1", AppliedTime: time.Unix(1e9, 5).UTC(), FailedChecksum: "cd", FailureCount: 3, Failure: "why",
	}.marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"output":"H4sI","failureCount":-1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePosition(b)
		if err != nil {
			return
		}
		once, err := p.marshal()
		if err != nil {
			t.Fatalf("read but not written: %v", err)
		}
		again, err := parsePosition(once)
		if err != nil {
			t.Fatalf("written but not read: %v", err)
		}
		twice, err := again.marshal()
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%s\n%s\n%v", once, twice, err)
		}
		if retryAfter(p.FailureCount) > retryMost {
			t.Error("waits longer than the longest")
		}
	})
}

func TestRetryAfter(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 30 * time.Second, 1: 30 * time.Second, 2: time.Minute, 4: 4 * time.Minute, 5: 8 * time.Minute, 6: 10 * time.Minute, 1 << 30: 10 * time.Minute} {
		if got := retryAfter(failures); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
	}
}
