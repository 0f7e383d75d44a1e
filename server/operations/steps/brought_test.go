package steps

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/server/operations"
)

func hashes(tokens ...string) (all []string) {
	for _, token := range tokens {
		all = append(all, installers.HashServerToken(token))
	}
	return all
}

// TestARestoreWithABroughtToken looks for the token that the snapshot was listed with first, and has etcd written with the agent token of
// now before anything else starts.
func TestARestoreWithABroughtToken(t *testing.T) {
	for name, c := range map[string]struct {
		listed, found string
		likely        []string
		seals         operations.TaskState
	}{
		"not known":      {"", "old", []string{"word", "old", "older"}, operations.TaskSucceeded},
		"known":          {"older", "older", []string{"older", "word", "old"}, operations.TaskSucceeded},
		"an archive":     {"old", "", []string{"old", "word", "older"}, operations.TaskSucceeded},
		"its own":        {"", "word", []string{"word", "old", "older"}, operations.TaskSkipped},
		"gone meanwhile": {"none", "word", []string{"word", "old", "older"}, operations.TaskSkipped},
	} {
		t.Run(name, func(t *testing.T) {
			r := Request{Snapshot: "/root/one", Target: "m0"}
			if c.listed != "" {
				r.TokenHash = installers.HashServerToken(c.listed)
			}
			b := newBed(t, operations.KindRestore, r, "ecw", "ec", "w")
			for _, token := range []string{"old", "older"} {
				b.in.Secrets, _, _ = b.in.Secrets.Bringing(token)
			}
			if got := r.likely(b.in.Secrets); !slices.Equal(got, hashes(c.likely...)) {
				t.Errorf("the host looks for %q", got)
			}
			b.does = func(m *Machine, task operations.Task) {
				if task.Step == "check" && c.found != "" {
					m.Output = fmt.Appendf(nil, `{"file": "/root/one", "size": 7, "sha256": "x", "tokenHash": "%s"}`, installers.HashServerToken(c.found))
				}
			}
			steps := b.run()
			seal, _ := b.in.Operation.Task("seal m0")
			if b.in.Operation.State != operations.Succeeded || seal.State != c.seals {
				t.Errorf("it is %s: %s; %+v", b.in.Operation.State, b.in.Operation.Reason, seal)
			}
			if i := slices.Index(steps, "seal m0"); i >= 0 && (steps[i-1] != "start m0" || steps[i+1] != "forget m0") {
				t.Errorf("the steps are %q", steps)
			}
			if want := hashes(cmp.Or(c.found, c.listed))[0]; b.in.Secrets.TokenHash() != want {
				t.Errorf("the cluster has the token %s", b.in.Secrets.ServerToken)
			}
		})
	}
}
