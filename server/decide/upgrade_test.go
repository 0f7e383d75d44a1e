package decide

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
)

// upgrade asks for the version of minimal, beginning with a snapshot.
func (w *world) upgrade() {
	w.Helper()
	text, err := json.Marshal(map[string]any{"guard": steps.Guard{Spec: w.s.Cluster.Spec}})
	if err != nil {
		w.Fatal(err)
	}
	w.spec(minimal)
	w.begin(operations.KindUpgrade)
	w.s.Operation.Params = text
}

// restarts is how often the runtimes of all hosts were started.
func (w *world) restarts() (n int) {
	for _, h := range w.hosts {
		n += h.restarts
	}
	return n
}

// retry tries the operation again, as a user asks for it.
func (w *world) retry() {
	w.Helper()
	retried, err := w.s.Operation.RetryBy("user-1", nil, w.s.Now)
	if err != nil {
		w.Fatal(err)
	}
	w.s.Operation = &retried
}

// TestAnUpgradeBeginsWithASnapshot of one member, as a task of the same operation; no machine restarts before there is one, and
// it has the way back to what the cluster was.
func TestAnUpgradeBeginsWithASnapshot(t *testing.T) {
	eachWorld(t, older, func(w *world) {
		w.faulty = int(w.rand.Uint64() % 3)
		began := w.restarts()
		w.upgrade()
		for range 2000 {
			w.happens(1)
			if len(w.snapshots) > 0 {
				break
			}
			if w.restarts() != began {
				w.fail("a host restarts before there is a snapshot")
			}
		}
		w.settle()
		w.active()
		w.ended(operations.Succeeded)
		o := w.s.Operation
		if len(w.snapshots) != 1 || w.snapshots[0].Spec.KubernetesVersion != "v1.34.3+k3s1" || w.snapshots[0].By != o.ID {
			w.fail("the snapshots are %+v", w.snapshots)
		}
		if want := "drover snapshots restore harbour " + w.snapshots[0].Name() + " --mode kubernetesVersion --replace --yes"; o.Back != want {
			w.fail("the way back is %q, want %q", o.Back, want)
		}
		if !steps.IsGuard(o.Tasks[0]) || len(o.Tasks) != 1+len(w.s.Machines) {
			w.fail("the tasks are %+v", o.Tasks)
		}
		if w.restarts() != began+len(w.s.Machines) {
			w.fail("%d restarts of %d machines", w.restarts()-began, len(w.s.Machines))
		}
	})
}

// TestAnUpgradeWithoutItsSnapshot does not begin, says why and what to do, and does not begin by itself; tried again it does.
func TestAnUpgradeWithoutItsSnapshot(t *testing.T) {
	w := grown(t, older, allInOne, etcdControl, etcdControl, workerOnly)
	began := w.restarts()
	w.failing = "guard"
	w.upgrade()
	w.settle()
	w.ended(operations.Failed)
	failed := w.s.Operation
	for _, part := range []string{"no space left", "nothing was changed", "drover operations retry", "--no-snapshot"} {
		if !strings.Contains(failed.Reason, part) {
			w.fail("the reason is %q, without %q", failed.Reason, part)
		}
	}
	w.s.Operation = nil
	w.settle()
	if w.restarts() != began || len(w.snapshots) > 0 {
		w.fail("%d restarts without a snapshot", w.restarts()-began)
	}
	w.failing, w.s.Operation = "", failed
	w.retry()
	w.settle()
	w.ended(operations.Succeeded)
	w.active()
	if w.restarts() != began+4 || len(w.snapshots) != 1 {
		w.fail("%d restarts, %d snapshots", w.restarts()-began, len(w.snapshots))
	}
}

// TestAnUpgradeIsStoppedBeforeItsSnapshot, or while it is taken: nothing changes.
func TestAnUpgradeIsStoppedBeforeItsSnapshot(t *testing.T) {
	for _, after := range []int{0, 1, 2} {
		w := grown(t, older, allInOne, etcdControl, etcdControl)
		began := w.restarts()
		w.upgrade()
		w.happens(after)
		w.abort()
		w.settle()
		w.ended(operations.Aborted)
		w.s.Operation = nil
		w.settle()
		if w.restarts() != began {
			w.fail("%d restarts", w.restarts()-began)
		}
	}
}

// TestASnapshotOfAnotherMember is taken when the agent of the first one is not there.
func TestASnapshotOfAnotherMember(t *testing.T) {
	w := grown(t, older, allInOne, etcdControl, etcdControl)
	w.upgrade()
	w.s.Cluster.Annotations = map[string]string{clusterspec.MaintenanceWindow: "daily 00:00-24:00 UTC"}
	w.machine("m0").Agent = observedGone()
	for len(w.snapshots) == 0 {
		w.happens(1)
	}
	if w.snapshots[0].Machine == "m0" {
		w.fail("it is that of m0")
	}
}

