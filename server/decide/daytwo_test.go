package decide

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

// jobOf is the verb of the job in a plan; empty without one.
func jobOf(p plans.Plan) string {
	parts := strings.Split(hostjob.Of(p.Instructions), "-")
	if len(parts) < 4 {
		return ""
	}
	return parts[2]
}

func restartingJob(p plans.Plan) bool {
	return slices.Contains([]string{"rotate", "renew", "restart", "reconnect", "reload"}, jobOf(p))
}

// does is what a job changes on a host; false when it does nothing, as it was done before.
func (w *world) does(m *pass.Machine, h *simulated, verb, id string) bool {
	w.jobs[m.Name+" "+id]++
	output := "done"
	switch verb {
	case "rotate", "renew", "restart", "reconnect", "reload":
		h.up, h.written = false, true
		h.restarts++
		w.startsWithCAs(m, h, verb)
	case "newcas", "takecas", "tidy":
		output = w.reissues(m, verb)
	case "token", "prove":
		w.takes(m, h)
	case "seal":
		w.takes(m, h)
		w.agents = "agent-token"
	case "save", "check", "guard":
		output = `{"file":"/var/lib/rancher/k3s/server/db/snapshots/on-demand-` + m.Name + `","size":5000032,"sha256":"aa","tokenHash":"` + w.taken + `"}`
	case "stop":
		h.up, h.stopped, h.voter, h.written = false, true, false, false
	case "restore":
		for name, other := range w.hosts {
			if other.up && !other.dead && w.machine(name) != nil && w.machine(name).IsServer() {
				w.fail("%s is restored while %s runs", m.Name, name)
			}
		}
		p, _ := pass.Delivered(m.Data())
		if w.taken != "" && installers.HashServerToken(tokenOf(p)) != w.taken {
			w.fail("the snapshot is restored on %s with another token", m.Name)
		}
		w.sealed, w.agents, h.written = w.taken, w.then, false
		h.installed, h.stopped, h.voter, h.version = true, true, true, w.versionOf(p)
	}
	w.write(m, func(d map[string][]byte) {
		o, _ := plans.ReadOutcome(d)
		o.State, o.AppliedOutput = plans.StateSucceeded, map[string][]byte{id: []byte(output)}
		if err := o.Write(d); err != nil {
			w.Fatal(err)
		}
	})
	return true
}

// fails is a job that could not be done.
func (w *world) fails(m *pass.Machine) {
	p, _ := pass.Delivered(m.Data())
	w.write(m, func(d map[string][]byte) {
		o, _ := plans.ReadOutcome(d)
		o.State, o.FailedOutput = plans.StateFailed, map[string][]byte{hostjob.Of(p.Instructions): []byte("no space left on device")}
		if err := o.Write(d); err != nil {
			w.Fatal(err)
		}
	})
}

// ask begins an operation of package steps.
func (w *world) ask(kind operations.Kind, r steps.Request) {
	w.Helper()
	w.begin(kind)
	text, err := json.Marshal(map[string]any{"ask": r})
	if err != nil {
		w.Fatal(err)
	}
	w.s.Operation.Params = text
}

// ended fails unless the operation has ended so, and each job was done once.
func (w *world) ended(want operations.State) {
	w.Helper()
	if o := w.s.Operation; o.State != want || o.Wait != nil {
		w.fail("the operation is %s (%s), want %s: %+v, waits for %+v", o.State, o.Reason, want, o.Tasks, o.Wait)
	}
	for what, times := range w.jobs {
		if times != 1 {
			w.fail("%s was done %d times", what, times)
		}
	}
}

// count is how many jobs of a verb were done.
func (w *world) count(verb string) (n int) {
	for what := range w.jobs {
		if strings.Contains(what, "-"+verb+"-") {
			n++
		}
	}
	return n
}

func (w *world) members() (n int) {
	for _, m := range w.s.Machines {
		if m.Roles.Etcd {
			n++
		}
	}
	return n
}

// TestSnapshots: one member after the other, no machine restarts, and what fails is tried again.
func TestSnapshots(t *testing.T) {
	for _, faulty := range []int{0, 2} {
		t.Run(fmt.Sprintf("%d failures", faulty), func(t *testing.T) {
			eachWorld(t, minimal, func(w *world) {
				w.faulty = faulty
				w.ask(operations.KindSnapshot, steps.Request{})
				for range 120 {
					w.happens(1)
					busy := 0
					for _, m := range w.s.Machines {
						if p, _ := pass.Delivered(m.Data()); jobOf(p) != "" && plans.State(m.Data()[plans.KeyPlanState]) != plans.StateSucceeded {
							busy++
						}
					}
					if busy > 1 {
						w.fail("snapshots are taken on %d members at a time", busy)
					}
				}
				w.settle()
				w.active()
				w.ended(operations.Succeeded)
				if w.count("save") != w.members() || len(w.snapshots) != w.members() {
					w.fail("%d snapshots were taken, %d are known, of %d members", w.count("save"), len(w.snapshots), w.members())
				}
				for _, m := range w.s.Machines {
					if w.hosts[m.Name].restarts != 1 {
						w.fail("%s started %d times", m.Name, w.hosts[m.Name].restarts)
					}
				}
				w.s.Operation = nil
				before := len(w.log)
				w.settle()
				if len(w.log) != before {
					w.fail("something happened after the snapshot")
				}
			})
		})
	}
}

