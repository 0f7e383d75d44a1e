package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
)

// names says that the job of a machine has an argument.
func (w *world) names(m *pass.Machine, arg string) bool {
	p, _ := pass.Delivered(m.Data())
	return slices.ContainsFunc(hostjob.Only(p.Instructions)[0].Args, func(a string) bool { return a == arg })
}

// reissues is a job of a rotation of the CAs on the first host, and what it prints.
func (w *world) reissues(m *pass.Machine, verb string) string {
	switch verb {
	case "newcas":
		if w.made == "" {
			w.made = fmt.Sprintf("%064x", len(w.issued)+len(w.jobs)+1)
		}
		return "made\n" + `{"ca":"` + w.made + `"}`
	case "takecas":
		if w.made == "" || !w.names(m, w.made) || !w.hosts[m.Name].up {
			w.fail("%s is to take other CAs than %s, which were made", m.Name, w.made)
		}
		w.issued = w.made
	case "tidy":
		for _, other := range w.s.Machines {
			if h := w.hosts[other.Name]; h.ca != w.issued && !h.dead {
				w.fail("what the rotation keeps goes before %s has started again", other.Name)
			}
		}
		w.made = ""
	}
	return "done"
}

// startsWithCAs is a start of a host, with what etcd has.
func (w *world) startsWithCAs(m *pass.Machine, h *simulated, verb string) {
	if h.ca = w.issued; verb == "reload" && !w.names(m, w.issued) {
		w.fail("%s is looked at for other CAs than %s, which etcd has", m.Name, w.issued)
	}
}

// reissued fails unless all hosts have started once with what etcd has, and nothing is left.
func (w *world) reissued() {
	w.Helper()
	w.active()
	for _, m := range w.s.Machines {
		if h := w.hosts[m.Name]; h.ca == "" || h.ca != w.issued || h.restarts != 2 {
			w.fail("%s started %d times, at last with the CAs %q; etcd has %q", m.Name, h.restarts, h.ca, w.issued)
		}
	}
	if w.made != "" {
		w.fail("the first host keeps the CAs")
	}
	w.s.Operation = nil
	before := len(w.log)
	w.settle()
	if len(w.log) != before {
		w.fail("something happened after the rotation")
	}
}

// TestNewCAs: a snapshot, then one host makes the CAs and etcd takes them, then each server restarts, one at a time, and then the
// workers. What fails or was not written is done again.
func TestNewCAs(t *testing.T) {
	for _, trouble := range []int{0, 2} {
		t.Run(fmt.Sprintf("%d failures", trouble), func(t *testing.T) {
			eachWorld(t, minimal, func(w *world) {
				w.faulty, w.late = trouble, trouble
				w.ask(operations.KindRotateCA, steps.Request{})
				w.settle()
				w.ended(operations.Succeeded)
				for _, verb := range []string{"guard", "newcas", "takecas", "tidy"} {
					if n := w.count(verb); n != 1 {
						w.fail("%s was done %d times", verb, n)
					}
				}
				w.reissued()
			})
		})
	}
}

// TestServersThatGoDownWithNewCAs come back by a restart, whichever they are, and no server waits for the others.
func TestServersThatGoDownWithNewCAs(t *testing.T) {
	for _, down := range [][]string{{"m0"}, {"m1"}, {"m3"}, {"m0", "m1"}, {"m0", "m1", "m2", "m3"}} {
		t.Run(strings.Join(down, " "), func(t *testing.T) {
			for seed := range orders(3) {
				w := newWorld(t, seed, minimal, allInOne, etcdControl, etcdControl, controlPlane, workerOnly)
				w.limit = 100
				w.settle()
				w.ask(operations.KindRotateCA, steps.Request{})
				for w.count("takecas") == 0 {
					w.happens(1)
				}
				w.outage = true
				for _, name := range down {
					w.hosts[name].up = false
					w.report(w.machine(name))
				}
				w.settle()
				w.ended(operations.Succeeded)
				w.reissued()
			}
		})
	}
}