// TestAFailedUpgradeNamesTheWayBack while it fails, and when it is stopped.
func TestAFailedUpgradeNamesTheWayBack(t *testing.T) {
	w := grown(t, older, allInOne, etcdControl, etcdControl)
	w.upgrade()
	var first *pass.Machine
	for first == nil {
		w.happens(1)
		for i := range w.s.Machines {
			m := &w.s.Machines[i]
			if p, _ := pass.Delivered(m.Data()); jobOf(p) == "" && w.restartsOn(*m) && plans.State(m.Data()[plans.KeyPlanState]) == plans.StateInProgress {
				first = m
			}
		}
	}
	w.write(first, func(d map[string][]byte) { d[plans.KeyPlanState] = []byte(plans.StateFailed) })
	w.pass(1, time.Second)
	if o := w.s.Operation; o.Wait == nil || !strings.Contains(o.Wait.NextStep, "the way back is drover snapshots restore harbour on-demand-") {
		w.fail("it waits for %+v", o.Wait)
	}
	w.abort()
	w.settle()
	if o := w.s.Operation; o.State != operations.Aborted || !strings.Contains(o.Reason, "3 of 3 were not changed") || !strings.Contains(o.Reason, "the way back is drover snapshots restore") {
		w.fail("it is %s: %s", o.State, o.Reason)
	}
}

// TestARestoreBeginsWithASnapshot of what the cluster is now, unless it is told not to.
func TestARestoreBeginsWithASnapshot(t *testing.T) {
	for _, without := range []bool{false, true} {
		w := grown(t, minimal, allInOne, etcdControl, etcdControl)
		w.outage = true
		w.ask(operations.KindRestore, steps.Request{Snapshot: "on-demand-m0", Target: "m0", NoSnapshot: without})
		w.settle()
		w.ended(operations.Succeeded)
		want := 1
		if without {
			want = 0
		}
		if w.count("guard") != want || len(w.snapshots) != want {
			w.fail("%d snapshots were taken, want %d", w.count("guard"), want)
		}
	}
	w := grown(t, minimal, allInOne, etcdControl, etcdControl)
	w.failing = "guard"
	w.ask(operations.KindRestore, steps.Request{Snapshot: "on-demand-m0", Target: "m0"})
	w.settle()
	w.ended(operations.Failed)
	w.active()
	if w.count("check")+w.count("stop") > 0 || !strings.Contains(w.s.Operation.Reason, "--no-snapshot") {
		w.fail("it went on, or says %q", w.s.Operation.Reason)
	}
}

// windowIn sets a window that opens after some time, for an hour.
func (w *world) windowIn(wait time.Duration) (opens time.Time) {
	opens = w.s.Now.Add(wait).Truncate(time.Minute)
	w.s.Cluster.Annotations = map[string]string{clusterspec.MaintenanceWindow: fmt.Sprintf("%s %s-%s UTC", opens.Format("Mon"), opens.Format("15:04"), opens.Add(time.Hour).Format("15:04"))}
	return opens
}

// comes lets things happen until something is so.
func (w *world) comes(so func() bool) {
	w.Helper()
	for range 3000 {
		if so() {
			return
		}
		w.happens(1)
	}
	w.fail("it does not come to that")
}

// TestAnUpgradeKeepsToItsWindow: it waits for the first one, begins nothing after its end, brings to an end what it has
// begun, and goes on in the next one.
func TestAnUpgradeKeepsToItsWindow(t *testing.T) {
	for seed := range orders(4) {
		w := newWorld(t, seed, older, allInOne, etcdControl, etcdControl, workerOnly, workerOnly)
		w.limit = 100
		w.settle()
		w.limit = 1
		began := w.restarts()
		opens := w.windowIn(26 * time.Hour)
		w.upgrade()
		w.settle()
		o := w.s.Operation
		if w.restarts() != began || len(w.jobs) > 0 || o.Wait == nil || !o.Wait.Until.Equal(opens) || !strings.Contains(o.Wait.Cause, "waits for the maintenance window") {
			w.fail("%d restarts, %v, it waits for %+v", w.restarts()-began, w.jobs, o.Wait)
		}
		if w.s.Now.Add(w.again) != opens || !w.s.Cluster.Status.Ready {
			w.fail("it is looked at again in %s, the cluster is %+v", w.again, w.s.Cluster.Status)
		}
		w.s.Now = opens
		changing := func() bool {
			for i := range w.s.Machines {
				if m := &w.s.Machines[i]; len(w.jobs) > 0 && w.restartsOn(*m) {
					return true
				}
			}
			return false
		}
		w.comes(changing)
		w.s.Now = opens.Add(time.Hour)
		w.settle()
		if n := w.restarts() - began; n != 1 || w.s.Operation.State != operations.Running {
			w.fail("%d restarts, the operation is %s", n, w.s.Operation.State)
		}
		for _, m := range w.s.Machines {
			if h := w.hosts[m.Name]; !h.up || h.cordoned {
				w.fail("%s was cut off", m.Name)
			}
		}
		w.s.Now = opens.Add(7 * 24 * time.Hour)
		w.settle()
		w.active()
		w.ended(operations.Succeeded)
		if len(w.snapshots) != 1 {
			w.fail("%d snapshots", len(w.snapshots))
		}
	}
}

