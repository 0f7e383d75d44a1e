package decide

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
)

// tokenOf is the token in the settings of a plan.
func tokenOf(p plans.Plan) string {
	var settings struct {
		Token string `json:"token"`
	}
	_ = json.Unmarshal([]byte(settingsOf(p)), &settings)
	return settings.Token
}

// fits says that a host's runtime starts with the token that it has, and with the file of passwords that it has written.
func (w *world) fits(m *pass.Machine) bool {
	h := w.hosts[m.Name]
	if w.sealed == "" || !m.IsServer() {
		return true
	}
	return installers.HashServerToken(h.token) == w.sealed && (!h.written || w.agents == "" || w.agents == "agent-token")
}

// takes has etcd written with the token of the host's job.
func (w *world) takes(m *pass.Machine, h *simulated) {
	p, _ := pass.Delivered(m.Data())
	var next string
	for _, in := range hostjob.Only(p.Instructions) {
		for _, env := range in.Env {
			if token, is := strings.CutPrefix(env, "DROVER_SECRET_NEXT="); is {
				next = token
			}
		}
		if strings.Contains(strings.Join(in.Args, " "), next) {
			w.fail("the token is an argument")
		}
	}
	if before := w.sealed; next == "" || !h.up && before != installers.HashServerToken(next) {
		w.fail("%s is asked for the token %q, and is up: %v", m.Name, next, h.up)
	}
	w.sealed = installers.HashServerToken(next)
}

// rotate asks for another server token, as package daytwo does.
func (w *world) rotate() {
	w.Helper()
	next, err := w.s.Secrets.Expecting("fresh-token", w.s.Now)
	if err != nil {
		w.Fatal(err)
	}
	w.s.Secrets, w.sealed = &next, installers.HashServerToken("server-token")
	for _, m := range w.s.Machines {
		p, _ := pass.Delivered(m.Data())
		w.hosts[m.Name].token = tokenOf(p)
	}
	w.ask(operations.KindRotateToken, steps.Request{TokenHash: next.Next.Hash()})
}

// rotated fails unless all servers have the new token, and the cluster keeps the old one.
func (w *world) rotated() {
	w.Helper()
	w.active()
	if s := w.s.Secrets; s.ServerToken != "fresh-token" || s.Next != nil || len(s.Other) != 1 || s.Other[0].Token != "server-token" || s.AgentToken != "agent-token" {
		w.fail("the secrets are %+v", s)
	}
	for _, m := range w.s.Machines {
		want, starts := "fresh-token", 2
		if !m.IsServer() {
			want, starts = "agent-token", 1
		}
		if h := w.hosts[m.Name]; h.token != want || h.restarts != starts {
			w.fail("%s started %d times, at last with the token %s", m.Name, h.restarts, h.token)
		}
	}
	w.s.Operation = nil
	before := len(w.log)
	w.settle()
	if len(w.log) != before {
		w.fail("something happened after the rotation")
	}
}

// TestServerToken: etcd takes the new token first, then each server restarts with it, one at a time; workers do not. What fails or
// is not written is done again.
func TestServerToken(t *testing.T) {
	for _, trouble := range []int{0, 2} {
		t.Run(fmt.Sprintf("%d failures", trouble), func(t *testing.T) {
			eachWorld(t, minimal, func(w *world) {
				w.faulty, w.late = trouble, trouble
				w.rotate()
				w.settle()
				w.ended(operations.Succeeded)
				if w.count("token") != 1 || w.count("prove") != 1 {
					w.fail("the token was given %d times, and proved %d times", w.count("token"), w.count("prove"))
				}
				w.rotated()
			})
		})
	}
}

// TestServersThatGoDownInARotation come back with the new token, whichever they are, and no server waits for the others.
func TestServersThatGoDownInARotation(t *testing.T) {
	for _, down := range [][]string{{"m0"}, {"m1"}, {"m3"}, {"m0", "m1"}, {"m1", "m2"}, {"m0", "m1", "m2", "m3"}} {
		t.Run(strings.Join(down, " "), func(t *testing.T) {
			for seed := range orders(3) {
				w := newWorld(t, seed, minimal, allInOne, etcdControl, etcdControl, controlPlane, workerOnly)
				w.limit = 100
				w.settle()
				w.rotate()
				for w.count("token") == 0 {
					w.happens(1)
				}
				w.outage = true
				for _, name := range down {
					w.hosts[name].up = false
					w.report(w.machine(name))
				}
				w.settle()
				w.ended(operations.Succeeded)
				w.rotated()
			}
		})
	}
}

