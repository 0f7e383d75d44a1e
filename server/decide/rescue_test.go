package decide

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/elect"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/decide/rollout"
	"github.com/drover-project/drover/server/operations"
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
		if plans.State(m.Data()[plans.KeyPlanState]) == plans.StatePending {
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
	if p, _ := pass.Delivered(w.machine("m1").Data()); !strings.Contains(settingsOf(p), `"server"`) {
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

// TestTheLastHostIsForgottenAsItIs: no host is left to be asked, and what runs on it stays.
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
		if plans.State(m.Data()[plans.KeyPlanState]) == plans.StatePending && m.Status.Cleared {
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
	if len(w.machine("m9").Plan()) > 0 || w.machine("m9").Status.Code != "duplicate" {
		w.fail("m9 is %+v", w.machine("m9").Status.Condition)
	}
}

// underWay are the servers that have taken a restart and are not through with it.
func (w *world) underWay() (names []string) {
	for i := range w.s.Machines {
		m := &w.s.Machines[i]
		state := plans.State(m.Data()[plans.KeyPlanState])
		if h := w.hosts[m.Name]; m.IsServer() && !h.dead && ((state == plans.StatePending || state == plans.StateInProgress) && w.restartsOn(*m) || h.restarts > 1 && !h.up) {
			names = append(names, m.Name)
		}
	}
	return names
}

// TestServersAreMendedOneAtATime: all nodes are not Ready while the API works, or nothing works any more; a change that
// mends them goes from server to server, and etcd keeps the quorum that it has.
func TestServersAreMendedOneAtATime(t *testing.T) {
	for name, breaks := range map[string]func(*world, *simulated){
		"nodes not Ready": func(_ *world, h *simulated) { h.ill = true },
		"nothing works":   func(w *world, h *simulated) { h.up, h.jammed, w.outage = false, true, true },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range orders(4) {
				w := newWorld(t, seed, minimal, allInOne, etcdControl, etcdControl, controlPlane, workerOnly)
				w.limit = 100
				w.settle()
				for i := range w.s.Machines {
					if m := &w.s.Machines[i]; m.IsServer() {
						breaks(w, w.hosts[m.Name])
						w.report(m)
					}
				}
				w.pass(3, time.Minute)
				w.spec(changed)
				for range 300 {
					w.happens(1)
					if names := w.underWay(); len(names) > 1 {
						w.fail("%q change at the same time", names)
					}
				}
				w.settle()
				w.active()
			}
		})
	}
}

// TestAServerThatIsNotMendedByItsChange holds up others for a while only, as etcd may need several of them to have its
// quorum again.
func TestAServerThatIsNotMendedByItsChange(t *testing.T) {
	w := grown(t, minimal, allInOne, etcdControl, etcdControl)
	for i := range w.s.Machines {
		m := &w.s.Machines[i]
		w.hosts[m.Name].up, w.hosts[m.Name].jammed, w.outage = false, true, true
		w.report(m)
	}
	w.pass(3, time.Minute)
	w.spec(changed)
	w.pass(1, time.Second)
	first := w.machine("m0")
	if plans.State(first.Data()[plans.KeyPlanState]) != plans.StatePending {
		w.fail("m0 has not got the change")
	}
	w.end(first)
	w.pass(2, time.Second)
	if d := w.decision(); plans.State(w.machine("m1").Data()[plans.KeyPlanState]) == plans.StatePending || d.Again == 0 || d.Again > rollout.MendLimit {
		w.fail("m1 has the change too, or nobody looks again: %s", d.Again)
	}
	w.pass(1, rollout.MendLimit)
	if plans.State(w.machine("m1").Data()[plans.KeyPlanState]) != plans.StatePending || plans.State(w.machine("m2").Data()[plans.KeyPlanState]) == plans.StatePending {
		w.fail("m1 has not got the change, or m2 has")
	}
}

// TestALostMemberKeepsAnotherFromItsChange, also where that one does not work: with it etcd would lose its quorum.
func TestALostMemberKeepsAnotherFromItsChange(t *testing.T) {
	w := grown(t, minimal, allInOne, etcdControl, etcdControl)
	w.hosts["m2"].dead, w.machine("m2").Agent = true, observedGone()
	w.hosts["m1"].ill = true
	w.pass(3, time.Minute)
	w.spec(changed)
	w.settle()
	if w.hosts["m1"].restarts != 1 {
		w.fail("m1 restarted %d times", w.hosts["m1"].restarts)
	}
}

