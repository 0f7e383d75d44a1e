package steps

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// bed is a cluster whose hosts do at once what they get, unless a test stops them.
type bed struct {
	*testing.T
	in Input
	// older has each record be as servers before v0.2 wrote it.
	older bool
	// does says what becomes of a job; nil does it.
	does func(m *Machine, task operations.Task)
}

// newBed has machines m0, m1 and so on; each text has their roles: e for etcd, c for control plane, w for worker.
func newBed(t *testing.T, kind operations.Kind, r Request, roles ...string) *bed {
	t.Helper()
	params, err := json.Marshal(map[string]any{"ask": r})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{T: t, in: Input{
		Now: noon, Concurrency: 2, Secrets: records.ClusterSecrets{ServerToken: "word"}, Spec: true,
		Operation: operations.Operation{ID: "op-1", Kind: kind, Subject: "fleet-default/harbour", State: operations.Running, Params: params, Created: noon, Started: noon},
		Install:   func(string) []plans.OneTimeInstruction { return []plans.OneTimeInstruction{{}} },
		Fetch:     func(string, int64) (hostjob.Source, error) { return hostjob.Source{Link: "https://s3.example/x"}, nil },
	}}
	for i, has := range roles {
		name := fmt.Sprintf("m%d", i)
		server := strings.ContainsAny(has, "ec")
		b.in.Machines = append(b.in.Machines, Machine{
			Name: name, Title: name, NodeName: "pier-" + name, UID: "uid-" + name, Plan: true, Connected: true, Member: strings.Contains(has, "e"),
			Roles:     records.Roles{Etcd: strings.Contains(has, "e"), ControlPlane: strings.Contains(has, "c"), Worker: strings.Contains(has, "w")},
			PlanState: PlanState{Applied: true, Wanted: true}, Works: true, Host: hostjob.Host{Distribution: runtimes.K3s(), DataDir: "/var/lib/rancher/k3s", Server: server},
		})
	}
	return b
}

func (b *bed) machine(name string) *Machine {
	b.Helper()
	i := slices.IndexFunc(b.in.Machines, func(m Machine) bool { return m.Name == name })
	if i < 0 {
		b.Fatalf("there is no machine %s", name)
	}
	return &b.in.Machines[i]
}

// step decides once, has the hosts do what they get, and returns what was begun.
func (b *bed) step() (begun []string, out Output) {
	b.Helper()
	before := b.in.Operation
	b.in.Operation = Named(b.in.Operation)
	out = Decide(b.in)
	for _, t := range out.Operation.Tasks {
		if was, _ := before.Task(t.ID); t.Attempts > was.Attempts {
			begun = append(begun, t.ID)
		}
	}
	b.in.Operation = out.Operation
	if out.Respec {
		b.in.Spec = true
	}
	if out.Token != "" {
		b.in.Secrets, _ = b.in.Secrets.InForce(out.Token)
	}
	for _, e := range out.Jobs {
		m := b.machine(e.Machine)
		task := b.running(e.Machine)
		m.Job, m.Wanted = fmt.Sprintf("op-1-%s-%d", task.Step, task.Attempts), false
		if e.Base == Whole {
			m.Job, m.Wanted = "", true
		} else if got := hostjob.Of(e.Instructions); got != m.Job {
			b.Errorf("%s gets the job %q, want %q", e.Machine, got, m.Job)
		}
		m.Applied, m.Failed, m.Works, m.Output = true, false, true, []byte(`{"file": "/d/`+e.Machine+`", "size": 7, "sha256": "x"}`)
		if b.does != nil {
			b.does(m, task)
		}
	}
	b.in.Now = b.in.Now.Add(time.Second)
	for i := range b.in.Operation.Tasks {
		if b.older {
			b.in.Operation.Tasks[i].Step, b.in.Operation.Tasks[i].Machine = "", ""
		}
	}
	if again := Decide(Input{Now: out.Operation.Started, Operation: out.Operation}); out.Operation.State.Ended() && len(again.Jobs) > 0 {
		b.Error("an operation that has ended begins something")
	}
	return begun, out
}