// TestNewCAsAreRefused before anything is done.
func TestNewCAsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*world)
		ask     steps.Request
		want    string
	}{
		"a host is away":    {func(w *world) { w.machine("m1").Agent = observed.Presence{} }, steps.Request{}, "m1 (node-m1, 10.0.0.1) is a server, and its agent has not connected; it would stay with the CAs of now. Bring it back, or remove it by drover machines rm m1"},
		"one does not work": {func(w *world) { w.hosts["m1"].ill = true }, steps.Request{NoSnapshot: true}, "m1 (node-m1, 10.0.0.1) is a server, and does not work: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, minimal, allInOne, etcdControl, etcdControl, workerOnly)
			c.prepare(w)
			w.ask(operations.KindRotateCA, c.ask)
			w.settle()
			if o := w.s.Operation; o.State != operations.Failed || !strings.HasPrefix(o.Reason, c.want) || len(w.jobs) > 0 {
				w.fail("the operation is %s: %s", o.State, o.Reason)
			}
		})
	}
}

// TestARotationOfCAsThatFailsGoesOn where it failed when it is tried again, and with the same CAs when it is asked for anew.
func TestARotationOfCAsThatFailsGoesOn(t *testing.T) {
	for _, failing := range []string{"newcas", "takecas", "reload", "tidy"} {
		for _, anew := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, asked for anew: %v", failing, anew), func(t *testing.T) {
				w := grown(t, minimal, allInOne, etcdControl, etcdControl, workerOnly)
				w.failing = failing
				w.ask(operations.KindRotateCA, steps.Request{})
				w.settle()
				w.ended(operations.Failed)
				w.failing = ""
				if failing != "newcas" && !strings.Contains(w.s.Operation.Reason, "no space left") {
					w.fail("it failed: %s", w.s.Operation.Reason)
				}
				made := w.made
				if anew {
					w.jobs = map[string]int{}
					w.ask(operations.KindRotateCA, steps.Request{NoSnapshot: true})
					w.s.Operation.ID = "op-zyxwvuts"
				} else {
					retried, err := w.s.Operation.RetryBy("user-1", nil, w.s.Now)
					if err != nil {
						t.Fatal(err)
					}
					w.s.Operation = &retried
				}
				w.settle()
				w.ended(operations.Succeeded)
				if made != "" && w.issued != made {
					w.fail("etcd has the CAs %s, and %s were made at first", w.issued, made)
				}
				if !anew {
					w.reissued()
				}
			})
		}
	}
}

// TestAnAbortedRotationOfCAs ends while etcd has nothing of it, and goes on to its end afterwards.
func TestAnAbortedRotationOfCAs(t *testing.T) {
	for _, after := range []string{"guard", "newcas", "takecas"} {
		t.Run(after, func(t *testing.T) {
			w := grown(t, minimal, allInOne, etcdControl, etcdControl)
			w.ask(operations.KindRotateCA, steps.Request{})
			for w.count(after) == 0 {
				w.happens(1)
			}
			w.abort()
			w.settle()
			if after == "takecas" {
				w.reissued()
				return
			}
			if w.ended(operations.Aborted); w.issued != "" || w.count("reload") > 0 {
				w.fail("etcd has the CAs %q", w.issued)
			}
		})
	}
}

// TestAWorkerThatIsAway is left out of a rotation, and the others are not.
func TestAWorkerThatIsAway(t *testing.T) {
	w := grown(t, minimal, allInOne, workerOnly, workerOnly)
	w.machine("m1").Agent = observedGone()
	w.hosts["m1"].dead = true
	w.ask(operations.KindRotateCA, steps.Request{})
	w.settle()
	w.ended(operations.Succeeded)
	if w.hosts["m2"].ca != w.issued || w.count("renew") != 1 {
		w.fail("the worker that is there has the CAs %q", w.hosts["m2"].ca)
	}
}