// TestASnapshotThatFails is said, the next member has its turn all the same, and the machine is as it was.
func TestASnapshotThatFails(t *testing.T) {
	w := newWorld(t, 1, minimal, allInOne, etcdControl, etcdControl)
	w.limit = 100
	w.settle()
	w.failing = "save"
	w.ask(operations.KindSnapshot, steps.Request{Machines: []string{"m0"}})
	w.settle()
	w.ended(operations.Failed)
	if !strings.Contains(w.s.Operation.Reason, "no space left") || w.s.Operation.Tasks[0].Attempts != 3 {
		w.fail("the operation says %q after %d tries", w.s.Operation.Reason, w.s.Operation.Tasks[0].Attempts)
	}
	w.active()
}

// TestRotations: each machine restarts once, in the order of their roles, with its quorum kept.
func TestRotations(t *testing.T) {
	for kind, verbs := range map[operations.Kind][]string{operations.KindRotateCertificates: {"rotate", "renew"}, operations.KindRotateKeys: {"restart"}} {
		t.Run(string(kind), func(t *testing.T) {
			eachWorld(t, minimal, func(w *world) {
				w.limit = 1
				w.ask(kind, steps.Request{})
				w.settle()
				w.active()
				w.ended(operations.Succeeded)
				want := len(w.s.Machines)
				if kind == operations.KindRotateKeys {
					want = 0
					for _, m := range w.s.Machines {
						if m.IsServer() {
							want++
						}
					}
					if w.count("keys") != 1 {
						w.fail("the key was made %d times", w.count("keys"))
					}
				}
				done := 0
				for _, verb := range verbs {
					done += w.count(verb)
				}
				if done != want {
					w.fail("%d machines were restarted, want %d", done, want)
				}
			})
		})
	}
}

// TestARotationWaitsForTheQuorum while a member is lost, and says for whom; aborted, it ends.
func TestARotationWaitsForTheQuorum(t *testing.T) {
	w := newWorld(t, 5, minimal, allInOne, etcdControl, etcdControl)
	w.limit = 100
	w.settle()
	w.hosts["m2"].dead, w.machine("m2").Agent = true, observedGone()
	w.settle()
	w.ask(operations.KindRotateCertificates, steps.Request{})
	w.settle()
	if o := w.s.Operation; o.State != operations.Running || o.Wait == nil || !strings.Contains(o.Wait.Cause, "m2") || w.count("rotate") != 0 {
		w.fail("the operation is %+v", o)
	}
	stopped, err := w.s.Operation.AbortBy("user-1", w.s.Now)
	if err != nil {
		t.Fatal(err)
	}
	w.s.Operation = &stopped
	w.settle()
	w.ended(operations.Aborted)
}

// TestRestoreAfterTheLossOfMembers loses all hosts but one, forgets their machines, and restores on the one.
func TestRestoreAfterTheLossOfMembers(t *testing.T) {
	for seed := range orders(6) {
		w := newWorld(t, seed, minimal, etcdControl, etcdControl, etcdControl, workerOnly)
		w.limit = 100
		w.settle()
		w.outage = true
		for _, name := range []string{"m0", "m1"} {
			w.hosts[name].dead, w.machine(name).Agent = true, observedGone()
		}
		w.settle()
		for _, name := range []string{"m0", "m1"} {
			forgotten := *w.machine(name).Machine
			forgotten.Deleting, forgotten.Leave.Force = w.s.Now, true
			w.machine(name).Machine = &forgotten
		}
		w.settle()
		delete(w.hosts, "m0")
		delete(w.hosts, "m1")
		w.ask(operations.KindRestore, steps.Request{Snapshot: "on-demand-m2", Target: "m2"})
		for w.count("check") == 0 {
			w.happens(1)
		}
		w.faulty = int(seed % 2)
		w.settle()
		w.ended(operations.Succeeded)
		w.active()
		if w.count("restore") != 1 || w.s.Cluster.Status.Restoring != "" {
			w.fail("%d restores, the cluster is restored by %q", w.count("restore"), w.s.Cluster.Status.Restoring)
		}
		w.s.Operation = nil
		w.add("m5", etcdControl)
		w.add("m6", etcdControl)
		w.settle()
		w.active()
	}
}