func (b *bed) running(machine string) operations.Task {
	b.Helper()
	for _, t := range b.in.Operation.Tasks {
		if t.Machine == machine && t.State == operations.TaskRunning {
			return t
		}
	}
	b.Fatalf("%s gets a job, and no task of it runs", machine)
	return operations.Task{}
}

// run goes on until the end, and returns what was begun, a line for each step.
func (b *bed) run() (steps []string) {
	b.Helper()
	for range 200 {
		begun, out := b.step()
		if len(begun) > 0 {
			steps = append(steps, strings.Join(begun, ", "))
		}
		if out.Operation.State.Ended() {
			return steps
		}
	}
	b.Fatalf("the operation does not come to its end; it waits for %+v", b.in.Operation.Wait)
	return nil
}

// TestOrder of the tasks of each operation: one line for those that are begun in the same step.
func TestOrder(t *testing.T) {
	three := []string{"ec", "ec", "ec", "w"}
	for _, c := range []struct {
		name  string
		kind  operations.Kind
		ask   Request
		roles []string
		shape func(*Input)
		want  []string
	}{
		{name: "snapshots of all members, one after the other", kind: operations.KindSnapshot, roles: three, want: []string{"save m0", "save m1", "save m2"}},
		{name: "a snapshot of one member", kind: operations.KindSnapshot, ask: Request{Machines: []string{"m1"}}, roles: three, want: []string{"save m1"}},
		{name: "no snapshot of who has not joined", kind: operations.KindSnapshot, roles: three, shape: func(in *Input) { in.Machines[0].Member = false }, want: []string{"save m1", "save m2"}},
		{name: "certificates: etcd, then control planes, then workers as many as may be away", kind: operations.KindRotateCertificates,
			roles: []string{"w", "c", "ec", "e", "w", "w"}, want: []string{"rotate m3", "rotate m2", "rotate m1", "renew m0, renew m4", "renew m5"}},
		{name: "certificates of the kubelets", kind: operations.KindRotateCertificates, ask: Request{Services: []string{"kubelet"}}, roles: []string{"ec", "w"}, want: []string{"rotate m0", "renew m1"}},
		{name: "certificates of the scheduler", kind: operations.KindRotateCertificates, ask: Request{Services: []string{"scheduler"}}, roles: []string{"e", "c", "w"}, want: []string{"rotate m1"}},
		{name: "certificates of etcd", kind: operations.KindRotateCertificates, ask: Request{Services: []string{"etcd"}}, roles: []string{"e", "c", "w"}, want: []string{"rotate m0"}},
		{name: "keys: one leads, etcd and it restart before the others", kind: operations.KindRotateKeys, roles: []string{"ec", "e", "c", "w"},
			want: []string{"keys m0", "restart m1", "restart m0", "restart m2"}},
		{name: "keys: one that works leads", kind: operations.KindRotateKeys, roles: []string{"ec", "ec", "ec"}, shape: func(in *Input) { in.Machines[0].Connected = false },
			want: []string{"keys m1", "restart m1"}},
		{name: "a restore without a snapshot before", kind: operations.KindRestore, ask: Request{Snapshot: "on-demand", Target: "m1"}, roles: three, want: []string{
			"check m1", "stop m0, stop m1, stop m2", "restore m1", "start m1", "forget m1", "join m0", "join m2", "reconnect m3", "clean m1, clean m0, clean m2",
		}},
		{name: "a restore of a cluster that answers", kind: operations.KindRestore, ask: Request{Snapshot: "on-demand", Target: "m0"}, roles: []string{"ec", "w"},
			shape: func(in *Input) { in.Answers = true },
			want:  []string{"guard m0", "check m0", "stop m0", "restore m0", "start m0", "forget m0", "reconnect m1", "clean m0"}},
		{name: "a restore that is to have none", kind: operations.KindRestore, ask: Request{Snapshot: "on-demand", Target: "m0", NoSnapshot: true}, roles: []string{"ec"},
			shape: func(in *Input) { in.Answers = true }, want: []string{"check m0", "stop m0", "restore m0", "start m0", "forget m0", "clean m0"}},
		{name: "a restore out of S3", kind: operations.KindRestore, ask: Request{Snapshot: "on-demand", Target: "m0", FromS3: true, Size: 7}, roles: []string{"ec"},
			want: []string{"fetch m0", "check m0", "stop m0", "restore m0", "start m0", "forget m0", "clean m0"}},
		{name: "a restore on a machine with etcd alone", kind: operations.KindRestore, ask: Request{Snapshot: "on-demand", Target: "m0"}, roles: []string{"e", "e", "c", "c"}, want: []string{
			"check m0", "stop m0, stop m1, stop m2, stop m3", "restore m0", "start m0", "join m1", "join m2", "forget m2", "join m3", "clean m0, clean m1, clean m2, clean m3",
		}},
		{name: "a restore of what the cluster was", kind: operations.KindRestore, ask: Request{Snapshot: "on-demand", Target: "m0", Spec: &clusterspec.Spec{}}, roles: []string{"ec"},
			shape: func(in *Input) { in.Spec = false }, want: []string{"check m0", "stop m0", "restore m0", "start m0", "forget m0", "clean m0"}},
	} {
		inOrder := func(t *testing.T, older bool) {
			b := newBed(t, c.kind, c.ask, c.roles...)
			b.older = older
			if c.shape != nil {
				c.shape(&b.in)
			}
			var steps []string
			for range 100 {
				begun, out := b.step()
				if len(begun) > 0 {
					steps = append(steps, strings.Join(begun, ", "))
				}
				if out.Operation.State.Ended() || len(steps) >= len(c.want) && out.Operation.Wait != nil && out.Operation.Wait.Object == "machine m0" && !b.machine("m0").Connected {
					break
				}
			}
			if diff := cmp.Diff(c.want, steps); diff != "" {
				t.Error(diff)
			}
			if s := b.in.Operation.State; s != operations.Succeeded && b.machine("m0").Connected {
				t.Errorf("it is %s: %s", s, b.in.Operation.Reason)
			}
		}
		t.Run(c.name, func(t *testing.T) { inOrder(t, false) })
		t.Run(c.name+", begun by an older server", func(t *testing.T) { inOrder(t, true) })
	}
}

