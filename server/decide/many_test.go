package decide

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

var (
	allInOne     = records.Roles{Etcd: true, ControlPlane: true, Worker: true}
	etcdOnly     = records.Roles{Etcd: true}
	etcdControl  = records.Roles{Etcd: true, ControlPlane: true}
	controlPlane = records.Roles{ControlPlane: true}
	workerOnly   = records.Roles{Worker: true}
)

const (
	older   = `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.3+k3s1, rkeConfig: {}}}`
	changed = `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {machineGlobalConfig: {kubelet-arg: [max-pods=200]}}}}`
	wider   = `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {machineGlobalConfig: {kubelet-arg: [max-pods=200]}, upgradeStrategy: {workerConcurrency: "2"}}}}`
)

// shapes are mixes of roles.
var shapes = map[string][]records.Roles{
	"one":                        {allInOne},
	"three all in one":           {allInOne, allInOne, allInOne},
	"three servers, two workers": {etcdControl, etcdControl, etcdControl, workerOnly, workerOnly},
	"roles apart":                {etcdOnly, etcdOnly, etcdOnly, controlPlane, controlPlane, workerOnly, workerOnly, workerOnly},
	"five of etcd":               {workerOnly, etcdControl, etcdOnly, etcdOnly, etcdOnly, etcdOnly},
}

// eachWorld runs a walk for each shape with several orders of events.
func eachWorld(t *testing.T, spec string, walk func(*world)) {
	for name, roles := range shapes {
		t.Run(name, func(t *testing.T) {
			for seed := range orders(3) {
				w := newWorld(t, seed, spec, roles...)
				w.limit = 100 // joining is no change
				w.settle()
				w.active()
				w.limit = 1
				walk(w)
			}
		})
	}
}

func TestBringUp(t *testing.T) {
	eachWorld(t, minimal, func(w *world) {
		begins := 0
		for _, m := range w.s.Machines {
			if m.Status.Init {
				begins++
			}
			if w.hosts[m.Name].restarts != 1 {
				w.fail("%s started %d times", m.Name, w.hosts[m.Name].restarts)
			}
			if m.Status.Init != (m.Secret.Labels["rke.cattle.io/init-node"] == "true") || m.IsServer() != (m.Secret.Annotations["rke.cattle.io/join-url"] != "") {
				w.fail("the Secret of %s has %v and %v", m.Name, m.Secret.Labels, m.Secret.Annotations)
			}
		}
		if begins != 1 {
			w.fail("%d machines begin the cluster", begins)
		}
	})
}

func TestChangesGoFromTierToTier(t *testing.T) {
	for name, to := range map[string]string{"config": changed, "two workers at a time": wider} {
		t.Run(name, func(t *testing.T) {
			eachWorld(t, minimal, func(w *world) {
				if to == wider {
					w.limit = 2
				}
				w.spec(to)
				w.begin(operations.KindChange)
				w.settle()
				w.active()
				if o := w.s.Operation; o.State != operations.Succeeded || len(o.Tasks) != len(w.s.Machines) || o.Wait != nil {
					w.fail("the operation is %+v", o)
				}
				for _, m := range w.s.Machines {
					if w.hosts[m.Name].restarts != 2 {
						w.fail("%s started %d times", m.Name, w.hosts[m.Name].restarts)
					}
				}
			})
		})
	}
}

func TestUpgrade(t *testing.T) {
	eachWorld(t, older, func(w *world) {
		w.spec(minimal)
		serversFirst := func() {
			newWorkers, oldServers := 0, []string{}
			for _, m := range w.s.Machines {
				is := w.hosts[m.Name].version == "v1.34.4+k3s1"
				if is && !m.IsServer() {
					newWorkers++
				}
				if !is && m.IsServer() {
					oldServers = append(oldServers, m.Name)
				}
			}
			if newWorkers > 0 && len(oldServers) > 0 {
				w.fail("a worker is newer than the servers %q", oldServers)
			}
		}
		for range 60 {
			w.happens(1)
			serversFirst()
		}
		w.settle()
		w.active()
		for _, m := range w.s.Machines {
			if w.hosts[m.Name].version != "v1.34.4+k3s1" {
				w.fail("%s runs %s", m.Name, w.hosts[m.Name].version)
			}
		}
	})
}

