//go:build e2e

// What drover makes of the original's faults, and of bad moments.

package peer

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
)

// oneStep is a plan of one instruction.
func (c *scene) oneStep(name, script string) plans.Plan {
	return plans.Plan{Instructions: []plans.OneTimeInstruction{c.host.once(name, script)}}
}

// held is the script of an instruction that waits until release.
const held = `touch "$MADE/held"; while ! test -e "$MADE/released"; do sleep 0.05; done; rm "$MADE/held"`

func (c *scene) awaitHeld() {
	c.Helper()
	await(c.T, "the instruction to run", func() error { _, err := os.Stat(c.host.path("made/held")); return err })
}

func (c *scene) release() {
	c.Helper()
	must(c.T, os.WriteFile(c.host.path("made/released"), nil, 0o600))
}

// awaitWire waits until the requests since the n-th end with these.
func (c *scene) awaitWire(n int, want ...string) {
	c.Helper()
	await(c.T, fmt.Sprintf("%q on the wire", want), func() error {
		got := c.wire.texts(n)
		if len(got) < len(want) || !slices.Equal(got[len(got)-len(want):], want) {
			return fmt.Errorf("so far %q", got)
		}
		return nil
	})
}

// ran checks how often an instruction ran, and how often the agent's process was started.
func (c *scene) ran(name string, times, starts int) {
	c.Helper()
	if n := c.host.lines(name); n != times {
		c.Errorf("instruction %s ran %d times, want %d: %q", name, n, times, c.host.made(name))
	}
	if n := c.host.started(); n != starts {
		c.Errorf("the agent was started %d times, want %d", n, starts)
	}
}

// failureStays: the original reports a failure, and at once blanks what it reported.
func (c *scene) failureStays() {
	c.host.start()
	checksum := c.deliver(c.oneStep("bad", `echo why; test -e "$MADE/fixed"`))
	await(c.T, "the original to take its failure back", func() error {
		for _, put := range c.wire.puts(0) {
			if put.sent.state() == plans.StateFailed && len(put.sent.Data[plans.KeyFailedChecksum]) == 0 && put.status == http.StatusOK {
				return nil
			}
		}
		return errors.New("it has not yet")
	})
	stored := c.secret()
	c.checkFailure(stored, checksum)
	before, since := len(c.wire.requests()), time.Now()
	time.Sleep(quiet)
	// It compares with what it sent and sends that again in each of its passes, 5 s apart.
	puts, took := len(c.wire.puts(before)), time.Since(since)
	c.Logf("in %s: %q", took, c.wire.texts(before))
	if puts > int(took/(5*time.Second))+2 {
		c.Errorf("%d updates in %s", puts, took)
	}
	if now := c.secret(); now.Metadata.ResourceVersion != stored.Metadata.ResourceVersion {
		c.Errorf("the Secret changed from version %s to %s", stored.Metadata.ResourceVersion, now.Metadata.ResourceVersion)
	}
	c.checkFailure(c.secret(), checksum)
	must(c.T, os.WriteFile(c.host.path("made/fixed"), nil, 0o600))
	c.deliver(c.oneStep("bad", `echo why; test -e "$MADE/fixed"`))
	o := c.awaitState(plans.StateSucceeded).outcome(c.T)
	if o.FailedChecksum != "" || o.FailureCount != 0 || len(o.FailedOutput) > 0 || o.AppliedChecksum != checksum || o.Revision != 2 {
		c.Errorf("after the retry: %+v", o)
	}
	if want := "attempt 1\nattempt 1\n"; c.host.made("bad") != want {
		c.Errorf("attempts %q, want %q", c.host.made("bad"), want)
	}
	c.ran("bad", 2, 1)
}

func (c *scene) checkFailure(stored *secret, checksum string) {
	c.Helper()
	o := stored.outcome(c.T)
	if o.State != plans.StateFailed || o.FailedChecksum != checksum || o.FailureCount != 1 || string(o.FailedOutput["bad"]) != "why\n" {
		c.Errorf("the failure is not kept: %+v", o)
	}
	if o.AppliedChecksum != "" || len(stored.Data[plans.KeyAppliedPlan]) > 0 {
		c.Errorf("a plan that failed counts as applied: %q, %q", o.AppliedChecksum, stored.Data[plans.KeyAppliedPlan])
	}
}