// TestWaits: each task waits for what it needs, and says for what; nothing after it begins.
func TestWaits(t *testing.T) {
	away := func(m *Machine) { m.Connected, m.Absent = false, "its agent is away" }
	restore := Request{Snapshot: "on-demand", Target: "m0"}
	for _, c := range []struct {
		name  string
		kind  operations.Kind
		ask   Request
		roles []string
		shape func(*Machine)                      // m0, before
		does  func(m *Machine, t operations.Task) // what becomes of jobs
		begun []string                            // until it waits
		wait  operations.Wait                     // Host and Since are not compared
		then  func(m *Machine)                    // m0, by which the wait ends
		next  string                              // what is begun then, or ends
		state map[string]operations.TaskState     // while it waits
	}{
		{name: "until etcd bears that it restarts", kind: operations.KindRotateCertificates, roles: []string{"ec", "w"}, shape: func(m *Machine) { m.Held = "etcd has lost a member" },
			wait: operations.Wait{Object: "machine m0", Cause: "etcd has lost a member"}, then: func(m *Machine) { m.Held = "" }, next: "rotate m0"},
		{name: "for the agent of a server", kind: operations.KindRotateCertificates, roles: []string{"ec", "w"}, shape: away,
			wait: operations.Wait{Object: "machine m0", Cause: "its agent is away", NextStep: "on the host: systemctl status rancher-system-agent"},
			then: func(m *Machine) { m.Connected = true }, next: "rotate m0"},
		{name: "until the job is carried out", kind: operations.KindSnapshot, roles: []string{"ec", "ec"},
			does: func(m *Machine, _ operations.Task) {
				m.Applied, m.Cause, m.NextStep = false, "it applies its plan", "look at its log"
			},
			begun: []string{"save m0"}, wait: operations.Wait{Object: "machine m0", Cause: "it applies its plan", NextStep: "look at its log"},
			then: func(m *Machine) { m.Applied = true }, next: "save m1"},
		{name: "until the machine works again", kind: operations.KindRotateCertificates, roles: []string{"ec", "ec"}, does: func(m *Machine, _ operations.Task) { m.Works, m.Cause = false, "its node is not ready" },
			begun: []string{"rotate m0"}, wait: operations.Wait{Object: "machine m0", Cause: "its node is not ready"}, then: func(m *Machine) { m.Works = true }, next: "rotate m1"},
		{name: "a new key does not wait for the machine", kind: operations.KindRotateKeys, roles: []string{"ec"}, does: func(m *Machine, t operations.Task) {
			m.Works = t.Step != "keys"
			m.Applied = t.Step == "keys"
			m.Cause = "it restarts"
		},
			begun: []string{"keys m0", "restart m0"}, wait: operations.Wait{Object: "machine m0", Cause: "it restarts"}, then: func(m *Machine) { m.Applied, m.Works = true, true }},
		{name: "nothing is restored before all servers have stopped", kind: operations.KindRestore, ask: restore, roles: []string{"ec", "ec"},
			does: func(m *Machine, t operations.Task) {
				if t.ID == "stop m0" {
					m.Applied, m.Cause = false, "it stops"
				}
			},
			begun: []string{"check m0", "stop m0, stop m1"}, wait: operations.Wait{Object: "machine m0", Cause: "it stops"},
			then: func(m *Machine) { m.Applied = true }, next: "restore m0",
			state: map[string]operations.TaskState{"stop m0": operations.TaskRunning, "stop m1": operations.TaskSucceeded, "restore m0": operations.TaskPending}},
		{name: "nobody joins before the first one has started", kind: operations.KindRestore, ask: restore, roles: []string{"e", "ec"},
			does: func(m *Machine, t operations.Task) {
				if t.Step == "start" {
					m.Applied, m.Cause = false, "etcd begins"
				}
			},
			begun: []string{"check m0", "stop m0, stop m1", "restore m0", "start m0"}, wait: operations.Wait{Object: "machine m0", Cause: "etcd begins"},
			then: func(m *Machine) { m.Applied = true }, next: "join m1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, c.kind, c.ask, c.roles...)
			b.does = c.does
			if c.shape != nil {
				c.shape(b.machine("m0"))
			}
			var begun []string
			for range 10 { // more than it takes until it waits
				if now, _ := b.step(); len(now) > 0 {
					begun = append(begun, strings.Join(now, ", "))
				}
			}
			if diff := cmp.Diff(c.begun, begun); diff != "" {
				t.Error("begun until it waits:", diff)
			}
			if b.in.Operation.Wait == nil {
				t.Fatalf("it waits for nothing, and is %s: %s", b.in.Operation.State, b.in.Operation.Reason)
			}
			w := *b.in.Operation.Wait
			w.Host, w.Since = "", time.Time{}
			if diff := cmp.Diff(c.wait, w); diff != "" {
				t.Error(diff)
			}
			for id, want := range c.state {
				if got, _ := b.in.Operation.Task(id); got.State != want {
					t.Errorf("%s is %s, want %s", id, got.State, want)
				}
			}
			c.then(b.machine("m0"))
			now, out := b.step()
			if got := strings.Join(now, ", "); got != c.next || c.next == "" && !out.Operation.State.Ended() {
				t.Errorf("then %q is begun, want %q; it is %s", got, c.next, out.Operation.State)
			}
		})
	}
}

