//go:build e2e

// Drover's agent under a real kube-apiserver, with the original beside it where both must do the same.

package peer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
)

// scene makes a machine's Secret and account; its agent is not started.
func (k *kubernetes) scene(t *testing.T, agent string) *scene {
	t.Helper()
	own := *k
	own.TB = t
	name := path.Base(t.Name())
	c := &scene{T: t, api: &own.api, ours: !strings.Contains(name, "original")}
	c.given = own.machine(strings.Trim(notInAName.ReplaceAllString(strings.ToLower(name), "-"), "-"))
	c.wire = wireTo(t, k.url, k.pair, &tls.Config{RootCAs: k.pool})
	c.host = newHost(t, agent, c.given.through(t, k.url, c.wire.url))
	return c
}

func TestAgentUnderKubernetes(t *testing.T) {
	t.Parallel()
	k := startKubernetes(t)
	ours := func(t testing.TB) string { return build(t, "rancher-system-agent") }
	t.Run("while it serves", func(t *testing.T) {
		for name, agent := range map[string]func(testing.TB) string{"original": original, "drover": ours} {
			for _, tc := range []struct {
				name string
				run  func(*scene)
			}{
				{"applies a plan and then is quiet", func(c *scene) { c.appliesAndIsQuiet() }},
				{"applies a plan of a server without plan-state", (*scene).legacy},
				{"merges after a conflict", (*scene).merges},
				{"opens its watch again", (*scene).reopens},
			} {
				t.Run(name+" "+tc.name, func(t *testing.T) {
					t.Parallel()
					c := k.scene(t, agent(t))
					tc.run(c)
					c.askedOnlyWhatItMay()
				})
			}
		}
		t.Run("original takes its failure back", func(t *testing.T) {
			t.Parallel()
			k.scene(t, original(t)).takesFailureBack()
		})
		for _, tc := range []struct {
			name string
			run  func(*scene)
		}{
			{"stands by its failure", (*scene).standsByFailure},
			{"leaves a plan for a newer one", (*scene).leavesForNewer},
			{"runs the same plan again when asked while it runs", (*scene).runsAgain},
			{"runs the plan of a Secret that is made again", (*scene).newSecret},
			{"leaves a plan whose Secret is made again", (*scene).newSecretMeanwhile},
			{"goes on from a bookmark", (*scene).bookmarks},
		} {
			t.Run("drover "+tc.name, func(t *testing.T) {
				t.Parallel()
				tc.run(k.scene(t, ours(t)))
			})
		}
		k.slow(t, ours)
	})
	t.Run("drover finds kube-apiserver again", func(t *testing.T) { k.scene(t, ours(t)).findsItAgain(k) })
	t.Run("drover outlives kube-apiserver", func(t *testing.T) { k.scene(t, ours(t)).outlives(k) })
	t.Run("drover begins anew under a kube-apiserver that began anew", func(t *testing.T) {
		k.scene(t, ours(t)).tooOld(func() { k.restartAPI(t) })
	})
	t.Run("drover begins anew when its version is compacted away", func(t *testing.T) {
		k.restartAPI(t, "--watch-cache-sizes=secrets#0") // watches of Secrets are etcd's own
		k.scene(t, ours(t)).tooOld(func() { k.compact(t) })
	})
}

// askedOnlyWhatItMay looks for requests that the role of a machine does not allow.
func (c *scene) askedOnlyWhatItMay() {
	c.Helper()
	for _, s := range c.wire.requests() {
		if s.status == http.StatusForbidden || s.status == http.StatusUnauthorized {
			c.Errorf("refused: %s", s)
		}
	}
}

// takesFailureBack is what drover's server does not let happen.
func (c *scene) takesFailureBack() {
	c.started()
	checksum := c.deliver(c.oneStep("bad", "echo why; false"))
	await(c.T, "the original to take its failure back", func() error {
		if o := c.secret().outcome(c.T); o.State != plans.StateFailed || o.FailedChecksum != "" || o.AppliedChecksum != checksum {
			return fmt.Errorf("the outcome is %+v", o)
		}
		return nil
	})
}

func (c *scene) standsByFailure() {
	c.started()
	checksum := c.deliver(c.oneStep("bad", "echo why; false"))
	c.awaitState(plans.StateFailed)
	n := len(c.wire.requests())
	c.host.restart() // a fresh agent knows nothing but what stands in the Secret
	await(c.T, "the agent to look again", func() error {
		if !slices.Contains(c.wire.texts(n), "WATCH from the start 200") {
			return errors.New("it has not")
		}
		return nil
	})
	time.Sleep(quiet) // the original would have taken it back in its next pass
	c.checkFailure(c.secret(), checksum)
	if puts := c.wire.puts(n); len(puts) > 0 {
		c.Errorf("after the failure it wrote %d times", len(puts))
	}
	c.ran("bad", 1, 2)
}

// leavesForNewer: the agent does not end when its plan is replaced.
func (c *scene) leavesForNewer() {
	c.started()
	c.deliver(c.oneStep("first", held))
	c.awaitHeld()
	checksum := c.deliver(c.oneStep("second", ":"))
	c.release()
	var o plans.Outcome
	await(c.T, "the newer plan", func() error {
		if o = c.secret().outcome(c.T); o.AppliedChecksum != checksum {
			return fmt.Errorf("the outcome is %+v", o)
		}
		return nil
	})
	if _, reported := o.AppliedOutput["first"]; reported || o.State != plans.StateSucceeded {
		c.Errorf("the outcome is %+v", o)
	}
	c.ran("second", 1, 1)
}

// runsAgain: a request that comes while the plan runs is another one.
func (c *scene) runsAgain() {
	c.started()
	plan := c.oneStep("step", held)
	c.deliver(plan)
	c.awaitHeld()
	c.deliver(plan)
	c.release()
	await(c.T, "the second run to be reported", func() error {
		if o := c.secret().outcome(c.T); o.State != plans.StateSucceeded || o.Revision != 2 {
			return fmt.Errorf("the outcome is %+v", o)
		}
		return nil
	})
	c.ran("step", 2, 1)
}

// outlives: what was done while nothing could be reported is reported later, and not done again.
func (c *scene) outlives(k *kubernetes) {
	c.started()
	checksum := c.deliver(c.oneStep("working", held+`; echo done`))
	c.awaitHeld()
	must(c.T, k.apiserver.Kill())
	c.release()
	await(c.T, "the instruction to end", func() error {
		if _, err := os.Stat(c.host.path("made/held")); err == nil {
			return errors.New("it runs")
		}
		return nil
	})
	c.host.restart()
	k.startAPI(c.T)
	o := c.awaitState(plans.StateSucceeded).outcome(c.T)
	if o.AppliedChecksum != checksum || string(o.AppliedOutput["working"]) != "done\n" {
		c.Errorf("the outcome is %+v", o)
	}
	c.ran("working", 1, 2)
	c.deliver(c.oneStep("next", ":"))
	c.awaitState(plans.StateSucceeded)
	c.ran("next", 1, 2)
}