// TestADrainIsBroughtToItsEnd though the window has closed: its pods have left.
func TestADrainIsBroughtToItsEnd(t *testing.T) {
	const draining = `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.3+k3s1, rkeConfig: {upgradeStrategy: {workerDrainOptions: {enabled: true}}}}}`
	w := grown(t, draining, allInOne, workerOnly, workerOnly)
	opens := w.windowIn(time.Hour)
	w.spec(strings.Replace(draining, "v1.34.3", "v1.34.4", 1))
	w.begin(operations.KindUpgrade)
	w.s.Now = opens
	drains := func() bool {
		for _, m := range w.s.Machines {
			if m.Status.Drain != nil {
				return true
			}
		}
		return false
	}
	w.comes(drains)
	w.s.Now = opens.Add(time.Hour)
	w.settle()
	versions := map[string]int{}
	for _, h := range w.hosts {
		versions[h.version]++
		if h.cordoned {
			w.fail("a node stays cordoned")
		}
	}
	if want := map[string]int{"v1.34.4+k3s1": 2, "v1.34.3+k3s1": 1}; !maps.Equal(versions, want) || drains() {
		w.fail("the versions are %v", versions)
	}
}

// TestAnOperationThatIsHurried does not wait for the window.
func TestAnOperationThatIsHurried(t *testing.T) {
	w := grown(t, older, allInOne, workerOnly)
	w.windowIn(26 * time.Hour)
	w.upgrade()
	w.settle()
	hurried, err := w.s.Operation.HurryBy("user-1", w.s.Now)
	if err != nil {
		t.Fatal(err)
	}
	w.s.Operation = &hurried
	w.settle()
	w.active()
	w.ended(operations.Succeeded)
	if last := hurried.Log[len(hurried.Log)-1].Text; !strings.Contains(last, "asked for by user-1") {
		w.fail("the log says %q", last)
	}
}

// TestWhatDoesNotWaitForTheWindow: machines join, and what does not work is mended, but for a new version.
func TestWhatDoesNotWaitForTheWindow(t *testing.T) {
	w := newWorld(t, 1, older, allInOne, workerOnly)
	w.limit = 100
	w.windowIn(26 * time.Hour)
	w.settle()
	w.active()
	w.add("m7", workerOnly)
	w.settle()
	w.active()
	w.hosts["m1"].up, w.hosts["m1"].jammed = false, true
	w.report(w.machine("m1"))
	w.pass(3, time.Minute)
	w.spec(minimal)
	w.settle()
	if w.hosts["m1"].up || w.restarts() != 3 {
		w.fail("an upgrade began, after %d restarts", w.restarts())
	}
	w.spec(strings.Replace(older, "rkeConfig: {}", "rkeConfig: {machineGlobalConfig: {kubelet-arg: [max-pods=200]}}", 1))
	w.settle()
	if !w.hosts["m1"].up || w.restarts() != 4 {
		w.fail("m1 is not mended, or others restarted: %d restarts", w.restarts())
	}
}

// TestAWindowThatCannotBeRead lets nothing restart, and says so.
func TestAWindowThatCannotBeRead(t *testing.T) {
	w := grown(t, older, allInOne)
	w.s.Cluster.Annotations = map[string]string{clusterspec.MaintenanceWindow: "Sat 22:00-04:00 Mars/Olympus"}
	w.spec(minimal)
	w.settle()
	if m := w.machine("m0"); w.restarts() != 1 || m.Status.Code != "wait-window" || !strings.Contains(m.Status.Cause, `"Mars/Olympus" is not a zone`) {
		w.fail("m0 says %+v", m.Status.Condition)
	}
}

// TestAnOperationOfALaterChange: the record of a change is seen with the cluster of before; it does not end by that, and goes
// on when the change is seen.
func TestAnOperationOfALaterChange(t *testing.T) {
	w := grown(t, older, allInOne)
	w.begin(operations.KindUpgrade)
	w.s.Operation.Generation++
	w.pass(2, time.Second)
	if o := w.s.Operation; o.State != operations.Running || len(o.Tasks) > 0 {
		w.fail("the operation is %+v", o)
	}
	w.spec(minimal)
	w.settle()
	w.active()
	w.ended(operations.Succeeded)
}