// TestNobodyBeginsASecondEtcd when no member of the first one is left: neither a machine that was joining, nor a new one,
// nor one that the cluster's label names. The cluster says what there is to do.
func TestNobodyBeginsASecondEtcd(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(*world)
		cause   string
	}{
		"the last member is forgotten while another joins": {func(w *world) {
			w.add("m5", allInOne)
			w.pass(1, time.Second)
			w.s.Machines = slices.DeleteFunc(w.s.Machines, func(m pass.Machine) bool { return m.Name == "m0" })
		}, "no machine of cluster harbour is known to have a member of its etcd; m5 (node-m5) has never joined it, and would begin another one"},
		"the last member leaves, and one has registered": {func(w *world) {
			w.leave("m0")
			w.add("m5", allInOne)
		}, "the members of the etcd of cluster harbour leave with m0 (node-m0); m5 (node-m5) has never joined it, and would begin another one"},
		"two have registered, and one of them is named": {func(w *world) {
			w.s.Machines = slices.DeleteFunc(w.s.Machines, func(m pass.Machine) bool { return m.Name == "m0" })
			w.add("m5", allInOne)
			w.add("m6", allInOne)
			w.s.Cluster.Labels = map[string]string{elect.LabelInitPin: "id-m6"}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, minimal, allInOne, controlPlane)
			tc.happens(w)
			w.pass(5, time.Second)
			for _, m := range w.s.Machines {
				p, _ := pass.Delivered(m.Data())
				if m.Name != "m0" && m.Roles.Etcd && len(p.Files) > 0 && !w.joins(p) || m.Name != "m0" && m.Status.Init {
					w.fail("%s is to begin a cluster of its own", m.Name)
				}
			}
			if c := w.s.Cluster.Status; c.State != records.ClusterError || tc.cause != "" && c.Message != tc.cause {
				w.fail("the cluster is %s: %s", c.State, c.Message)
			}
			if s := w.machine(w.s.Machines[len(w.s.Machines)-1].Name).Status; s.Code != "etcd-replaced" || !strings.Contains(s.NextStep, "restore a snapshot") {
				w.fail("the machine says %+v", s.Condition)
			}
		})
	}
}

// TestANamedMachineBeginsNoSecondCluster: it takes over when it votes.
func TestANamedMachineBeginsNoSecondCluster(t *testing.T) {
	w := grown(t, minimal, allInOne)
	w.add("m5", etcdControl)
	w.s.Cluster.Labels = map[string]string{elect.LabelInitPin: "id-m5"}
	w.pass(1, time.Second)
	if p, _ := pass.Delivered(w.machine("m5").Data()); w.beginner() != "m0" || !w.joins(p) {
		w.fail("%s begins", w.beginner())
	}
	w.settle()
	w.active()
	if w.beginner() != "m5" {
		w.fail("%s has begun it", w.beginner())
	}
}

// abort asks for the end of the operation.
func (w *world) abort() {
	w.Helper()
	stopped, err := w.s.Operation.AbortBy("user-1", w.s.Now)
	if err != nil {
		w.Fatal(err)
	}
	w.s.Operation = &stopped
}

// TestAnAbortedRemoval: a machine whose removal only waits stays as it was; one that something has begun for is removed,
// and the operation says so.
func TestAnAbortedRemoval(t *testing.T) {
	lost := func(w *world) {
		w.hosts["m2"].dead, w.machine("m2").Agent = true, observedGone()
		w.pass(3, time.Minute)
		w.leave("m1") // etcd needs it
		w.begin(operations.KindRemoval)
	}
	for name, tc := range map[string]struct {
		asked func(*world)
		state operations.State
		stays bool
	}{
		"it waits":                     {lost, operations.Aborted, true},
		"it waits, as the record says": {func(w *world) { lost(w); w.pass(2, time.Second) }, operations.Aborted, true},
		"its node is being removed":    {func(w *world) { w.leave("m1"); w.begin(operations.KindRemoval); w.pass(3, time.Second) }, operations.Succeeded, false},
		"its host is being cleaned": {func(w *world) {
			w.leave("m1")
			w.begin(operations.KindRemoval)
			w.until("m1", func(m *pass.Machine) bool { return m.Status.Cleared })
		}, operations.Succeeded, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, minimal, allInOne, etcdControl, etcdControl)
			tc.asked(w)
			w.abort()
			if !tc.stays {
				w.pass(1, time.Second)
				if wait := w.s.Operation.Wait; wait == nil || !strings.HasPrefix(wait.Cause, "its removal has begun, and is finished first: ") {
					w.fail("the operation waits for %+v", wait)
				}
			}
			w.settle()
			m := w.machine("m1")
			if (m != nil) != tc.stays || w.s.Operation.State != tc.state {
				w.fail("the operation is %s: %s; m1 is %v", w.s.Operation.State, w.s.Operation.Reason, m)
			}
			if tc.stays && (!m.Deleting.IsZero() || m.Status.State != records.Active || w.hosts["m1"].restarts != 1 || w.hosts["m1"].cordoned) {
				w.fail("m1 is %+v", m.Status)
			}
		})
	}
}

// until lets things happen until a machine is as wanted.
func (w *world) until(name string, is func(*pass.Machine) bool) {
	w.Helper()
	for range 300 {
		if is(w.machine(name)) {
			return
		}
		w.happens(1)
	}
	w.fail("%s does not come to that", name)
}
