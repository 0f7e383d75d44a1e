//go:build e2e

// The original rancher-system-agent under drover's server.

package peer

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drover-project/drover/plans"
)

// quiet is how long an agent without work is listened to.
const quiet = 15 * time.Second

// scene is a host with an agent, registered at a server that it reaches by a wire.
type scene struct {
	*testing.T
	api    *api
	server *server // nil under Kubernetes
	ours   bool    // the agent is drover's
	wire   *wire
	host   *host
	id     string
	given  connection
}

// secret is the name of the machine's plan Secret.
func (c *scene) secret() *secret { c.Helper(); return c.api.secret(c.given.SecretName) }

func (c *scene) deliver(p plans.Plan) (checksum string) {
	c.Helper()
	text := encode(c.T, p)
	c.api.deliver(c.given.SecretName, text)
	return plans.Checksum(text)
}

// awaitState waits until the present delivery is in a state, and is what is stored then.
func (c *scene) awaitState(state plans.State) *secret {
	c.Helper()
	var last *secret
	await(c.T, "the plan to be "+string(state), func() error {
		if last = c.secret(); last.state() != state {
			return fmt.Errorf("it is %q", last.state())
		}
		return nil
	})
	return last
}

// newScene registers a machine; its agent is not started.
func newScene(t *testing.T, s *server, agent string) *scene {
	t.Helper()
	c := &scene{T: t, server: s.in(t), id: id(t, 1)}
	c.api = &c.server.api
	c.given = c.server.register(c.id)
	c.wire = newWire(c.server)
	c.host = newHost(t, agent, c.given.through(t, s.url, c.wire.url))
	return c
}

func TestOriginalAgent(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	agent := original(t)
	t.Logf("the original says: %s", strings.TrimSpace(run(t, agent, "--version")))
	for _, tc := range []struct {
		name string
		run  func(*scene)
	}{
		{"checks the connection info as install.sh does", (*scene).validates},
		{"applies a plan and then is quiet", func(c *scene) { c.appliesAndIsQuiet() }},
		{"applies a plan with requests of an older generation", func(c *scene) {
			c.wire.older = true
			c.appliesAndIsQuiet("DISABLE_HTTP2=1")
		}},
		{"applies a plan of a server without plan-state", (*scene).legacy},
		{"reports a failure that stays", (*scene).failureStays},
		{"opens its watch again", (*scene).reopens},
		{"merges after a conflict", (*scene).merges},
		{"starts over after a conflict before the start", (*scene).conflictAtStart},
		{"leaves a plan for a newer one", (*scene).newerPlan},
		{"runs the same plan again when asked while it runs", (*scene).askedAgain},
		{"ends at a conflict after a failure, and reports it after all", (*scene).conflictAfterFailure},
		{"goes on after a second registration", (*scene).registersAgain},
		{"sees nothing with another machine's token", (*scene).stranger},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.run(newScene(t, s, agent))
		})
	}
}

func (c *scene) validates() {
	for _, args := range [][]string{{"validate-connection", c.host.path("rancher2_connection_info.json")}, {"validate-config", c.host.path("config.yaml")}} {
		run(c.T, c.host.binary, args...)
	}
}

// startUp is what the original asks before it takes plans.
func (c *scene) startUp() []string {
	all := []string{"GET /version 200", "GET /version 200"}
	if c.wire.older {
		all = append(all, "WATCH from the start 400", "LIST 200", "WATCH from a version 200")
	} else {
		all = append(all, "WATCH from the start 200")
	}
	return append(all, "GET /api 200", "GET /apis 200") // which say all at once, here and in Kubernetes
}

// started starts the agent and waits until it takes plans; the next request has the number that is returned.
func (c *scene) started(env ...string) (requests int) {
	c.Helper()
	c.host.start(env...)
	if c.ours {
		await(c.T, "the agent's watch", func() error {
			if got := c.wire.texts(0); !slices.Contains(got, "WATCH from the start 200") {
				return fmt.Errorf("so far %q", got)
			}
			return nil
		})
		return len(c.wire.requests())
	}
	want := c.startUp()
	await(c.T, "the start-up sequence", func() error {
		if got := c.wire.texts(0); len(got) < len(want) {
			return fmt.Errorf("so far %q", got)
		}
		return nil
	})
	// The watch from a version and the questions after the list come from two goroutines.
	if diff := cmp.Diff(want, c.wire.settled(c.T, 0), cmpopts.SortSlices(strings.Compare)); diff != "" {
		c.Errorf("start-up (-want +got):\n%s", diff)
	}
	return len(want)
}