// TestAMemberSettles: the next one joins when this one has worked for as long as its node may be older than its member.
func TestAMemberSettles(t *testing.T) {
	b := newBed(t, operations.KindRestore, Request{Snapshot: "on-demand", Target: "m0"}, "ec", "ec", "ec")
	var out Output
	for task := (operations.Task{}); task.State != operations.TaskRunning; task, _ = b.in.Operation.Task("join m1") {
		_, out = b.step()
	}
	began := b.in.Now
	for task := (operations.Task{}); task.State != operations.TaskRunning; task, _ = b.in.Operation.Task("join m2") {
		if _, out = b.step(); b.in.Now.Sub(began) < settles && (out.Again <= 0 || out.Again > settles) {
			t.Fatalf("it looks again in %s", out.Again)
		}
	}
	if waited := b.in.Now.Sub(began); waited < settles {
		t.Errorf("the next one joins after %s, want %s", waited, settles)
	}
}

// TestFailures: what is tried again and how often, what ends the operation, and what it leaves out.
func TestFailures(t *testing.T) {
	three, restore := []string{"ec", "ec", "ec"}, Request{Snapshot: "on-demand", Target: "m0"}
	times := func(n int, task string) (all []string) {
		for range n {
			all = append(all, task)
		}
		return all
	}
	for _, c := range []struct {
		name    string
		kind    operations.Kind
		ask     Request
		roles   []string
		shape   func(*Input)
		fails   string // the task that does
		want    []string
		state   operations.State
		reason  string
		servers bool // were stopped
	}{
		{name: "a snapshot that fails is tried three times, and the others are taken", kind: operations.KindSnapshot, roles: three, fails: "save m0",
			want: append(times(3, "save m0"), "save m1", "save m2"), state: operations.Failed, reason: "take a snapshot on m0: no space"},
		{name: "a rotation that fails ends it", kind: operations.KindRotateCertificates, roles: three, fails: "rotate m1",
			want: append([]string{"rotate m0"}, times(3, "rotate m1")...), state: operations.Failed, reason: "renew the certificates of m1: no space"},
		{name: "a worker that fails keeps no other", kind: operations.KindRotateCertificates, roles: []string{"ec", "w", "w", "w"}, fails: "renew m1",
			want: []string{"rotate m0", "renew m1, renew m2", "renew m3", "renew m1", "renew m1"}, state: operations.Failed, reason: "renew the certificates of m1: no space"},
		{name: "a key is made twice at the most", kind: operations.KindRotateKeys, roles: three, fails: "keys m0", want: times(2, "keys m0"), state: operations.Failed, reason: "make a new key on m0 and write all Secrets with it: no space"},
		{name: "a snapshot that is not whole stops nothing", kind: operations.KindRestore, ask: restore, roles: three, fails: "check m0",
			want: []string{"check m0"}, state: operations.Failed, reason: "look whether the snapshot can be restored on m0: no space"},
		{name: "a restore without its snapshot stops nothing", kind: operations.KindRestore, ask: restore, roles: []string{"ec"}, shape: func(in *Input) { in.Answers = true }, fails: "guard m0",
			want: times(3, "guard m0"), state: operations.Failed, reason: "nothing was changed"},
		{name: "a server that does not stop", kind: operations.KindRestore, ask: restore, roles: []string{"ec"}, fails: "stop m0",
			want: append([]string{"check m0"}, times(3, "stop m0")...), state: operations.Failed, reason: "stop m0: no space", servers: true},
		{name: "leftovers that stay fail it when all is up", kind: operations.KindRestore, ask: restore, roles: []string{"ec"}, fails: "clean m0",
			want: append([]string{"check m0", "stop m0", "restore m0", "start m0", "forget m0"}, times(3, "clean m0")...), state: operations.Failed, reason: "remove on m0 what the restore replaced: no space", servers: true},
		{name: "what has been retried once has as many tries again", kind: operations.KindSnapshot, roles: []string{"ec"}, shape: func(in *Input) { in.Operation.Retry = 1 }, fails: "save m0",
			want: times(6, "save m0"), state: operations.Failed, reason: "no space"},
		{name: "no snapshot of who is away, but of the others", kind: operations.KindSnapshot, roles: three, shape: func(in *Input) { in.Machines[1].Connected = false },
			want: []string{"save m0", "save m2"}, state: operations.Succeeded},
		{name: "nothing was done", kind: operations.KindSnapshot, roles: []string{"ec"}, shape: func(in *Input) { in.Machines[0].Connected, in.Machines[0].Absent = false, "it is off" },
			state: operations.Failed, reason: "nothing was done: take a snapshot on m0: it is left out: it is off"},
		{name: "S3 gives no link", kind: operations.KindRestore, ask: Request{Snapshot: "on-demand", Target: "m0", FromS3: true, Size: 7}, roles: []string{"ec"},
			shape: func(in *Input) {
				in.Fetch = func(string, int64) (hostjob.Source, error) {
					return hostjob.Source{}, fmt.Errorf("the bucket has gone")
				}
			},
			want: []string{"fetch m0"}, state: operations.Failed, reason: "the bucket has gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, c.kind, c.ask, c.roles...)
			if c.shape != nil {
				c.shape(&b.in)
			}
			b.does = func(m *Machine, task operations.Task) {
				if task.ID == c.fails {
					m.Applied, m.Failed, m.Fault = false, true, "no space"
				}
			}
			if diff := cmp.Diff(c.want, b.run()); diff != "" {
				t.Error(diff)
			}
			o := b.in.Operation
			if o.State != c.state || !strings.Contains(o.Reason, c.reason) {
				t.Errorf("it is %s: %q, want %s: %q", o.State, o.Reason, c.state, c.reason)
			}
			if got := (&decider{out: Output{Operation: o}}).firm(); got != c.servers {
				t.Errorf("servers were stopped: %v", got)
			}
		})
	}
}

