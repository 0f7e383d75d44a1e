package remote

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
)

// TestAFailureIsNamedInTheStatus: who looks at the agent need not look into the Secret.
func TestAFailureIsNamedInTheStatus(t *testing.T) {
	failed := func(state, checksum, said string) *Secret {
		output, err := plans.EncodeOutputs(map[string][]byte{plans.FailureOutput: []byte(said), "i": []byte("much\n")})
		if err != nil {
			t.Fatal(err)
		}
		return secretOf(map[string]string{
			"plan": planA, "plan-state": state, "failed-checksum": checksum, "failed-output": string(output),
			"failure-count": "2", "max-failures": "2", "last-apply-time": aMinuteAgo,
		})
	}
	for _, tc := range []struct {
		name   string
		secret *Secret
		want   string
	}{
		{"the first line", failed("failed", sum(planA), "file /x: no such device\nand more\n"),
			"the plan failed (file /x: no such device); the server starts it again"},
		{"the flow without states", failed("", sum(planA), "exit code 3\n"), "the plan failed 2 times (exit code 3) and is not tried again"},
		{"a long one is cut", failed("failed", sum(planA), strings.Repeat("x", 5000)),
			"the plan failed (" + strings.Repeat("x", maxReason) + "); the server starts it again"},
		{"of another plan", failed("failed", sum(planB), "exit code 3\n"), "the plan failed; the server starts it again"},
		{"not reported, by the original agent", failed("failed", sum(planA), ""), "the plan failed; the server starts it again"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Decide(tc.secret, Memory{UID: "u1"}, noon.Add(time.Hour))
			if d.Why != tc.want {
				t.Errorf("%q, want %q", d.Why, tc.want)
			}
		})
	}
}