// appliesAndIsQuiet is the whole good path, step by step on the wire.
func (c *scene) appliesAndIsQuiet(env ...string) {
	n := c.started(env...)
	well := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer well.Close()
	sick := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer sick.Close()
	checksum := c.deliver(plans.Plan{
		Files:        []plans.File{c.host.file("a/conf", "key=val\n", "0640")},
		Instructions: []plans.OneTimeInstruction{c.host.once("step", `cat "$MADE/a/conf"; echo hello`)},
		PeriodicInstructions: []plans.PeriodicInstruction{{
			Instruction: c.host.sh("beat", `echo ran >> "$MADE/beat"; echo tick; echo tock >&2`), SaveStderrOutput: true,
		}},
		Probes: map[string]plans.Probe{
			"well": {TimeoutSeconds: 30, HTTPGetAction: plans.HTTPGet{URL: well.URL}},
			"sick": {TimeoutSeconds: 30, FailureThreshold: 1, HTTPGetAction: plans.HTTPGet{URL: sick.URL}},
		},
	})
	stored := c.awaitState(plans.StateSucceeded)
	if c.ours { // it reports the end of the apply first, then what comes of probes and periodic instructions
		await(c.T, "the rest", func() error {
			stored = c.secret()
			o := stored.outcome(c.T)
			if o.ProbeStatuses["sick"].FailureCount == 0 || !o.ProbeStatuses["well"].Healthy || len(o.PeriodicOutput) == 0 {
				return fmt.Errorf("the outcome is %+v", o)
			}
			if len(stored.Data[plans.KeyHostReport]) == 0 {
				return errors.New("a probe fails, and there is no report on the host yet")
			}
			return nil
		})
	} else if diff := cmp.Diff([]string{"PUT in-progress 200", "PUT succeeded 200"}, c.wire.settled(c.T, n)); diff != "" {
		c.Errorf("a plan on the wire (-want +got):\n%s", diff)
	}
	c.checkOutcome(stored, checksum)
	before := len(c.wire.requests())
	time.Sleep(quiet)
	if idle := c.wire.texts(before); len(idle) > 0 {
		c.Errorf("an agent without work asked for %q", idle)
	}
	if c.host.made("step") != "attempt 1\n" || c.host.lines("beat") != 1 || c.host.started() != 1 {
		c.Errorf("runs of the instruction %q, of the periodic one %d; the agent was started %d times", c.host.made("step"), c.host.lines("beat"), c.host.started())
	}
}

func (c *scene) checkOutcome(stored *secret, checksum string) {
	c.Helper()
	o := stored.outcome(c.T)
	if o.LastApplyTime.IsZero() || time.Since(o.LastApplyTime) > soon {
		c.Errorf("applied at %s", o.LastApplyTime)
	}
	beat := o.PeriodicOutput["beat"]
	if string(beat.Stdout) != "tick\n" || string(beat.Stderr) != "tock\n" || beat.ExitCode != 0 || beat.Failures != 0 {
		c.Errorf("the periodic output is %+v", beat)
	}
	o.LastApplyTime, o.PeriodicOutput = time.Time{}, nil
	want := plans.Outcome{
		State: plans.StateSucceeded, Revision: 1, AppliedChecksum: checksum, SuccessCount: 1,
		AppliedOutput: map[string][]byte{"step": []byte("key=val\nhello\n")},
		ProbeStatuses: map[string]plans.ProbeStatus{"well": {Healthy: true, SuccessCount: 1}, "sick": {FailureCount: 1}},
	}
	if diff := cmp.Diff(want, o, cmpopts.EquateEmpty()); diff != "" {
		c.Errorf("the outcome (-want +got):\n%s", diff)
	}
	if c.server != nil && plans.Checksum(stored.Data[plans.KeyAppliedPlan]) != checksum {
		c.Errorf("appliedPlan is %q", stored.Data[plans.KeyAppliedPlan])
	}
	info, err := os.Stat(c.host.path("made/a/conf"))
	must(c.T, err)
	if c.host.made("a/conf") != "key=val\n" || info.Mode() != 0o640 {
		c.Errorf("the file is %q with mode %s", c.host.made("a/conf"), info.Mode())
	}
}