// TestWhatCannotBegin ends with a sentence, and no host gets anything.
func TestWhatCannotBegin(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  operations.Kind
		ask   Request
		roles []string
		shape func(*Input)
		want  string
	}{
		{name: "no member", kind: operations.KindSnapshot, roles: []string{"c"}, want: "no machine of the cluster has a plan and the role for it"},
		{name: "a machine that is not there", kind: operations.KindSnapshot, ask: Request{Machines: []string{"m9"}}, roles: []string{"ec"}, want: "the cluster has no machine m9 with etcd"},
		{name: "a worker's snapshot", kind: operations.KindSnapshot, ask: Request{Machines: []string{"m1"}}, roles: []string{"ec", "w"}, want: "the cluster has no machine m1 with etcd"},
		{name: "nobody has a plan", kind: operations.KindRotateCertificates, roles: []string{"ec"}, shape: func(in *Input) { in.Machines[0].Plan = false }, want: "no machine of the cluster has a plan and the role for it"},
		{name: "no control plane", kind: operations.KindRotateKeys, roles: []string{"e"}, want: "no machine of the cluster has a plan and the role for it"},
		{name: "no target", kind: operations.KindRestore, ask: Request{Snapshot: "a", Target: "m9"}, roles: []string{"ec"}, want: "the cluster has no machine m9"},
		{name: "a target without etcd", kind: operations.KindRestore, ask: Request{Snapshot: "a", Target: "m1"}, roles: []string{"ec", "w"}, want: "m1 has no etcd"},
		{name: "a server that is away", kind: operations.KindRestore, ask: Request{Snapshot: "a", Target: "m0"}, roles: []string{"ec", "ec"},
			shape: func(in *Input) { in.Machines[1].Connected, in.Machines[1].Absent = false, "it is off" }, want: "m1 has to be stopped, and it is off; bring it back, or remove it by drover machines rm m1 --force"},
		{name: "a new target that is away", kind: operations.KindRestore, ask: Request{Snapshot: "a", Target: "m0"}, roles: []string{"ec"},
			shape: func(in *Input) {
				in.Machines[0].Plan, in.Machines[0].Connected, in.Machines[0].Absent = false, false, "it is off"
			}, want: "the snapshot would be restored on m0, and it is off"},
		{name: "too many machines", kind: operations.KindRotateCertificates, roles: slices.Repeat([]string{"w"}, MaxMachines+1), want: "the cluster has 501 machines"},
		{name: "a request of another version", kind: operations.KindSnapshot, roles: []string{"ec"}, shape: func(in *Input) { in.Operation.Params = json.RawMessage(`{}`) }, want: "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, c.kind, c.ask, c.roles...)
			if c.shape != nil {
				c.shape(&b.in)
			}
			begun, out := b.step()
			if out.Operation.State != operations.Failed || !strings.Contains(out.Operation.Reason, c.want) || len(begun)+len(out.Jobs) > 0 || out.Begun {
				t.Errorf("it is %s: %q, and begins %q", out.Operation.State, out.Operation.Reason, begun)
			}
		})
	}
}