// TestWhatRestartsNobody: a manifest, a label, another machine to begin the cluster.
func TestWhatRestartsNobody(t *testing.T) {
	eachWorld(t, minimal, func(w *world) {
		w.spec(`{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {additionalManifest: "{apiVersion: v1, kind: Namespace, metadata: {name: extra}}"}}}`)
		w.settle()
		w.active()
		for _, m := range w.s.Machines {
			if w.hosts[m.Name].restarts != 1 {
				w.fail("%s started %d times for a manifest", m.Name, w.hosts[m.Name].restarts)
			}
		}
	})
}

func (w *world) leave(name string) {
	m := w.machine(name)
	leaving := *m.Machine
	leaving.Deleting, leaving.Leave = w.s.Now, records.Leave{Uninstall: true}
	m.Machine = &leaving
}

func (w *world) beginner() string {
	for _, m := range w.s.Machines {
		if m.Status.Init {
			return m.Name
		}
	}
	return ""
}

// TestTheBeginnerIsReplaced: others join through another machine, no machine restarts, and the host is left clean.
func TestTheBeginnerIsReplaced(t *testing.T) {
	for _, name := range []string{"three all in one", "three servers, two workers", "roles apart", "five of etcd"} {
		t.Run(name, func(t *testing.T) {
			for seed := range orders(3) {
				w := newWorld(t, seed, minimal, shapes[name]...)
				w.limit = 100
				w.settle()
				first := w.beginner()
				alone := w.controlPlanes() == 1 && w.machine(first).Roles.ControlPlane
				if alone {
					w.add("m9", controlPlane)
					w.settle()
				}
				url := w.machine(first).Status.JoinURL
				w.leave(first)
				w.settle()
				w.active()
				if w.machine(first) != nil || !w.hosts[first].clean || w.hosts[first].voter || w.beginner() == "" {
					w.fail("%s is not gone: %+v", first, w.hosts[first])
				}
				for _, m := range w.s.Machines {
					if w.hosts[m.Name].restarts != 1 {
						w.fail("%s started %d times", m.Name, w.hosts[m.Name].restarts)
					}
					if p, _ := pass.Delivered(m.Data()); strings.Contains(settingsOf(p), url) || m.Status.JoinedTo == url {
						w.fail("%s still joins at %s", m.Name, url)
					}
				}
			}
		})
	}
}

func (w *world) controlPlanes() (n int) {
	for _, m := range w.s.Machines {
		if m.Roles.ControlPlane {
			n++
		}
	}
	return n
}

// TestTwoMembersLeaveAtOnce: one after the other.
func TestTwoMembersLeaveAtOnce(t *testing.T) {
	for seed := range orders(5) {
		w := newWorld(t, seed, minimal, allInOne, etcdControl, etcdControl, etcdControl, etcdControl)
		w.limit = 100
		w.settle()
		w.leave("m3")
		w.leave("m4")
		w.settle()
		w.active()
		if len(w.s.Machines) != 3 || !w.hosts["m3"].clean || !w.hosts["m4"].clean {
			w.fail("they are still there")
		}
	}
}

// TestAMemberThatEtcdNeedsStays until the lost one is back.
func TestAMemberThatEtcdNeedsStays(t *testing.T) {
	w := newWorld(t, 5, minimal, allInOne, etcdControl, etcdControl)
	w.limit = 100
	w.settle()
	w.hosts["m2"].dead, w.machine("m2").Agent = true, observedGone()
	w.settle()
	w.leave("m1")
	w.settle()
	if m := w.machine("m1"); m == nil || m.Status.Code != "leaving-quorum" || !strings.Contains(m.Status.Cause, "m2") || w.hosts["m1"].gone {
		w.fail("m1 is gone, or says %+v", m.Status.Condition)
	}
	w.hosts["m2"].dead, w.machine("m2").Agent = false, observed.Presence{Connected: true}
	w.settle()
	w.active()
	if w.machine("m1") != nil {
		w.fail("m1 is still there")
	}
}

