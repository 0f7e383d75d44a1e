package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/records"
)

// grown is a settled cluster of a shape.
func grown(t *testing.T, spec string, roles ...records.Roles) *world {
	t.Helper()
	w := newWorld(t, 1, spec, roles...)
	w.limit = 100
	w.settle()
	w.active()
	return w
}

// pass lets time pass, in which the server decides.
func (w *world) pass(times int, step time.Duration) {
	w.Helper()
	for range times {
		w.s.Now = w.s.Now.Add(step)
		w.decide()
	}
}

// TestAnOutageOfTheTunnelsRestartsNobodyAtOnce: the cluster works, only the server does not see it; a change goes from
// machine to machine all the same.
func TestAnOutageOfTheTunnelsRestartsNobodyAtOnce(t *testing.T) {
	w := grown(t, minimal, allInOne, etcdControl, etcdControl, workerOnly, workerOnly)
	w.blind = true
	w.pass(3, 31*time.Second)
	if got := w.machine("m4").Status.State; got != records.Unavailable {
		w.fail("m4 is %s", got)
	}
	w.limit = 1
	w.spec(changed)
	w.pass(1, time.Second)
	delivered := 0
	for _, m := range w.s.Machines {
		if plans.State(m.data()[plans.KeyPlanState]) == plans.StatePending {
			delivered++
		}
	}
	if delivered != 1 {
		w.fail("%d machines got the change at once", delivered)
	}
}

// TestNobodyFoundsASecondCluster: while a machine joins, the one that began the cluster leaves; only a member takes over.
func TestNobodyFoundsASecondCluster(t *testing.T) {
	w := newWorld(t, 1, minimal)
	w.limit = 100
	w.add("m5", allInOne)
	w.add("m6", allInOne)
	w.settle()
	w.add("m1", allInOne)
	w.pass(2, time.Second)
	first := w.beginner()
	w.leave(first)
	w.pass(1, time.Second)
	if next := w.beginner(); next == "m1" || next == first {
		w.fail("%s takes over from %s", next, first)
	}
	if p, _ := deliveredPlan(w.machine("m1").data()); !strings.Contains(settingsOf(p), `"server"`) {
		w.fail("m1 is to begin a cluster of its own: %s", settingsOf(p))
	}
}

// TestAForgottenMemberLeavesEtcd: a lost host is forgotten by force, and its member does not count on in secret.
func TestAForgottenMemberLeavesEtcd(t *testing.T) {
	w := grown(t, minimal, allInOne, allInOne, allInOne)
	w.hosts["m2"].dead, w.machine("m2").Agent = true, observedGone()
	w.pass(3, time.Minute)
	forgotten := *w.machine("m2").Machine
	forgotten.Deleting, forgotten.Leave = w.s.Now, records.Leave{Force: true}
	w.machine("m2").Machine = &forgotten
	w.settle()
	if voters, up := w.etcd(); voters != 2 || up != 2 || w.machine("m2") != nil {
		w.fail("%d of %d members are up", up, voters)
	}
}

// TestTheLastHostIsForgottenAsItIs: nobody is left to be asked, and what runs on it stays.
func TestTheLastHostIsForgottenAsItIs(t *testing.T) {
	w := grown(t, minimal, allInOne)
	forgotten := *w.machine("m0").Machine
	forgotten.Deleting, forgotten.Leave = w.s.Now, records.Leave{Force: true}
	w.machine("m0").Machine = &forgotten
	w.pass(1, time.Second)
	if w.machine("m0") != nil || len(w.orders) > 0 || w.hosts["m0"].gone {
		w.fail("it is not forgotten, or its node was touched: %+v", w.orders)
	}
}

// TestAFailingUninstallHasPauses between its tries, also after a long time.
func TestAFailingUninstallHasPauses(t *testing.T) {
	w := grown(t, minimal, allInOne, workerOnly)
	w.leave("m1")
	tries := 0
	for range 1500 {
		for _, o := range w.orders {
			w.perform(o)
		}
		m := w.machine("m1")
		if plans.State(m.data()[plans.KeyPlanState]) == plans.StatePending && m.Status.Cleared {
			tries++
			w.write(m, func(d map[string][]byte) { d[plans.KeyPlanState] = []byte(plans.StateFailed) })
		}
		w.pass(1, time.Second)
	}
	if tries < 3 || tries > 8 {
		w.fail("%d tries in 25 minutes", tries)
	}
}

// TestAReinstalledHostWaitsForItsOldMachine: until that has left etcd and the cluster, two would have one name.
func TestAReinstalledHostWaitsForItsOldMachine(t *testing.T) {
	w := grown(t, minimal, allInOne, allInOne, allInOne)
	w.hosts["m2"].dead, w.machine("m2").Agent = true, observedGone()
	w.pass(3, time.Minute)
	w.add("m9", allInOne)
	again := *w.machine("m9").Machine
	again.NodeName, again.InternalAddress = "node-m2", []string{"10.0.0.2"}
	w.machine("m9").Machine = &again
	w.leave("m2")
	w.pass(2, time.Second)
	if len(w.machine("m9").plan()) > 0 || w.machine("m9").Status.Code != "duplicate" {
		w.fail("m9 is %+v", w.machine("m9").Status.Condition)
	}
}