// TestStopping: nothing more begins, and what has begun is finished; a restore that has stopped servers goes on to its end.
func TestStopping(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  operations.Kind
		ask   Request
		after string // the task that is begun when it is asked for
		want  []string
		state operations.State
	}{
		{"snapshots", operations.KindSnapshot, Request{}, "save m1", nil, operations.Aborted},
		{"before servers stop", operations.KindRestore, Request{Snapshot: "a", Target: "m0"}, "check m0", nil, operations.Aborted},
		{"when servers have stopped", operations.KindRestore, Request{Snapshot: "a", Target: "m0"}, "stop m0", []string{"restore m0", "start m0", "forget m0", "join m1", "join m2", "clean m0, clean m1, clean m2"}, operations.Succeeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, c.kind, c.ask, "ec", "ec", "ec")
			for task := (operations.Task{}); task.Attempts == 0; task, _ = b.in.Operation.Task(c.after) {
				b.step()
			}
			b.in.Operation.State = operations.Stopping
			if diff := cmp.Diff(c.want, b.run()); diff != "" {
				t.Error(diff)
			}
			if b.in.Operation.State != c.state {
				t.Errorf("it is %s: %s", b.in.Operation.State, b.in.Operation.Reason)
			}
			if task, _ := b.in.Operation.Task(c.after); task.State != operations.TaskSucceeded {
				t.Errorf("what was begun is %s", task.State)
			}
		})
	}
}