func TestTheLastWorkerLeaves(t *testing.T) {
	w := newWorld(t, 1, minimal, etcdControl, workerOnly)
	w.limit = 100
	w.settle()
	w.leave("m1")
	w.settle()
	w.active()
	if len(w.s.Machines) != 1 {
		w.fail("%d machines are left", len(w.s.Machines))
	}
}

func TestTheLastMemberStays(t *testing.T) {
	w := newWorld(t, 1, minimal, allInOne)
	w.settle()
	w.leave("m0")
	w.settle()
	if m := w.machine("m0"); m == nil || m.Status.Code != "leaving-last-etcd" || w.hosts["m0"].clean {
		w.fail("it is gone, or says %+v", m.Status.Condition)
	}
}

// TestAWholeClusterLeaves: the workers first.
func TestAWholeClusterLeaves(t *testing.T) {
	for seed := range orders(8) {
		w := newWorld(t, seed, minimal, shapes["three servers, two workers"]...)
		w.limit = 100
		w.settle()
		w.s.Cluster.Deleting, w.s.Cluster.Leave = w.s.Now, records.Leave{Uninstall: true}
		for range 200 {
			w.happens(1)
			for _, m := range w.s.Machines {
				if !m.IsServer() && slices.ContainsFunc([]string{"m0", "m1", "m2"}, func(name string) bool { return w.hosts[name].clean }) {
					w.fail("a server goes before the worker %s", m.Name)
				}
			}
		}
		w.settle()
		if len(w.s.Machines) > 0 || !Decide(w.s).Cluster.Remove {
			w.fail("something is left")
		}
		for name, h := range w.hosts {
			if !h.clean {
				w.fail("%s is not clean", name)
			}
		}
	}
}

// TestADeadHostStopsOnlyWhatItMust: it takes the budget of its tier, and keeps no machine from joining.
func TestADeadHostStopsOnlyWhatItMust(t *testing.T) {
	w := newWorld(t, 3, minimal, etcdControl, etcdControl, etcdControl, workerOnly, workerOnly)
	w.limit = 100
	w.settle()
	w.limit = 2 // the dead one and one that changes
	w.hosts["m4"].dead = true
	w.machine("m4").Agent = observedGone()
	w.settle()
	w.spec(wider)
	w.settle()
	w.active("m4")
	if got := w.hosts["m3"].restarts; got != 2 {
		w.fail("the other worker started %d times", got)
	}
	w.add("m5", workerOnly)
	w.limit = 100
	w.settle()
	w.active("m4")
}

// TestAHostThatDiesWhileItJoinsEtcd keeps other members from joining, and says so; workers join. Forgotten, it is in no instruction's way.
func TestAHostThatDiesWhileItJoinsEtcd(t *testing.T) {
	w := newWorld(t, 3, minimal, etcdControl, workerOnly)
	w.limit = 100
	w.settle()
	w.add("m5", etcdControl)
	w.add("m6", etcdControl)
	w.add("m7", workerOnly)
	w.hosts["m5"].dead, w.machine("m5").Agent = true, observedGone()
	w.settle()
	w.active("m5", "m6")
	waits := w.machine("m6").Status
	if waits.Code != "wait-voter" || !strings.Contains(waits.Cause, "m5") || !strings.Contains(waits.NextStep, "drover machines rm m5 --force") {
		w.fail("m6 says %+v", waits.Condition)
	}
	forgotten := *w.machine("m5").Machine
	forgotten.Deleting, forgotten.Leave.Force = w.s.Now, true
	w.machine("m5").Machine = &forgotten
	w.settle()
	w.active()
}

