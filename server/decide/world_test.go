package decide

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// world is a cluster of simulated hosts. Its events come in any order: agents take plans and end them,
// runtimes stop and start, etcd promotes learners, orders on nodes are done. After each of them the
// promises of the planner are checked.
type world struct {
	*testing.T
	rand  *rand.Rand
	s     pass.Snapshot
	hosts map[string]*simulated
	work  map[records.MachineKey]observed.NodeWork
	// orders are those of the last decision.
	orders []pass.NodeOrder
	log    []string
	// memo is what the server remembers, revisions number the Secrets.
	memo      *pass.Memo
	revisions map[*records.PlanSecret]int64
	// blind says that the server has no way to the cluster's API, as under agents that open no tunnel.
	blind bool
	// outage says that etcd lost its quorum without the planner.
	outage bool
	// jobs counts how often hosts did jobs, by host and ID; faulty is how many jobs still fail.
	jobs   map[string]int
	faulty int
	// failing is a job that never succeeds.
	failing string
	// again is when the last decision is to be looked at again.
	again time.Duration
	// snapshots are those that were taken.
	snapshots []records.Snapshot
	// limit is how many workers may be away for a change at a time.
	limit int
	// sealed is the hash of the token that etcd is written with, taken that of the snapshot to restore; empty is not looked at.
	sealed, taken string
	// agents is the agent token in what etcd is written with, and then that of the snapshot to restore; empty is not looked at.
	agents, then string
	// made are the new CAs that a host keeps, issued those that etcd has; empty are none, and those of the beginning.
	made, issued string
	// late is how many times the cluster's secrets are not written with the decision that they are in.
	late int
}

// simulated is one host.
type simulated struct {
	installed bool // its runtime is on the host
	up        bool // it works
	voter     bool
	version   string
	restarts  int
	dead      bool // nothing happens there any more
	cordoned  bool
	gone      bool // its node and member were removed
	clean     bool // it was uninstalled
	ill       bool // until its runtime restarts, its node is not Ready
	stopped   bool // by a restore
	jammed    bool // until its runtime restarts, it does not come up
	token     string
	written   bool   // its file of passwords has the agent token of the server
	ca        string // with which it started
}

func newWorld(t *testing.T, seed uint64, spec string, roles ...records.Roles) *world {
	t.Helper()
	w := &world{T: t, rand: rand.New(rand.NewPCG(seed, 1)), hosts: map[string]*simulated{}, work: map[records.MachineKey]observed.NodeWork{}, limit: 1, jobs: map[string]int{}, memo: pass.NewMemo(), revisions: map[*records.PlanSecret]int64{}}
	w.s = snapshot(t, minimal, nil)
	w.s.Machines = nil
	w.spec(spec)
	for i, r := range roles {
		w.add(fmt.Sprintf("m%d", i), r)
	}
	return w
}

// spec changes what is wanted.
func (w *world) spec(text string) {
	w.Helper()
	var err error
	known, err := versions.Load("")
	if err != nil {
		w.Fatal(err)
	}
	doc, err := clusterspec.ParseSpec([]byte(text), known)
	if err != nil {
		w.Fatal(err)
	}
	w.s.Cluster.Spec = doc.Spec
	w.s.Cluster.Generation++
	w.s.Cluster.Status.Renderer = 0
	if w.s.Release.Version != doc.Spec.KubernetesVersion {
		w.s.Release = release(w, doc.Spec.KubernetesVersion)
	}
}

// begin puts a change under an operation.
func (w *world) begin(kind operations.Kind) {
	w.s.Operation = &operations.Operation{ID: "op-abcdefgh", Kind: kind, Subject: "fleet-default/harbour", State: operations.Running, Created: w.s.Now, Started: w.s.Now, Generation: w.s.Cluster.Generation}
}

func (w *world) add(name string, roles records.Roles) {
	w.hosts[name] = &simulated{}
	w.s.Machines = append(w.s.Machines, pass.Machine{
		Machine: &records.Machine{
			Object: records.Object{Namespace: "fleet-default", Name: name, UID: "uid-" + name, Labels: map[string]string{}}, ClusterName: "harbour",
			MachineID: "id-" + name, Roles: roles, OS: "linux", InternalAddress: []string{"10.0.0." + name[1:]}, NodeName: "node-" + name,
			Status: records.MachineStatus{Condition: records.Condition{State: records.Registering}},
		},
		Secret: &records.PlanSecret{Object: records.Object{Namespace: "fleet-default", Name: name + "-machine-plan"}},
		Agent:  observed.Presence{Connected: true},
	})
}