// TestAHostThatComesBackIsNotLeftOut: a server that was started again in the middle of an operation waits for the agents that it has not
// heard of yet, and leaves out those that are not there then.
func TestAHostThatComesBackIsNotLeftOut(t *testing.T) {
	b := newBed(t, operations.KindSnapshot, Request{}, "ec", "ec")
	b.in.Operation = Decide(b.in).Operation
	for i, task := range b.in.Operation.Tasks {
		if task.Machine == "m0" {
			b.in.Operation.Tasks[i].State = operations.TaskSucceeded
		}
	}
	m := b.machine("m1")
	m.Connected, m.Absent, m.Awaited = false, "its agent has not connected", b.in.Now.Add(7*time.Second)
	if out := Decide(b.in); out.Operation.State.Ended() || out.Operation.Wait == nil || out.Operation.Wait.Cause != m.Absent || out.Again != 7*time.Second {
		t.Fatalf("it waits for %+v, again in %s: %+v", out.Operation.Wait, out.Again, out.Operation)
	}
	b.in.Now = m.Awaited
	if out := Decide(b.in); out.Operation.State != operations.Succeeded {
		t.Errorf("it is %+v", out.Operation)
	}
}

// TestAMachineThatGoes is left out, unless everything hangs on it.
func TestAMachineThatGoes(t *testing.T) {
	for name, c := range map[string]struct {
		kind  operations.Kind
		ask   Request
		after string
		state operations.State
	}{
		"of a rotation":           {operations.KindRotateCertificates, Request{}, "rotate m0", operations.Succeeded},
		"the target of a restore": {operations.KindRestore, Request{Snapshot: "a", Target: "m1"}, "check m1", operations.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, c.kind, c.ask, "ec", "ec", "ec")
			for task := (operations.Task{}); task.Attempts == 0; task, _ = b.in.Operation.Task(c.after) {
				b.step()
			}
			b.in.Machines = slices.DeleteFunc(b.in.Machines, func(m Machine) bool { return m.Name == "m1" })
			if b.run(); b.in.Operation.State != c.state {
				t.Errorf("it is %s: %s", b.in.Operation.State, b.in.Operation.Reason)
			}
		})
	}
}