// TestNobodyJoinsAheadOfItsServers: a host that registers in the middle of an upgrade waits for the servers.
func TestNobodyJoinsAheadOfItsServers(t *testing.T) {
	for seed := range orders(5) {
		w := newWorld(t, seed, older, allInOne, etcdControl, etcdControl)
		w.limit = 100
		w.settle()
		w.spec(minimal)
		w.happens(2)
		w.add("m5", workerOnly)
		w.add("m6", etcdControl)
		for range 300 {
			w.happens(1)
			for _, late := range []string{"m5", "m6"} {
				for _, server := range []string{"m0", "m1", "m2"} {
					if w.hosts[late].installed && w.hosts[server].version != "v1.34.4+k3s1" {
						w.fail("%s joined before %s was upgraded", late, server)
					}
				}
			}
		}
		w.settle()
		w.active()
	}
}

// TestAgentsWithoutATunnel: the server does not see the cluster's API, and order, quorum and budget hold by what the agents report.
func TestAgentsWithoutATunnel(t *testing.T) {
	for name, roles := range shapes {
		t.Run(name, func(t *testing.T) {
			for seed := range orders(3) {
				w := newWorld(t, seed, minimal, roles...)
				w.blind, w.limit = true, 100
				w.settle()
				w.limit = 1
				w.spec(changed)
				w.settle()
				for _, m := range w.s.Machines {
					if w.hosts[m.Name].restarts != 2 || m.Status.Code != "no-api" {
						w.fail("%s started %d times and is %+v", m.Name, w.hosts[m.Name].restarts, m.Status.Condition)
					}
				}
			}
		})
	}
}

// TestQuorumIsKept: while a member is lost, a change does not restart another one whose loss would end the quorum; it
// goes on when the member is back.
func TestQuorumIsKept(t *testing.T) {
	for name, roles := range map[string][]records.Roles{
		"of three": {allInOne, etcdControl, etcdControl},
		"of two":   {allInOne, etcdControl}, // nothing is left to lose
		"of five":  {allInOne, etcdControl, etcdControl, etcdControl, etcdControl},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 5, minimal, roles...)
			w.limit = 100
			w.settle()
			first := w.beginner()
			lost := w.s.Machines[len(w.s.Machines)-1].Name
			if first == lost {
				t.Fatal("the last machine began the cluster")
			}
			w.hosts[lost].dead, w.machine(lost).Agent = true, observedGone()
			w.settle()
			w.spec(changed)
			w.settle()
			restarted := 0
			for _, m := range w.s.Machines {
				restarted += w.hosts[m.Name].restarts - 1
			}
			switch s := w.machine(first).Status; {
			case len(roles) == 5 && restarted == 0:
				w.fail("five members bear the loss of two, and none restarts")
			case len(roles) == 3 && (restarted > 0 || s.Code != "wait-quorum"):
				w.fail("%d restarted; %s says %+v", restarted, first, s.Condition)
			}
			w.hosts[lost].dead, w.machine(lost).Agent = false, observed.Presence{Connected: true}
			w.settle()
			w.active()
		})
	}
}

// TestTwins: one of two machines with a node name, or an address, waits and says which one has it; removed, the other joins.
func TestTwins(t *testing.T) {
	for name, twin := range map[string]func(*records.Machine){
		"node name": func(m *records.Machine) { m.NodeName = "node-m1" },
		"address":   func(m *records.Machine) { m.InternalAddress = []string{"10.0.0.1"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, minimal, etcdControl, workerOnly)
			w.limit = 100
			w.settle()
			w.add("m5", workerOnly)
			m := w.machine("m5")
			changed := *m.Machine
			twin(&changed)
			m.Machine = &changed
			w.settle()
			w.active("m5")
			if s := w.machine("m5").Status; s.Code != "duplicate" || !strings.Contains(s.Cause, name) || !strings.Contains(s.Cause, "m1") || w.hosts["m5"].installed {
				w.fail("m5 says %+v", s.Condition)
			}
			w.leave("m1")
			w.settle()
			w.active()
		})
	}
}

