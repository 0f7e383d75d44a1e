//go:build e2e && e2e_full

package e2e

// The slower half of clusters of many machines: another version, another machine in the place of the one that began the
// cluster, and a cluster whose server, agents and hosts are killed while it changes.

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/realk3s"
	"github.com/drover-project/drover/test/rke2standin"
)

func TestManyMachinesChange(t *testing.T) {
	walkMany(t, k3sItself, []string{realk3s.Older, realk3s.Version}, []manyStep{
		{"three servers and a worker join", (*fleet).fourJoin},
		{"another version goes from machine to machine", (*fleet).upgrades},
		{"the machine that began the cluster leaves", (*fleet).firstLeaves},
		{"another one takes its place", (*fleet).replaced},
	})
}

// TestFiveMachines is one of the sizes for which drover's own share of the time is measured; see shares.
func TestFiveMachines(t *testing.T) {
	walkMany(t, k3sItself, []string{realk3s.Version}, []manyStep{{"three servers and two workers join", func(f *fleet) { f.allJoin(5) }}})
}

// rke2 is RKE2's stand-in, which has no other network than its own, and needs no other.
var rke2 = distribution{name: "rke2", server: "rke2-server", agent: "rke2-agent", data: rke2Data, supervisor: "9345", config: []string{"cni: none"}}

func TestManyMachinesRKE2(t *testing.T) {
	walkMany(t, rke2, []string{rke2standin.Older, rke2standin.Version}, []manyStep{
		{"three servers and a worker join", (*fleet).fourJoin},
		{"etcd took one member after another", (*fleet).joinedOneByOne},
		{"each has the settings of its roles", (*fleet).roleSettings},
		{"another version goes from machine to machine", (*fleet).upgrades},
		{"the machine that began the cluster leaves", (*fleet).firstLeaves},
		{"another one takes its place", (*fleet).replaced},
	})
}

func TestManyMachinesAreKilled(t *testing.T) {
	walkMany(t, k3sItself, []string{realk3s.Older, realk3s.Version}, []manyStep{
		{"three servers and a worker join", (*fleet).fourJoin},
		{"killed while a config is rolled out", (*fleet).killedInConfig},
		{"killed while a version is rolled out", (*fleet).killedInUpgrade},
	})
}

// upgrades gives all machines another version, with a pause after the first one.
func (f *fleet) upgrades() {
	watch := f.polls()
	began := time.Now()
	f.applies(f.Versions[1])
	f.awaitTurns(began, 1)
	f.drover("clusters", "pause", "harbour")
	f.awaitPaused(began)
	f.drover("clusters", "resume", "harbour")
	f.awaitTurns(began, 4)
	f.awaitActive(4)
	f.Logf("from the applied version to all Active: %s", time.Since(began).Round(100*time.Millisecond))
	watch()
	f.wantOneByOne(began)
	f.wantVersion(f.Versions[1])
}

// awaitPaused waits until a paused cluster has finished with the machines whose turn had begun, of which the pause may have met the second one, and all
// others say why they wait.
func (f *fleet) awaitPaused(since time.Time) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, manyPatience)
	defer cancel()
	must(f.T, bed.Await(ctx, "the cluster to rest", time.Second, func(ctx context.Context) error {
		list, err := f.Machines(ctx)
		if err != nil {
			return err
		}
		paused, idle := 0, 0
		for _, m := range list {
			switch {
			case m.DroverState == "Active" && strings.Contains(m.Cause, "paused since"):
				paused++
			case m.DroverState == "Active" && m.Cause == "":
				idle++
			}
		}
		if idle == 0 || paused == 0 || idle+paused != len(list) {
			return fmt.Errorf("%d machines wait, %d are done:\n%s", paused, idle, f.causes(ctx))
		}
		return nil
	}))
	f.Logf("paused:\n%s", f.causes(f.ctx))
	if turns := f.turns(since); len(turns) != 1 {
		f.Errorf("a paused cluster restarted %v", turns)
	}
}