// reopens: the server ends watches when the agent's time limit is over.
func (c *scene) reopens() {
	c.wire.watchSeconds = 2
	c.host.start()
	c.awaitWire(0, "WATCH from a version 200")
	n := len(c.wire.requests())
	c.awaitWire(n, "WATCH from a version 200")
	c.deliver(c.oneStep("step", ":"))
	c.awaitState(plans.StateSucceeded)
	c.ran("step", 1, 1)
}

// disturbOnce lets the server's side change the Secret just before a PUT of a state arrives.
func (c *scene) disturbOnce(state plans.State, change func(*secret)) {
	c.wire.disturb(func(sent *secret) {
		if sent.state() == state {
			c.wire.disturb(nil)
			c.api.change(c.given.SecretName, change)
		}
	})
}

func annotate(s *secret) { s.Metadata.Annotations = map[string]string{"changed": "yes"} }

func (c *scene) merges() {
	n := c.started()
	c.disturbOnce(plans.StateSucceeded, annotate)
	checksum := c.deliver(c.oneStep("step", ":"))
	stored := c.awaitState(plans.StateSucceeded)
	if diff := cmp.Diff([]string{"PUT in-progress 200", "PUT succeeded 409", "GET secret 200", "PUT succeeded 200"}, c.wire.settled(c.T, n)); !c.ours && diff != "" {
		c.Errorf("on the wire (-want +got):\n%s", diff)
	}
	if !slices.Contains(c.wire.settled(c.T, n), "PUT succeeded 409") {
		c.Error("there was no conflict")
	}
	if stored.Metadata.Annotations["changed"] != "yes" || stored.outcome(c.T).AppliedChecksum != checksum {
		c.Errorf("the merge lost something: %v %+v", stored.Metadata.Annotations, stored.outcome(c.T))
	}
	c.ran("step", 1, 1)
}

// conflictAtStart: nothing has run yet, so the plan is simply taken anew.
func (c *scene) conflictAtStart() {
	n := c.started()
	c.disturbOnce(plans.StateInProgress, annotate)
	c.deliver(c.oneStep("step", ":"))
	c.awaitState(plans.StateSucceeded)
	if diff := cmp.Diff([]string{"PUT in-progress 409", "GET secret 200", "PUT in-progress 200", "PUT succeeded 200"}, c.wire.settled(c.T, n)); diff != "" {
		c.Errorf("on the wire (-want +got):\n%s", diff)
	}
	c.ran("step", 1, 1)
}

// newerPlan: the result of a plan that was replaced while it ran belongs to no plan.
func (c *scene) newerPlan() {
	c.started()
	c.deliver(c.oneStep("first", held))
	c.awaitHeld()
	checksum := c.deliver(c.oneStep("second", ":"))
	c.release()
	o := c.awaitState(plans.StateSucceeded).outcome(c.T)
	if _, reported := o.AppliedOutput["first"]; reported || o.AppliedChecksum != checksum || o.Revision != 2 {
		c.Errorf("the outcome is %+v", o)
	}
	c.ran("first", 1, 2)
	c.ran("second", 1, 2)
}

// askedAgain: the original copies the old result over the new request; drover does not let it.
func (c *scene) askedAgain() {
	n := c.started()
	plan := c.oneStep("step", held)
	c.deliver(plan)
	c.awaitHeld()
	c.deliver(plan)
	c.release()
	stored := c.awaitState(plans.StateSucceeded)
	if diff := cmp.Diff([]string{"PUT in-progress 200", "PUT succeeded 409", "GET secret 200", "PUT succeeded 200", "PUT in-progress 200", "PUT succeeded 200"}, c.wire.settled(c.T, n)); diff != "" {
		c.Errorf("on the wire (-want +got):\n%s", diff)
	}
	if o := stored.outcome(c.T); o.Revision != 2 {
		c.Errorf("revision %d, want 2", o.Revision)
	}
	c.ran("step", 2, 1)
}