// TestAnAbortedChange finishes what it has begun, leaves the others alone, and stays ended until the cluster is changed again.
func TestAnAbortedChange(t *testing.T) {
	eachWorld(t, minimal, func(w *world) {
		w.spec(changed)
		w.begin(operations.KindChange)
		w.happens(3)
		stopped, err := w.s.Operation.AbortBy("user-1", w.s.Now)
		if err != nil {
			return // it was through
		}
		w.s.Operation = &stopped
		var untaken []string
		for _, m := range w.s.Machines {
			if m.Status.State == records.Active && w.hosts[m.Name].restarts == 1 {
				untaken = append(untaken, m.Name)
			}
		}
		w.settle()
		for _, name := range untaken {
			if w.hosts[name].restarts != 1 {
				w.fail("%s was changed after the abort", name)
			}
		}
		left := 0
		for _, m := range w.s.Machines {
			if w.hosts[m.Name].restarts == 1 {
				left++
			}
		}
		want := operations.Aborted
		if left == 0 {
			want = operations.Succeeded
		}
		if w.s.Operation.State != want {
			w.fail("the operation is %s, %d machines are as they were", w.s.Operation.State, left)
		}
		w.active()
		w.s.Operation = nil
		w.settle()
		for _, m := range w.s.Machines {
			if w.hosts[m.Name].restarts == 1 {
				left--
			}
		}
		if left != 0 {
			w.fail("machines were changed after the abort")
		}
		w.spec(changed)
		w.begin(operations.KindChange)
		w.settle()
		w.active()
		if w.s.Operation.State != operations.Succeeded {
			w.fail("the next operation is %+v", w.s.Operation)
		}
	})
}

func TestPausedAndResumed(t *testing.T) {
	eachWorld(t, minimal, func(w *world) {
		w.spec(changed)
		w.happens(3)
		w.s.Cluster.Paused = &records.Pause{At: w.s.Now}
		w.settle()
		done := 0
		for _, m := range w.s.Machines {
			if w.hosts[m.Name].restarts == 2 {
				done++
			} else if m.Status.State != records.Active || m.Status.Code != "paused" {
				w.fail("%s is not left alone: %+v", m.Name, m.Status.Condition)
			}
		}
		if len(w.s.Machines) > 1 && done == len(w.s.Machines) {
			w.fail("all machines were changed")
		}
		w.s.Cluster.Paused = nil
		w.settle()
		w.active()
	})
}

// TestDrains: pods leave before a machine restarts and come back after, but where a person had cordoned the node.
func TestDrains(t *testing.T) {
	eachWorld(t, minimal, func(w *world) {
		mine := ""
		if len(w.s.Machines) > 1 {
			mine = w.s.Machines[len(w.s.Machines)-1].Name
			w.hosts[mine].cordoned = true
		}
		w.spec(changed)
		w.s.Cluster.Spec.RKEConfig.UpgradeStrategy = &clusterspec.UpgradeStrategy{
			WorkerDrainOptions: &clusterspec.DrainOptions{Enabled: true}, ControlPlaneDrainOptions: &clusterspec.DrainOptions{Enabled: true},
		}
		for range 400 {
			restarts := map[string]int{}
			for name, h := range w.hosts {
				restarts[name] = h.restarts
			}
			w.happens(1)
			for name, h := range w.hosts {
				if h.restarts > restarts[name] && !h.cordoned && len(w.hosts) > 1 {
					w.fail("%s restarted without a drain", name)
				}
			}
		}
		w.settle()
		w.active()
		for _, m := range w.s.Machines {
			if w.hosts[m.Name].cordoned != (m.Name == mine) {
				w.fail("node of %s is cordoned: %v", m.Name, w.hosts[m.Name].cordoned)
			}
			for key := range m.Secret.Annotations {
				if strings.Contains(key, "drain") || strings.Contains(key, "uncordon") {
					w.fail("%s keeps annotation %s", m.Name, key)
				}
			}
		}
	})
}