// TestTheSnapshotBeforeACorrection does not wait for what is corrected: the job comes without the instructions that have failed.
func TestTheSnapshotBeforeACorrection(t *testing.T) {
	for failed, want := range map[bool]Base{false: Delivered, true: Files} {
		b := newBed(t, "upgrade", Request{}, "ecw")
		b.in.Machines[0].Failed, b.in.Machines[0].Works = failed, !failed
		out, _ := TakeGuard(b.in)
		if len(out.Jobs) != 1 || out.Jobs[0].Base != want || len(out.Jobs[0].Instructions) != 1 {
			t.Errorf("after a plan that failed (%v): %+v, want base %v", failed, out.Jobs, want)
		}
	}
}

// TestTheSnapshotBeforeAnUpgrade is taken on a member that works; without a member there is none, and without the
// snapshot nothing is upgraded.
func TestTheSnapshotBeforeAnUpgrade(t *testing.T) {
	for _, c := range []struct {
		name  string
		shape func(*Input)
		fails bool
		done  bool
		tasks []string
		state operations.State
	}{
		{name: "on the first member", done: true, tasks: []string{"guard m0 succeeded"}, state: operations.Running},
		{name: "on one that works", shape: func(in *Input) { in.Machines[0].Works = false }, done: true, tasks: []string{"guard m1 succeeded"}, state: operations.Running},
		{name: "on one whose agent is there", shape: func(in *Input) { in.Machines[0].Connected = false }, done: true, tasks: []string{"guard m1 succeeded"}, state: operations.Running},
		{name: "a cluster without etcd of its own", shape: func(in *Input) { in.Machines[0].Member, in.Machines[1].Member = false, false }, done: true, state: operations.Running},
		{name: "it is to stop before it has begun", shape: func(in *Input) { in.Operation.State = operations.Stopping }, done: true, state: operations.Stopping},
		{name: "it cannot be taken", fails: true, tasks: []string{"guard m0 failed"}, state: operations.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, "upgrade", Request{}, "ec", "ec", "w")
			if c.shape != nil {
				c.shape(&b.in)
			}
			done := false
			for range 100 {
				var out Output
				if out, done = TakeGuard(b.in); done || out.Operation.State.Ended() {
					b.in.Operation = out.Operation
					break
				}
				b.in.Operation, b.in.Now = out.Operation, b.in.Now.Add(time.Second)
				for _, e := range out.Jobs {
					m := b.machine(e.Machine)
					m.Job, m.Applied, m.Failed, m.Fault = hostjob.Of(e.Instructions), !c.fails, c.fails, "no space"
					m.Output = []byte(`{"file": "/d/x", "size": 7, "sha256": "x"}`)
				}
			}
			var tasks []string
			for _, task := range b.in.Operation.Tasks {
				tasks = append(tasks, task.ID+" "+string(task.State))
			}
			if diff := cmp.Diff(c.tasks, tasks); diff != "" || done != c.done || b.in.Operation.State != c.state {
				t.Errorf("done %v, %s: %s\n%s", done, b.in.Operation.State, b.in.Operation.Reason, diff)
			}
		})
	}
}

// TestEveryKindHasAPlan: what is done in steps is known here, and nothing else is begun.
func TestEveryKindHasAPlan(t *testing.T) {
	for _, kind := range operations.Kinds() {
		b := newBed(t, kind, Request{}, "ec")
		_, out := b.step()
		if unknown := strings.Contains(out.Operation.Reason, "is not done in steps"); unknown == operations.Stepped(kind) {
			t.Errorf("%s is done in steps: %v, and it is %s: %s", kind, operations.Stepped(kind), out.Operation.State, out.Operation.Reason)
		}
	}
}

// TestAStepOfANewerServer: no machine gets anything for a step that this server does not know.
func TestAStepOfANewerServer(t *testing.T) {
	b := newBed(t, operations.KindSnapshot, Request{}, "ec")
	b.in.Operation.Tasks = []operations.Task{{ID: "defrag m0", Step: "defrag", Machine: "m0", State: operations.TaskPending}}
	_, out := b.step()
	if out.Operation.State != operations.Failed || len(out.Jobs) > 0 || !strings.Contains(out.Operation.Reason, `"defrag m0" is not known`) {
		t.Errorf("it is %s: %s, and machines get %v", out.Operation.State, out.Operation.Reason, out.Jobs)
	}
}