func (f *fleet) wantVersion(version string) {
	f.Helper()
	for name, n := range f.nodes() {
		if n.Status.NodeInfo.KubeletVersion != version {
			f.Errorf("node %s runs %s, want %s", name, n.Status.NodeInfo.KubeletVersion, version)
		}
	}
}

// first is the host whose machine began the cluster: it names no server.
func (f *fleet) first() *ship {
	f.Helper()
	for _, s := range *f.ships {
		if out := f.on(s, `grep '"server":' `+f.settings()+` || true`); out == "" {
			return s
		}
	}
	f.Fatal("every machine names a server to join")
	return nil
}

// firstLeaves removes the machine that began the cluster: its place is handed over, no other machine restarts, and its host is
// left as it was before.
func (f *fleet) firstLeaves() {
	s := f.first()
	others := f.others(s)
	before := map[string]int{}
	for _, o := range others {
		before[o.Name()] = len(f.starts(o))
	}
	name := f.machine(s).MachineName()
	watch := f.polls()
	began := time.Now()
	f.drover("machines", "rm", name, "--yes")
	f.awaitGone(name)
	f.Logf("%s, which began the cluster, was gone after %s", s.Name(), time.Since(began).Round(100*time.Millisecond))
	*f.ships = others
	f.awaitActive(len(others))
	watch()
	if nodes := f.nodes(); len(nodes) != len(others) || nodes[s.Name()].Metadata.Name != "" {
		f.Errorf("the cluster has the nodes %v after %s has left", slices.Sorted(maps.Keys(nodes)), s.Name())
	}
	f.wantMembers(others)
	for _, o := range others {
		if now := len(f.starts(o)); now != before[o.Name()] {
			f.Errorf("the unit was restarted on %s, %d times", o.Name(), now-before[o.Name()])
		}
	}
	f.wantClean(s)
	if next := f.first(); !next.server() {
		f.Errorf("%s has the place of the first machine", next.Name())
	}
	must(f.T, s.Remove(f.ctx))
}

// others are all hosts but one.
func (f *fleet) others(s *ship) []*ship {
	return slices.DeleteFunc(slices.Clone(*f.ships), func(o *ship) bool { return o == s })
}

// awaitGone waits until a machine is forgotten, and logs what is said of it on the way.
func (f *fleet) awaitGone(name string) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, manyPatience)
	defer cancel()
	said := ""
	must(f.T, bed.Await(ctx, name+" to be gone", 300*time.Millisecond, func(ctx context.Context) error {
		list, err := f.Machines(ctx)
		if err != nil {
			return err
		}
		for _, m := range list {
			if m.MachineName() != name {
				continue
			}
			text := fmt.Sprintf("%s: %s: %s; next: %s", f.hostOf(m), m.DroverState, m.Cause, m.NextStep)
			if text != said {
				f.Logf("%s", text)
				said = text
			}
			return fmt.Errorf("%s", f.causes(ctx))
		}
		return nil
	}))
}

// wantMembers asks a server's etcd for its members.
func (f *fleet) wantMembers(ships []*ship) {
	f.Helper()
	var want []string
	for _, s := range ships {
		if s.server() {
			want = append(want, s.Name())
		}
	}
	var info struct {
		Members []struct{ Name string } `json:"members"`
	}
	out := f.on(ships[0], "cd "+f.data+"/server/tls && curl -s --cacert server-ca.crt --cert client-supervisor.crt --key client-supervisor.key https://127.0.0.1:"+f.supervisor+"/db/info")
	if err := json.Unmarshal([]byte(out), &info); err != nil {
		f.Fatalf("%v: %s", err, out)
	}
	if len(info.Members) != len(want) {
		f.Errorf("etcd has the members %v, want those of %v", info.Members, want)
	}
	for _, name := range want {
		found := false
		for _, m := range info.Members {
			found = found || strings.HasPrefix(m.Name, name+"-") // k3s adds a random suffix
		}
		if !found {
			f.Errorf("etcd has the members %v, want one of %s", info.Members, name)
		}
	}
}