// TestRestoreOfAWholeCluster: all servers stop, one has the snapshot, and the others join it one after the other.
func TestRestoreOfAWholeCluster(t *testing.T) {
	eachWorld(t, minimal, func(w *world) {
		w.outage, w.limit = true, 100
		target := w.s.Machines[slices.IndexFunc(w.s.Machines, func(m pass.Machine) bool { return m.Roles.Etcd })].Name
		w.ask(operations.KindRestore, steps.Request{Snapshot: "/tmp/uploaded", Target: target})
		w.settle()
		w.ended(operations.Succeeded)
		w.active()
		if !w.machine(target).Status.Init {
			w.fail("%s did not begin the cluster anew", target)
		}
		for _, m := range w.s.Machines {
			if want := 2; w.hosts[m.Name].restarts != want {
				w.fail("%s started %d times", m.Name, w.hosts[m.Name].restarts)
			}
		}
	})
}

// TestRestoreOntoNewHosts after the loss of all servers. The worker that stays joins one of the new ones.
func TestRestoreOntoNewHosts(t *testing.T) {
	for seed := range orders(4) {
		w := newWorld(t, seed, minimal, allInOne, workerOnly)
		w.settle()
		w.hosts["m0"].dead, w.machine("m0").Agent = true, observedGone()
		forgotten := *w.machine("m0").Machine
		forgotten.Deleting, forgotten.Leave.Force = w.s.Now, true
		w.machine("m0").Machine = &forgotten
		w.settle()
		delete(w.hosts, "m0")
		w.add("m5", etcdControl)
		w.add("m6", etcdControl)
		w.settle()
		if w.hosts["m5"].installed || w.s.Cluster.Status.State != records.ClusterError {
			w.fail("the cluster is %+v", w.s.Cluster.Status)
		}
		w.outage, w.limit = true, 100
		w.ask(operations.KindRestore, steps.Request{Snapshot: "/root/snapshot", Target: "m5"})
		for w.count("reconnect") == 0 {
			w.happens(1)
		}
		if to := w.machine("m1").Status.JoinedTo; to != w.machine("m5").Status.JoinURL && to != w.machine("m6").Status.JoinURL || to == "" {
			w.fail("the worker starts again with the server %q", to)
		}
		w.settle()
		w.ended(operations.Succeeded)
		w.s.Operation = nil
		w.settle()
		w.active()
	}
}

// TestARestoreThatFails keeps servers from starting with an empty etcd, until one succeeds.
func TestARestoreThatFails(t *testing.T) {
	w := newWorld(t, 3, minimal, allInOne, etcdControl, etcdControl)
	w.limit = 100
	w.settle()
	w.outage = true
	w.ask(operations.KindRestore, steps.Request{Snapshot: "on-demand-m0", Target: "m0"})
	w.failing = "restore"
	w.settle()
	w.failing = ""
	w.ended(operations.Failed)
	for _, m := range w.s.Machines {
		if w.hosts[m.Name].up || m.Status.State != records.Failed || m.Status.Code != "restore-not-finished" {
			w.fail("%s is up, or says %+v", m.Name, m.Status.Condition)
		}
	}
	retried, err := w.s.Operation.RetryBy("user-1", nil, w.s.Now)
	if err != nil {
		t.Fatal(err)
	}
	w.s.Operation = &retried
	w.settle()
	w.ended(operations.Succeeded)
	w.active()
}

// TestARestoreIsRefused before anything is stopped.
func TestARestoreIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*world)
		ask     steps.Request
		want    string
	}{
		"a host is away":  {func(w *world) { w.machine("m1").Agent = observed.Presence{} }, steps.Request{Snapshot: "a", Target: "m0"}, "m1 (node-m1, 10.0.0.1) has to be stopped, and its agent has not connected; bring it back, or remove it by drover machines rm m1 --force"},
		"no such machine": {func(*world) {}, steps.Request{Snapshot: "a", Target: "m9"}, "the cluster has no machine m9"},
		"a worker":        {func(*world) {}, steps.Request{Snapshot: "a", Target: "m2"}, "m2 (node-m2, 10.0.0.2) has no etcd"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, minimal, etcdControl, etcdControl, workerOnly)
			w.limit = 100
			w.settle()
			c.prepare(w)
			w.ask(operations.KindRestore, c.ask)
			w.settle()
			if o := w.s.Operation; o.State != operations.Failed || o.Reason != c.want || len(w.jobs) > 0 || w.s.Cluster.Status.Restoring != "" {
				w.fail("the operation is %s: %s", o.State, o.Reason)
			}
		})
	}
}

// TestRestoreOfAnotherVersion: the servers stop, the cluster becomes what it was, and the snapshot is restored with that.
func TestRestoreOfAnotherVersion(t *testing.T) {
	w := newWorld(t, 3, older, etcdControl, etcdControl, workerOnly)
	w.limit = 100
	w.settle()
	was := w.s.Cluster.Spec
	w.spec(minimal)
	w.settle()
	w.outage = true
	w.ask(operations.KindRestore, steps.Request{Snapshot: "on-demand-m0", Target: "m0", Spec: &was})
	w.settle()
	w.ended(operations.Succeeded)
	w.s.Operation = nil
	w.settle()
	w.active()
	for _, m := range w.s.Machines {
		if w.hosts[m.Name].version != "v1.34.3+k3s1" {
			w.fail("%s runs %s", m.Name, w.hosts[m.Name].version)
		}
	}
}