func (w *world) machine(name string) *pass.Machine {
	i := slices.IndexFunc(w.s.Machines, func(m pass.Machine) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &w.s.Machines[i]
}

// etcd counts the members that vote, and those of them that are up.
func (w *world) etcd() (voters, up int) {
	for _, h := range w.hosts {
		if h.voter && !h.gone {
			voters++
			if h.up && !h.dead {
				up++
			}
		}
	}
	return voters, up
}

// observe makes what the server sees of the cluster's API.
func (w *world) observe() {
	voters, up := w.etcd()
	api := observed.API{Cause: "no tunnel is open", Nodes: map[string]records.NodeRef{}, Details: map[string]observed.NodeDetails{}}
	for _, m := range w.s.Machines {
		h := w.hosts[m.Name]
		api.Reachable = api.Reachable || m.Roles.ControlPlane && h.up && !h.dead && up*2 > voters
	}
	api.Reachable = api.Reachable && !w.blind
	if api.Reachable {
		api.Cause, api.Version = "", w.s.Cluster.Spec.KubernetesVersion
		for _, m := range w.s.Machines {
			h := w.hosts[m.Name]
			if !h.installed || h.gone {
				continue
			}
			node := records.NodeRef{Name: m.NodeName, UID: "n-" + m.Name, ProviderID: "k3s://" + m.Name, KubeletVersion: h.version, Ready: (h.up || h.stopped) && !h.dead && !h.ill, Addresses: m.InternalAddress}
			if !node.Ready {
				node.NotReady = "NodeStatusUnknown: the kubelet has stopped"
			}
			api.Nodes[m.UID] = node
			details := observed.NodeDetails{Cordoned: h.cordoned}
			if m.Roles.Etcd {
				details.Voter = observed.VoterLearner
				if h.voter {
					details.Voter = observed.VoterYes
				}
			}
			api.Details[m.UID] = details
		}
	}
	w.s.API = api
	for i := range w.s.Machines {
		w.s.Machines[i].Work = w.work[w.s.Machines[i].MachineKey()]
	}
}

// decide is the server's turn: what it decides is committed, and is complete.
func (w *world) decide() {
	w.Helper()
	w.observe()
	before := w.s
	d := Decide(w.s)
	if again := w.remembering(); !reflect.DeepEqual(d, again) {
		w.fail("a decision with what is remembered differs: %s", cmp.Diff(d, again))
	}
	w.promises(before, d)
	if w.s.Now.Unix()%16 == 0 && w.s.Cluster.Deleting.IsZero() {
		staged(w.T, before)
	}
	w.s = commit(w.s, d)
	if d.Operation != nil {
		w.s.Operation = d.Operation
		for i := range d.Operation.Tasks {
			if w.s.Now.Unix()%2 == 0 { // a server before v0.2 has decided
				d.Operation.Tasks[i].Step, d.Operation.Tasks[i].Machine = "", ""
			}
		}
	}
	if d.Cluster.Spec != nil {
		w.s.Cluster.Spec = *d.Cluster.Spec
		w.s.Cluster.Generation++
		w.s.Release = release(w, d.Cluster.Spec.KubernetesVersion)
	}
	if d.Cluster.Secrets != nil {
		if w.late--; w.late < 0 {
			w.s.Secrets = d.Cluster.Secrets
		}
	}
	w.snapshots = append(w.snapshots, d.Snapshots...)
	w.orders, w.again = d.Orders, d.Again
	for key := range w.work {
		if !slices.ContainsFunc(d.Orders, func(o pass.NodeOrder) bool { return o.Machine == key }) {
			delete(w.work, key)
		}
	}
	for _, m := range d.Machines {
		if m.Deliver {
			w.note("plan to %s: %s", m.Key.Name(), pass.ShortPlan(m.Secret.Data))
		}
		if m.Remove {
			w.note("%s is forgotten", m.Key.Name())
		}
	}
}

// decision is what would be decided now.
func (w *world) decision() Decision {
	w.observe()
	return Decide(w.s)
}

// remembering decides with what earlier decisions remember.
func (w *world) remembering() Decision {
	s := w.s
	s.Memo, s.Machines = w.memo, slices.Clone(s.Machines)
	for i := range s.Machines {
		secret := s.Machines[i].Secret
		if w.revisions[secret] == 0 {
			w.revisions[secret] = int64(len(w.revisions) + 1)
		}
		s.Machines[i].SecretRevision = w.revisions[secret]
	}
	return Decide(s)
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// promises are checked of every decision.
func (w *world) promises(s pass.Snapshot, d Decision) {
	w.Helper()
	joining, workers := []string{}, 0
	etcdDown := 0
	voters, _ := w.etcd()
	for _, m := range s.Machines {
		h, next := w.hosts[m.Name], of(d, m.Name)
		pending := plans.State(m.Data()[plans.KeyPlanState]) == plans.StatePending || plans.State(m.Data()[plans.KeyPlanState]) == plans.StateInProgress
		status := m.Status
		if next.Status != nil {
			status = *next.Status
		}
		was, _ := pass.Delivered(m.Data())
		is := planOf(next.Secret)
		if m.Roles.Etcd && m.Deleting.IsZero() && !h.voter && (len(m.Plan()) > 0 && !(h.stopped || jobOf(was) == "stop") || next.Deliver && jobOf(is) == "") {
			joining = append(joining, m.Name)
		}
		_, restarts := runtimes.Restarted(was.Instructions, is.Instructions)
		restarts = restarts && !h.stopped || restartingJob(is)
		if h.installed && (next.Deliver && restarts || pending && (w.restartsOn(m) || restartingJob(was))) || h.installed && !h.up && !h.dead {
			if m.Roles.Etcd && h.voter && !h.gone && m.Deleting.IsZero() {
				etcdDown++
			}
			if !m.IsServer() && m.Deleting.IsZero() {
				workers++
			}
		}
		if h.stopped && status.State == records.Active {
			w.fail("%s is Active although a restore has stopped it", m.Name)
		}
		if !next.Remove && status.State != records.Active && (status.Cause == "" || status.Code == "" || status.Since.IsZero()) {
			w.fail("%s is %s without cause, code or time: %+v", m.Name, status.State, status.Condition)
		}
	}
	w.departures(s, d)
	if len(joining) > 1 {
		w.fail("%q join etcd at the same time", joining)
	}
	if voters >= 3 && voters-etcdDown < voters/2+1 && !w.outage {
		w.fail("%d of %d members of etcd are away", etcdDown, voters)
	}
	if workers > w.limit {
		w.fail("%d workers are away, %d may be", workers, w.limit)
	}
}

// departures are the promises about members that leave etcd: one at a time, when the others have a quorum, and no machine
// joins there any more.
func (w *world) departures(s pass.Snapshot, d Decision) {
	w.Helper()
	var leaving []string
	for _, o := range d.Orders {
		if done := w.work[o.Machine]; !o.RemoveMember || done.Order == o.ID && done.Done {
			continue
		}
		leaving = append(leaving, o.Machine.Name())
		url := "https://" + w.machine(o.Machine.Name()).InternalAddress[0] + ":"
		others, up := 0, 0
		for _, m := range s.Machines {
			h := w.hosts[m.Name]
			if m.MachineKey() == o.Machine {
				continue
			}
			if h.voter && !h.gone {
				others++
				if h.up && !h.dead {
					up++
				}
			}
			if p, _ := pass.Delivered(m.Data()); m.Deleting.IsZero() && strings.Contains(settingsOf(p), url) {
				w.fail("%s leaves etcd, and %s still joins there", o.Machine.Name(), m.Name)
			}
		}
		if up < others/2+1 {
			w.fail("%s leaves etcd, of which %d of %d others are up", o.Machine.Name(), up, others)
		}
	}
	if len(leaving) > 1 {
		w.fail("%q leave etcd at the same time", leaving)
	}
	for _, m := range commit(s, d).Machines {
		if drain := m.Status.Drain; drain != nil && (m.Secret.Annotations[annotationDrainDone] != "") != drain.Done {
			w.fail("the annotations of %s do not say how far its drain is: %v", m.Name, m.Secret.Annotations)
		}
		if m.Status.State == records.Active && m.Roles.Etcd && s.API.Reachable && !w.hosts[m.Name].voter {
			w.fail("%s is Active, and its etcd does not vote", m.Name)
		}
	}
}

// restartsOn says whether the plan that a host has not ended yet restarts its runtime.
func (w *world) restartsOn(m pass.Machine) bool {
	applied, err := plans.Parse(m.Data()[plans.KeyAppliedPlan])
	if err != nil {
		return false
	}
	p, _ := pass.Delivered(m.Data())
	_, restarts := runtimes.Restarted(applied.Instructions, p.Instructions)
	return restarts
}

func (w *world) fail(format string, args ...any) {
	w.Helper()
	w.Fatalf("%s\nwhat happened:\n  %s", fmt.Sprintf(format, args...), strings.Join(w.log, "\n  "))
}

// event is something that may happen on a host.
type event struct {
	name string
	do   func()
}

func (w *world) events() []event {
	var all []event
	for i := range w.s.Machines {
		all = append(all, w.eventsOf(&w.s.Machines[i])...)
	}
	for _, o := range w.orders {
		if done := w.work[o.Machine]; done.Order != o.ID || !done.Done {
			all = append(all, event{"order " + o.ID + " of " + o.Machine.Name(), func() { w.perform(o) }})
		}
	}
	return all
}

func (w *world) perform(o pass.NodeOrder) {
	h := w.hosts[o.Machine.Name()]
	if !w.s.API.Reachable {
		w.work[o.Machine] = observed.NodeWork{Order: o.ID, Phase: observed.PhaseCordoning, Cause: "no API", Since: w.s.Now}
		return
	}
	h.cordoned = (h.cordoned || o.Cordon) && !o.Uncordon
	if o.RemoveMember || o.Delete {
		h.gone, h.voter = true, false
	}
	w.work[o.Machine] = observed.NodeWork{Order: o.ID, Done: true, Since: w.s.Now}
}

func (w *world) eventsOf(m *pass.Machine) []event {
	h := w.hosts[m.Name]
	if h.dead {
		return nil
	}
	var all []event
	can := func(name string, do func()) { all = append(all, event{m.Name + " " + name, do}) }
	switch plans.State(m.Data()[plans.KeyPlanState]) {
	case plans.StatePending:
		can("takes its plan", func() {
			w.write(m, func(d map[string][]byte) { d[plans.KeyPlanState] = []byte(plans.StateInProgress) })
		})
	case plans.StateInProgress:
		if p, _ := pass.Delivered(m.Data()); jobOf(p) != "" && w.faulty > 0 {
			can("fails its job", func() { w.faulty--; w.fails(m) })
		}
		if p, _ := pass.Delivered(m.Data()); w.failing != "" && jobOf(p) == w.failing {
			can("fails its job", func() { w.fails(m) })
		} else if w.joinable(m) {
			can("ends its plan", func() { w.end(m) })
		}
	}
	if h.installed && !h.up && !h.clean && !h.jammed && !h.stopped && w.fits(m) {
		can("comes up", func() {
			h.up = true
			h.voter = h.voter || w.blind && m.Roles.Etcd
			w.report(m)
		})
	}
	_, up := w.etcd()
	if h.up && m.Roles.Etcd && !h.voter && !h.gone && !h.clean {
		voters, _ := w.etcd()
		if voters == 0 || up*2 > voters {
			can("votes", func() { h.voter = true })
		}
	}
	return all
}

// joinable says whether a server that this host's plan names works, or that it needs none.
func (w *world) joinable(m *pass.Machine) bool {
	p, _ := pass.Delivered(m.Data())
	if len(p.Files) == 0 || w.hosts[m.Name].installed {
		return true
	}
	if !w.joins(p) {
		return true
	}
	for _, other := range w.s.Machines {
		if strings.Contains(settingsOf(p), "https://"+other.InternalAddress[0]+":") && w.hosts[other.Name].up {
			return true
		}
	}
	return false
}

func (w *world) write(m *pass.Machine, change func(map[string][]byte)) {
	secret := *m.Secret
	data := map[string][]byte{}
	maps.Copy(data, secret.Data)
	change(data)
	secret.Data = data
	m.Secret = &secret
}

// end is an agent that has performed its plan.
func (w *world) end(m *pass.Machine) {
	h := w.hosts[m.Name]
	restarts := w.restartsOn(*m)
	p, _ := pass.Delivered(m.Data())
	verb := jobOf(p)
	if verb != "" && !w.does(m, h, verb, hostjob.Of(p.Instructions)) {
		return
	}
	switch {
	case p.Instructions[0].Name == "uninstall":
		h.clean, h.up, h.installed = true, false, false
	case verb != "": // what its plan has beside the job was done before
	default:
		h.stopped, h.token = false, tokenOf(p)
		if restarts && !w.fits(m) {
			w.fail("%s starts with a token that etcd is not written with", m.Name)
		}
		if !h.installed || restarts {
			h.written = true
			h.up, h.ill, h.jammed = false, false, false
			h.restarts++
		}
		first := !h.installed
		h.installed = true
		h.version = w.versionOf(p)
		if first && m.Roles.Etcd && !w.joins(p) {
			h.voter = true // it is alone
		}
		if m.Roles.Etcd && !m.Roles.ControlPlane {
			h.up, h.voter = true, true // it has no probes, and its unit is not ready before it votes
		}
	}
	w.write(m, func(d map[string][]byte) {
		d[plans.KeyPlanState], d[plans.KeyAppliedPlan] = []byte(plans.StateSucceeded), d[plans.KeyPlan]
	})
	w.report(m)
}

func (w *world) versionOf(p plans.Plan) string {
	install := slices.IndexFunc(p.Instructions, func(in plans.OneTimeInstruction) bool { return in.Image != "" })
	_, tag, _ := strings.Cut(p.Instructions[install].Image, ":")
	i := strings.LastIndex(tag, "-")
	return tag[:i] + "+" + tag[i+1:]
}

// report writes the health of the plan's probes.
func (w *world) report(m *pass.Machine) {
	p, _ := pass.Delivered(m.Data())
	w.write(m, func(d map[string][]byte) {
		o, _ := plans.ReadOutcome(d)
		o.ProbeStatuses = map[string]plans.ProbeStatus{}
		for name := range p.Probes {
			o.ProbeStatuses[name] = plans.ProbeStatus{Healthy: w.hosts[m.Name].up}
		}
		if err := o.Write(d); err != nil {
			w.Fatal(err)
		}
	})
}

// happens lets n things happen, in any order.
func (w *world) happens(n int) {
	w.Helper()
	for range n {
		w.s.Now = w.s.Now.Add(time.Second)
		w.decide()
		events := w.events()
		if len(events) == 0 {
			continue
		}
		e := events[w.rand.IntN(len(events))]
		w.note("%s", e.name)
		e.do()
	}
}

// settle lets things happen until nothing is left to do.
func (w *world) settle() {
	w.Helper()
	quiet := 0
	for range 3000 {
		w.s.Now = w.s.Now.Add(time.Second)
		w.decide()
		events := w.events()
		if len(events) == 0 {
			if w.again > 0 && (w.s.Daytwo() || w.s.Operation != nil && w.s.Operation.Kind == operations.KindUpgrade && !w.s.Operation.State.Ended() && w.s.Windowed().Text == "") {
				w.s.Now = w.s.Now.Add(w.again) // it goes on by itself
			}
			if quiet++; quiet > 5 {
				return
			}
			continue
		}
		quiet = 0
		e := events[w.rand.IntN(len(events))]
		w.note("%s", e.name)
		e.do()
	}
	w.fail("it does not come to an end")
}

// active fails unless all machines but those named are Active.
func (w *world) active(except ...string) {
	w.Helper()
	for _, m := range w.s.Machines {
		if m.Status.State != records.Active && !slices.Contains(except, m.Name) {
			w.fail("%s is %s: %s", m.Name, m.Status.State, m.Status.Cause)
		}
	}
	if len(except) == 0 && w.s.Cluster.Status.State != records.ClusterActive {
		w.fail("the cluster is %s: %s", w.s.Cluster.Status.State, w.s.Cluster.Status.Message)
	}
}

func observedGone() observed.Presence { return observed.Presence{Since: noon} }

// settingsOf is the text of the distribution's settings in a plan.
func settingsOf(p plans.Plan) string {
	i := slices.IndexFunc(p.Files, func(f plans.File) bool { return strings.HasSuffix(f.Path, "50-rancher.yaml") })
	if i < 0 {
		return ""
	}
	text, err := p.Files[i].Bytes()
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (w *world) joins(p plans.Plan) bool { return strings.Contains(settingsOf(p), `"server"`) }