// ours are paths that drover's agent, which stays, has on a host.
var ours = []string{
	"/usr/local/bin/rancher-system-agent", "/usr/local/bin/system-agent", "/etc/systemd/system/rancher-system-agent", "/etc/systemd/system/multi-user.target.wants/rancher-system-agent",
	"/var/lib/rancher/agent", "/var/lib/rancher/system-agent", "/run/rancher-system-agent",
}

// wantClean compares a host with what it was before it joined.
func (f *fleet) wantClean(s *ship) {
	f.Helper()
	now := f.inventory(s)
	excused := func(what string) bool {
		kind, name, _ := strings.Cut(what, " ")
		if kind == "unit" {
			return strings.HasPrefix(name, "rancher-system-agent")
		}
		if name == "/run/systemd/transient" { // a directory of systemd's
			return true
		}
		return slices.ContainsFunc(ours, func(p string) bool {
			return name == p || strings.HasPrefix(name, p+"/") || strings.HasPrefix(name, p+".") || strings.HasPrefix(name, p+"-")
		})
	}
	var differ []string
	for what, value := range now {
		was, is := s.clean[what]
		switch {
		case excused(what):
		case !is:
			differ = append(differ, "added: "+what+" "+value)
		case was != value:
			differ = append(differ, "changed: "+what+" from "+was+" to "+value)
		}
	}
	for what := range s.clean {
		// What the test put there for k3s and for the agent goes with them.
		if _, is := now[what]; !is && !strings.Contains(what, "/var/lib/rancher") && !strings.Contains(what, "/etc/rancher") {
			differ = append(differ, "missing: "+what)
		}
	}
	slices.Sort(differ)
	if len(differ) > 0 {
		f.Errorf("%s is not as it was before it joined:\n%s", s.Name(), strings.Join(differ, "\n"))
	}
	if out, err := s.Sh(f.ctx, "pgrep -af '[k]3s|[c]ontainerd|[f]lannel'"); err == nil {
		f.Errorf("on %s still run:\n%s", s.Name(), out)
	}
}

// replaced has a fresh host join in the place of the one that left.
func (f *fleet) replaced() {
	before := map[string]int{}
	for _, o := range *f.ships {
		before[o.Name()] = len(f.starts(o))
	}
	s := f.start("pier-5", serverFlags)
	began := time.Now()
	f.join(s)
	f.awaitActive(4)
	f.Logf("from the join line of a fourth machine to Active: %s", time.Since(began).Round(100*time.Millisecond))
	f.awaitVoters()
	for _, o := range f.others(s) {
		if now := len(f.starts(o)); now != before[o.Name()] {
			f.Errorf("the unit was restarted on %s, %d times", o.Name(), now-before[o.Name()])
		}
	}
}

// killer ends programs and hosts at moments that depend on its seed alone.
type killer struct {
	*rand.Rand
	cuts map[string]int // power cuts by host
}

// The kinds of a killer's strikes.
const (
	serverKilled = iota
	agentKilled
	powerCut
)

// strikes are those of one change, which come in any order.
var strikes = []int{serverKilled, serverKilled, agentKilled, agentKilled, agentKilled, powerCut, powerCut, powerCut}

func newKiller(f *fleet) *killer {
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("DROVER_E2E_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		must(f.T, err)
	}
	f.Logf("DROVER_E2E_SEED=%d", seed)
	return &killer{Rand: rand.New(rand.NewPCG(seed, 0)), cuts: map[string]int{}}
}

// target is a host: every other time one that changes at this moment, if there is one.
func (k *killer) target(f *fleet) *ship {
	f.Helper()
	all := *f.ships
	var changing []*ship
	for _, s := range all {
		if m := f.machine(s); m.DroverState != "Active" {
			changing = append(changing, s)
		}
	}
	if k.IntN(2) == 0 && len(changing) > 0 {
		all = changing
	}
	return all[k.IntN(len(all))]
}