// conflictAfterFailure: the original gives up and ends; the next one runs the plan again.
func (c *scene) conflictAfterFailure() {
	c.started()
	c.disturbOnce(plans.StateFailed, annotate)
	checksum := c.deliver(c.oneStep("bad", "echo why; false"))
	c.awaitState(plans.StateFailed)
	c.checkFailure(c.secret(), checksum)
	c.ran("bad", 2, 2)
}

// legacy is the flow of servers and agents that know no plan-state.
func (c *scene) legacy() {
	deliver := func(p plans.Plan, maxFailures int) (checksum string) {
		text := encode(c.T, p)
		c.api.change(c.given.SecretName, func(s *secret) {
			if s.Data == nil {
				s.Data = map[string][]byte{}
			}
			s.Data[plans.KeyPlan], s.Data[plans.KeyMaxFailures] = text, []byte(strconv.Itoa(maxFailures))
			delete(s.Data, plans.KeyProbeStatuses)
		})
		return plans.Checksum(text)
	}
	awaitOutcome := func(what string, check func(plans.Outcome) bool) *secret {
		c.Helper()
		var stored *secret
		await(c.T, what, func() error {
			stored = c.secret()
			if o := stored.outcome(c.T); !check(o) {
				return fmt.Errorf("it is %+v", o)
			}
			return nil
		})
		return stored
	}
	n := c.started()
	first := deliver(c.oneStep("good", "echo fine"), plans.Unlimited)
	stored := awaitOutcome("the plan to be applied", func(o plans.Outcome) bool { return o.AppliedChecksum == first })
	if o := stored.outcome(c.T); o.State != plans.StateNone || o.SuccessCount != 1 || string(o.AppliedOutput["good"]) != "fine\n" {
		c.Errorf("the outcome is %+v", o)
	}
	if diff := cmp.Diff([]string{"PUT  200"}, c.wire.settled(c.T, n)); !c.ours && diff != "" {
		c.Errorf("on the wire (-want +got):\n%s", diff)
	}
	c.ran("good", 1, 1)
	c.host.restart()
	awaitOutcome("the start to force the plan", func(o plans.Outcome) bool { return o.SuccessCount == 2 })
	c.ran("good", 2, 2)

	second := deliver(c.oneStep("bad", "echo why; false"), 1)
	awaitOutcome("the plan to fail", func(o plans.Outcome) bool { return o.FailedChecksum == second })
	n = len(c.wire.requests())
	time.Sleep(quiet)
	if idle := c.wire.texts(n); len(idle) > 1 { // its own echo may be one
		c.Errorf("after its last failure it asked for %q", idle)
	}
	if o := c.secret().outcome(c.T); o.FailureCount != 1 || string(o.FailedOutput["bad"]) != "why\n" || o.AppliedChecksum != first {
		c.Errorf("the outcome is %+v", o)
	}
	if applied := plans.Checksum(c.secret().Data[plans.KeyAppliedPlan]); c.server != nil && applied != first {
		c.Errorf("the applied plan is %s, want %s", applied, first)
	}
	c.ran("bad", 1, 2)
}

// registersAgain is what an upgrade by install.sh does.
func (c *scene) registersAgain() {
	c.started()
	c.deliver(c.oneStep("step", ":"))
	before := c.awaitState(plans.StateSucceeded)
	again := c.server.register(c.id, c.given)
	if again.SecretName != c.given.SecretName || again.token(c.T) == c.given.token(c.T) {
		c.Fatalf("registered again as %s", again.SecretName)
	}
	get := func(with connection) int {
		return statusOf(c.api.call(http.MethodGet, secretPath(with.SecretName), bearer(with.token(c.T)), nil, nil))
	}
	if status := get(c.given); status != http.StatusOK {
		c.Errorf("the token in use ended before the new one was used: %d", status)
	}
	c.host.connect(again.through(c.T, c.api.url, c.wire.url))
	n := len(c.wire.requests())
	c.host.restart()
	c.awaitWire(n, c.startUp()...)
	if status := get(c.given); status != http.StatusUnauthorized {
		c.Errorf("the old token after the new one was used: %d, want 401", status)
	}
	if now := c.secret(); now.Metadata.UID != before.Metadata.UID {
		c.Errorf("the Secret is another one: %s, was %s", now.Metadata.UID, before.Metadata.UID)
	}
	c.ran("step", 1, 2)
	c.deliver(c.oneStep("next", ":"))
	c.awaitState(plans.StateSucceeded)
	c.ran("next", 1, 2)
}