// TestARotationIsRefused before anything is done: a server that does not get the token cannot start again.
func TestARotationIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*world)
		want    string
	}{
		"a host is away":    {func(w *world) { w.machine("m1").Agent = observed.Presence{} }, "m1 (node-m1, 10.0.0.1) is a server, and its agent has not connected; a server that does not get the new token cannot start again. Bring it back, or remove it by drover machines rm m1"},
		"one does not work": {func(w *world) { w.hosts["m1"].ill = true }, "m1 (node-m1, 10.0.0.1) is a server, and does not work: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, minimal, allInOne, etcdControl, etcdControl, workerOnly)
			c.prepare(w)
			w.rotate()
			w.settle()
			if o := w.s.Operation; o.State != operations.Failed || !strings.HasPrefix(o.Reason, c.want) || len(w.jobs) > 0 || w.s.Secrets.ServerToken != "server-token" {
				w.fail("the operation is %s: %s", o.State, o.Reason)
			}
		})
	}
}

// TestARotationThatFailsGoesOn: etcd may have the new token, so that the next one brings no other.
func TestARotationThatFailsGoesOn(t *testing.T) {
	w := grown(t, minimal, allInOne, etcdControl, etcdControl)
	w.failing = "token"
	w.rotate()
	w.settle()
	w.failing = ""
	w.ended(operations.Failed)
	if !strings.Contains(w.s.Operation.Reason, "drover operations retry") || w.s.Cluster.Status.Restoring != "" || w.s.Secrets.Next == nil {
		w.fail("%s; the secrets are %+v", w.s.Operation.Reason, w.s.Secrets)
	}
	before := *w.s.Secrets
	after, err := before.Expecting("third-token", w.s.Now)
	if err != nil || after.Next.Token != "fresh-token" {
		w.fail("the next rotation brings %+v, %v", after.Next, err)
	}
	retried, err := w.s.Operation.RetryBy("user-1", nil, w.s.Now)
	if err != nil {
		t.Fatal(err)
	}
	w.s.Operation = &retried
	w.settle()
	w.ended(operations.Succeeded)
	w.rotated()
}

// TestAnAbortedRotation ends while nothing has begun, and goes on to its end afterwards.
func TestAnAbortedRotation(t *testing.T) {
	for name, begun := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, minimal, allInOne, etcdControl, etcdControl)
			if !begun {
				w.rotate()
				w.abort()
				w.settle()
				w.ended(operations.Aborted)
				if w.s.Secrets.ServerToken != "server-token" || len(w.jobs) > 0 {
					w.fail("the secrets are %+v", w.s.Secrets)
				}
				return
			}
			w.rotate()
			for w.count("token") == 0 {
				w.happens(1)
			}
			w.abort()
			w.settle()
			w.rotated()
		})
	}
}

// TestARestoreWithAnEarlierToken: the cluster has the snapshot's token again, and keeps the one of now.
func TestARestoreWithAnEarlierToken(t *testing.T) {
	for seed := range orders(4) {
		w := newWorld(t, seed, minimal, allInOne, etcdControl, etcdControl, workerOnly)
		w.limit = 100
		w.settle()
		w.rotate()
		w.settle()
		w.rotated()
		w.outage, w.taken, w.late = true, installers.HashServerToken("server-token"), int(seed%2)
		w.jobs = map[string]int{}
		w.ask(operations.KindRestore, steps.Request{Snapshot: "on-demand-m1", Target: "m1"})
		w.settle()
		w.ended(operations.Succeeded)
		w.s.Operation = nil
		w.settle()
		w.active()
		if s := w.s.Secrets; s.ServerToken != "server-token" || len(s.Other) != 1 || s.Other[0].Token != "fresh-token" {
			w.fail("the secrets are %+v", s)
		}
		for _, m := range w.s.Machines {
			if !w.fits(&m) {
				w.fail("%s has the token %s", m.Name, w.hosts[m.Name].token)
			}
		}
	}
}