// strike kills the server, an agent or a host, and starts it again.
func (k *killer) strike(f *fleet, kind int) {
	f.Helper()
	s := k.target(f)
	pause := time.Duration(k.IntN(4000)) * time.Millisecond
	rest := func() {
		select {
		case <-f.ctx.Done():
		case <-time.After(pause):
		}
	}
	switch kind {
	case serverKilled:
		f.Logf("the server is killed, and started again after %s", pause)
		must(f.T, f.KillServer(f.ctx))
		rest()
		must(f.T, f.StartServer(f.ctx))
	case agentKilled:
		f.Logf("the agent on %s is killed", s.Name())
		f.on(s, "systemctl kill --kill-who=main --signal KILL rancher-system-agent || true")
	case powerCut:
		f.Logf("the power of %s is cut, for %s", s.Name(), pause)
		must(f.T, s.Kill(f.ctx))
		rest()
		must(f.T, s.Boot(f.ctx))
		k.cuts[s.Name()]++
	}
}

// killedIn has a change rolled out while everything is killed again and again, and looks at what was done at the end.
func (f *fleet) killedIn(change func()) {
	k := newKiller(f)
	began := time.Now()
	change()
	for _, i := range k.Perm(len(strikes)) {
		pause := time.Duration(1000+k.IntN(14_000)) * time.Millisecond
		select {
		case <-f.ctx.Done():
		case <-time.After(pause):
		}
		f.Logf("after %s:\n%s", time.Since(began).Round(100*time.Millisecond), f.causes(f.ctx))
		k.strike(f, strikes[i])
	}
	f.awaitActive(len(*f.ships))
	f.Logf("everything was Active %s after the change, with %v power cuts", time.Since(began).Round(100*time.Millisecond), k.cuts)
	for _, s := range *f.ships {
		f.wantRanOnce(s, k.cuts[s.Name()])
	}
}

// wantRanOnce reads what a host's agent keeps of its newest plan: each instruction was run once, and once more for each
// time that it was lost with the host.
func (f *fleet) wantRanOnce(s *ship, cuts int) {
	f.Helper()
	type slot struct { // of two, which are written in turn: see durable.Rewrite
		Number int
		Data   struct {
			Instructions []struct {
				Name              string
				Tries, Runs, Lost int
				Result            *struct{ ExitCode int }
			}
			Outcome *struct{ Succeeded bool }
		}
	}
	var file struct{ Slots []slot }
	text := f.on(s, "cat /var/lib/rancher/agent/ledger/remote.json")
	must(f.T, json.Unmarshal([]byte(text), &file))
	ledger := slices.MaxFunc(file.Slots, func(a, b slot) int { return a.Number - b.Number }).Data
	if ledger.Outcome == nil || !ledger.Outcome.Succeeded {
		f.Errorf("the newest plan of %s did not succeed: %s", s.Name(), text)
	}
	for _, i := range ledger.Instructions {
		if i.Lost > cuts || i.Runs != 1+i.Lost {
			f.Errorf("on %s instruction %s was run %d times, and lost %d times in %d power cuts", s.Name(), i.Name, i.Runs, i.Lost, cuts)
		}
	}
	var turns []string
	for _, t := range f.starts(s) {
		turns = append(turns, t.Format(time.TimeOnly))
	}
	f.Logf("%s: %s was started at %v", s.Name(), s.unit, turns)
}

func (f *fleet) killedInConfig() {
	f.killedIn(func() { f.applies(f.Versions[0], "kubelet-arg: [max-pods=99]") })
	for name, n := range f.nodes() {
		if n.Status.Allocatable["pods"] != "99" {
			f.Errorf("node %s takes %s pods, want 99", name, n.Status.Allocatable["pods"])
		}
	}
}

func (f *fleet) killedInUpgrade() {
	f.killedIn(func() { f.applies(f.Versions[1], "kubelet-arg: [max-pods=99]") })
	f.wantVersion(f.Versions[1])
}