// stranger is an agent with the token of another machine.
func (c *scene) stranger() {
	other := c.server.register(id(c.T, 2))
	path := secretPath(c.given.SecretName)
	mine := c.secret()
	collection := "/api/v1/namespaces/" + namespace + "/secrets"
	selected := "?fieldSelector=metadata.name%3D" + c.given.SecretName
	for _, tc := range []struct {
		name, method, path, token string
		body                      any
		want                      int
	}{
		{"reading", http.MethodGet, path, other.token(c.T), nil, http.StatusForbidden},
		{"writing", http.MethodPut, path, other.token(c.T), mine, http.StatusForbidden},
		{"listing", http.MethodGet, collection + selected, other.token(c.T), nil, http.StatusForbidden},
		{"watching", http.MethodGet, collection + selected + "&watch=true", other.token(c.T), nil, http.StatusForbidden},
		{"listing all", http.MethodGet, collection, other.token(c.T), nil, http.StatusForbidden},
		{"one's own", http.MethodGet, secretPath(other.SecretName), other.token(c.T), nil, http.StatusOK},
		{"the registration token", http.MethodGet, path, c.server.registrationToken, nil, http.StatusUnauthorized},
		{"a token cut short", http.MethodGet, path, c.given.token(c.T)[:60], nil, http.StatusUnauthorized},
	} {
		if got := statusOf(c.api.call(tc.method, tc.path, bearer(tc.token), tc.body, nil)); got != tc.want {
			c.Errorf("%s: status %d, want %d", tc.name, got, tc.want)
		}
	}
	wrong := other.through(c.T, c.api.url, c.wire.url)
	wrong.SecretName = c.given.SecretName
	c.host.connect(wrong)
	c.deliver(c.oneStep("step", ":"))
	c.host.start()
	await(c.T, "the stranger to be refused", func() error {
		if got := c.wire.texts(0); !slices.Contains(got, "WATCH from the start 403") || !slices.Contains(got, "LIST 403") {
			return fmt.Errorf("so far %q", got)
		}
		return nil
	})
	if now := c.secret(); now.state() != plans.StatePending {
		c.Errorf("the plan became %q by a stranger", now.state())
	}
	c.ran("step", 0, 1)
	if n := len(c.wire.puts(0)); n != 0 {
		c.Errorf("the stranger wrote %d times", n)
	}
}

// TestOriginalAgentOutlivesTheServer kills the server while the agent has nothing to do, and
// while it works. The agent reaches it without anything between them.
func TestOriginalAgentOutlivesTheServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := &scene{T: t, server: s, api: &s.api, id: id(t, 1)}
	c.given = s.register(c.id)
	c.host = newHost(t, original(t), c.given)
	c.host.start()
	c.deliver(c.oneStep("before", ":"))
	c.awaitState(plans.StateSucceeded)

	s.kill()
	s.start()
	began := time.Now()
	c.deliver(c.oneStep("idle", ":"))
	c.awaitState(plans.StateSucceeded)
	t.Logf("a plan went through %s after the server was back", time.Since(began).Round(time.Millisecond))
	c.ran("before", 1, 1)
	c.ran("idle", 1, 1)

	c.deliver(c.oneStep("working", held))
	c.awaitHeld()
	s.kill()
	c.release()
	await(t, "the original to end, as it cannot report its result", func() error {
		if c.host.started() == 1 {
			return errors.New("it runs")
		}
		return nil
	})
	s.start()
	o := c.awaitState(plans.StateSucceeded).outcome(t)
	if string(o.AppliedOutput["working"]) != "" || o.Revision != 3 {
		t.Errorf("the outcome is %+v", o)
	}
	if n := c.host.lines("working"); n != 2 {
		t.Errorf("the instruction ran %d times, want 2: once more after the result was lost", n)
	}
}
