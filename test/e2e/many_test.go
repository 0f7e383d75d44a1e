//go:build e2e

package e2e

// Clusters of many machines on the real k3s: servers whose etcd takes one member after another, a worker, and changes that
// go from machine to machine.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/journey"
	"github.com/drover-project/drover/test/realk3s"
	"github.com/drover-project/drover/test/s3server"
)

const (
	// manyPatience is for what never comes to a cluster of several machines that share two cores.
	manyPatience = 12 * time.Minute
	// harbourKind begins the document of the cluster.
	harbourKind = "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: harbour}\nspec:\n  kubernetesVersion: "
)

// fleet is a cluster of many machines under test.
type fleet struct {
	*testing.T
	*journey.Journey
	ctx context.Context
	distribution
	// ships are its hosts, in the order in which they joined.
	ships *[]*ship
	// parent is the test whose steps the walk is.
	parent *testing.T
	// etcd are the lines of rkeConfig.etcd in its document.
	etcd *[]string
	// bucket is where its snapshots go, if not only to its hosts.
	bucket **s3server.Server
}

// distribution is what the tests know of what hosts install.
type distribution struct {
	name             string
	server, agent    string   // its units
	data, supervisor string   // its data directory, and the port of its servers
	config           []string // lines of every document
}

var k3sItself = distribution{name: "k3s", server: "k3s", agent: "k3s-agent", data: "/var/lib/rancher/k3s", supervisor: "6443", config: []string{`write-kubeconfig-mode: "0600"`}}

// ship is a host of a fleet.
type ship struct {
	*host.Host
	flags  []string // of the command that prints its join line
	unit   string   // of its distribution
	joined time.Time
	clean  map[string]string // what was on it before it joined
	lost   bool              // its host is gone
}

func (s *ship) server() bool { return !slices.Equal(s.flags, workerFlags) }

var (
	serverFlags = []string{"--etcd", "--controlplane"}
	workerFlags = []string{"--worker"}
)

// manyStep is a step of a fleet's walk, which the next ones build upon.
type manyStep struct {
	name string
	run  func(*fleet)
}

func TestManyMachines(t *testing.T) {
	walkMany(t, k3sItself, []string{realk3s.Version}, []manyStep{
		{"three servers and a worker join", (*fleet).fourJoin},
		{"etcd took one member after another", (*fleet).joinedOneByOne},
		{"each has the settings of its roles", (*fleet).roleSettings},
		{"a changed config goes from machine to machine", (*fleet).rollsConfig},
	})
}

// walkMany begins a cluster of the first version, and takes it through the steps.
func walkMany(t *testing.T, d distribution, versions []string, steps []manyStep) {
	module, err := filepath.Abs("../..")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 55*time.Minute)
	defer cancel()
	j, err := journey.Start(ctx, journey.Options{
		Dir: t.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Module: module, Versions: versions, RKE2: d.name == "rke2", Say: t.Logf,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	must(t, err)
	f := &fleet{T: t, Journey: j, ctx: ctx, distribution: d, ships: new([]*ship), parent: t, etcd: new([]string), bucket: new(*s3server.Server)}
	t.Cleanup(func() {
		if t.Failed() {
			f.evidence()
		}
		if err := j.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	must(t, j.StartServer(ctx))
	f.applies(versions[0])
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) {
			sub := *f
			sub.T = t
			began := time.Now()
			step.run(&sub)
			t.Logf("%s: %s", step.name, time.Since(began).Round(100*time.Millisecond))
		}) {
			return
		}
	}
}

// evidence prints what a person would look at first, and keeps all there is if DROVER_E2E_LOGS names a directory.
func (f *fleet) evidence() {
	ctx := context.WithoutCancel(f.ctx) // the test's own has ended
	if log, err := os.ReadFile(f.ServerLog()); err == nil {
		f.T.Logf("the server's log:\n%s", tail(string(log), 60))
	}
	for _, s := range *f.ships {
		for _, unit := range []string{"rancher-system-agent", s.unit} {
			if log, err := s.Journal(ctx, unit); err == nil {
				f.T.Logf("journal of %s on %s:\n%s", unit, s.Name(), tail(log, 30))
			}
		}
	}
	if out, err := f.Drover(ctx, "machines", "ls", "-o", "yaml"); err == nil {
		f.T.Log(out)
	}
	keep := os.Getenv("DROVER_E2E_LOGS")
	logs, err := f.Bed.Collect(ctx)
	if keep == "" || err != nil {
		return
	}
	if err := os.CopyFS(filepath.Join(keep, time.Now().Format("150405")), os.DirFS(logs)); err != nil {
		f.T.Log(err)
	}
}

func (f *fleet) drover(args ...string) string {
	f.Helper()
	out, err := f.Drover(f.ctx, args...)
	must(f.T, err)
	return out
}

// on runs a script on a host and must succeed.
func (f *fleet) on(s *ship, script string) string {
	f.Helper()
	out, err := s.Sh(f.ctx, script)
	must(f.T, err)
	return strings.TrimSpace(out)
}

// document is the cluster with a version and more lines of its config.
func (f *fleet) document(version string, config ...string) string {
	text := harbourKind + version + "\n  rkeConfig:\n    machineGlobalConfig:\n"
	for _, line := range append(slices.Clone(f.config), config...) {
		text += "      " + line + "\n"
	}
	if len(*f.etcd) > 0 {
		text += "    etcd:\n      " + strings.Join(*f.etcd, "\n      ") + "\n"
	}
	file := filepath.Join(f.Dir, "harbour.yaml")
	must(f.T, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func (f *fleet) applies(version string, config ...string) {
	f.Helper()
	f.drover("apply", "-f", f.document(version, config...))
}

// start makes a host that has not joined.
func (f *fleet) start(name string, flags []string) *ship {
	f.Helper()
	h, err := f.Host(f.ctx, name)
	must(f.T, err)
	s := &ship{Host: h, flags: flags, unit: f.agent}
	if s.server() {
		s.unit = f.server
	}
	s.clean = f.inventory(s)
	*f.ships = append(*f.ships, s)
	return s
}

// join runs the printed line on hosts, one after the other as a person would.
func (f *fleet) join(ships ...*ship) {
	f.Helper()
	for _, s := range ships {
		line, err := f.JoinCommand(f.ctx, "harbour", s.flags...)
		must(f.T, err)
		s.joined = time.Now()
		f.on(s, line)
	}
}

// machineOf is the machine of a host; false when it has not registered, or is gone.
func (f *fleet) machineOf(ctx context.Context, s *ship) (journey.Machine, bool, error) {
	id, err := s.ReadFile(ctx, "/var/lib/rancher/system-agent/etc/cattle-id")
	if err != nil {
		return journey.Machine{}, false, err
	}
	list, err := f.Machines(ctx)
	i := slices.IndexFunc(list, func(m journey.Machine) bool { return m.MachineID == strings.TrimSpace(string(id)) })
	if err != nil || i < 0 {
		return journey.Machine{}, false, err
	}
	return list[i], true, nil
}

func (f *fleet) machine(s *ship) journey.Machine {
	f.Helper()
	m, is, err := f.machineOf(f.ctx, s)
	must(f.T, err)
	if !is {
		f.Fatalf("%s is no machine of the cluster", s.Name())
	}
	return m
}

// awaitActive waits until all machines are Active and have nothing more to do, and logs each change of what is said of them.
func (f *fleet) awaitActive(want int) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, manyPatience)
	defer cancel()
	said := map[string]string{}
	must(f.T, bed.Await(ctx, fmt.Sprintf("%d active machines", want), 300*time.Millisecond, func(ctx context.Context) error {
		list, err := f.Machines(ctx)
		if err != nil {
			return err
		}
		var waiting []string
		for _, m := range list {
			text := strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", f.hostOf(m), m.DroverState, m.Cause), ": ")
			if said[m.Key] != text {
				f.Logf("%s", text)
				said[m.Key] = text
			}
			if m.DroverState != "Active" || m.Cause != "" {
				waiting = append(waiting, text)
			}
		}
		if len(list) != want || len(waiting) > 0 {
			return fmt.Errorf("there are %d machines; %s", len(list), strings.Join(waiting, "; "))
		}
		out, err := f.Drover(ctx, "clusters", "ls", "-o", "json")
		if err != nil || !strings.Contains(out, `"state": "active"`) {
			return fmt.Errorf("the cluster is not active: %v: %s", err, out) //nolint:errorlint // may be none
		}
		out, err = f.Drover(ctx, "operations", "ls", "-o", "json")
		if err != nil || strings.Contains(out, `"state": "running"`) || strings.Contains(out, `"state": "queued"`) {
			return fmt.Errorf("the operations are not done: %v: %s", err, out) //nolint:errorlint // may be none
		}
		return nil
	}))
}

// hostOf names the host of a machine, where its agent was seen.
func (f *fleet) hostOf(m journey.Machine) string {
	if m.Node != nil && m.Node.Name != "" {
		return m.Node.Name
	}
	return m.MachineName()
}

func (f *fleet) fourJoin() { f.allJoin(4) }

// allJoin has three servers and workers join. All lines are run before the first server is ready, so that what joins when
// is the planner's choice.
func (f *fleet) allJoin(machines int) {
	for i := range machines {
		flags := serverFlags
		if i >= 3 {
			flags = workerFlags
		}
		f.start(fmt.Sprintf("pier-%d", i+1), flags)
	}
	began := time.Now()
	f.join(*f.ships...)
	lined := time.Now()
	f.Logf("%d join lines took %s", machines, lined.Sub(began).Round(100*time.Millisecond))
	f.awaitActive(machines)
	var servers, all []time.Duration
	nodes, times := f.nodes(), map[string]time.Time{}
	for _, s := range *f.ships {
		m := f.machine(s)
		active := m.History[len(m.History)-1].At
		f.Logf("%s: Active %s after the first join line; its unit was started %s after its own, and it was Active at most %s after its node was Ready", s.Name(),
			active.Sub(began).Round(100*time.Millisecond), f.starts(s)[0].Sub(s.joined).Round(100*time.Millisecond), active.Sub(nodes[s.Name()].since("Ready")).Round(100*time.Millisecond))
		times[s.Name()] = active
		all = append(all, active.Sub(began))
		if s.server() {
			servers = append(servers, active.Sub(began))
		}
	}
	f.Logf("from the first join line to Active: one machine %s, three servers %s, all %s",
		slices.Min(servers).Round(100*time.Millisecond), slices.Max(servers).Round(100*time.Millisecond), slices.Max(all).Round(100*time.Millisecond))
	f.shares(lined, times)
}

// kubeNode is what the tests look at of a node.
type kubeNode struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		ProviderID string `json:"providerID"`
	} `json:"spec"`
	Status struct {
		NodeInfo   struct{ KubeletVersion string } `json:"nodeInfo"`
		Conditions []struct {
			Type, Status, Reason string
			LastTransitionTime   time.Time `json:"lastTransitionTime"`
		} `json:"conditions"`
		Allocatable map[string]string `json:"allocatable"`
	} `json:"status"`
}

// since is when a condition of the node became true, in whole seconds; zero while it is not.
func (n kubeNode) since(condition string) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == condition && c.Status == "True" {
			return c.LastTransitionTime
		}
	}
	return time.Time{}
}

// nodes are the cluster's nodes by name, asked through the server.
func (f *fleet) nodes() map[string]kubeNode {
	f.Helper()
	out, err := f.Kubectl(f.ctx, "--kubeconfig", f.kubeconfig(), "get", "nodes", "-o", "json")
	must(f.T, err)
	var list struct{ Items []kubeNode }
	must(f.T, json.Unmarshal([]byte(out), &list))
	nodes := map[string]kubeNode{}
	for _, n := range list.Items {
		nodes[n.Metadata.Name] = n
	}
	return nodes
}

func (f *fleet) kubeconfig() string {
	f.Helper()
	file := filepath.Join(f.Dir, "kc")
	must(f.T, os.WriteFile(file, []byte(f.drover("clusters", "kubeconfig", "harbour")), 0o600))
	return file
}

// voters are the nodes that vote in etcd, with the time since when.
func (f *fleet) voters() map[string]time.Time {
	f.Helper()
	voters := map[string]time.Time{}
	for name, n := range f.nodes() {
		if since := n.since("EtcdIsVoter"); !since.IsZero() {
			voters[name] = since
		}
	}
	return voters
}

// awaitVoters waits until three members vote. A machine is Active before its member does.
func (f *fleet) awaitVoters() (voters map[string]time.Time) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, manyPatience)
	defer cancel()
	must(f.T, bed.Await(ctx, "three voters", time.Second, func(context.Context) error {
		if voters = f.voters(); len(voters) != 3 {
			return fmt.Errorf("etcd has the voters %v", voters)
		}
		return nil
	}))
	return voters
}

// joinedOneByOne looks at what the journals and nodes keep of the order in which members joined: a server that begins before
// the one before it votes is a second learner, which etcd refuses.
func (f *fleet) joinedOneByOne() {
	voters := f.awaitVoters()
	type event struct {
		host          string
		begins, votes time.Time
	}
	var events []event
	for _, s := range *f.ships {
		if n := f.nodes()[s.Name()]; n.Spec.ProviderID == "" {
			f.Errorf("node %s has no providerID", s.Name())
		}
		if !s.server() {
			continue
		}
		events = append(events, event{s.Name(), f.starts(s)[0], voters[s.Name()]})
		if log, err := s.Journal(f.ctx, s.unit); err != nil || strings.Contains(log, "too many learner") {
			f.Errorf("%s met another learner, or its journal cannot be read: %v", s.Name(), err)
		}
	}
	slices.SortFunc(events, func(a, b event) int { return a.begins.Compare(b.begins) })
	for i, e := range events {
		f.Logf("%s: its unit was first started at %s and its member votes since %s", e.host, e.begins.Format(time.TimeOnly), e.votes.Format(time.TimeOnly))
		if i > 0 {
			f.Logf("%s: it began at most %s after %s voted", e.host, e.begins.Sub(events[i-1].votes).Round(100*time.Millisecond), events[i-1].host)
		}
		// The first member votes from its beginning on, which its node says some time later. The condition's time is in whole seconds.
		if i > 1 && e.begins.Add(time.Second).Before(events[i-1].votes) {
			f.Errorf("%s began to join before %s voted", e.host, events[i-1].host)
		}
	}
}

// settings is the file of the settings that come from drover.
func (f *fleet) settings() string { return "/etc/rancher/" + f.name + "/config.yaml.d/50-rancher.yaml" }

// roleSettings reads the configs on the hosts.
func (f *fleet) roleSettings() {
	tokens := map[string]string{}
	inits := 0
	for _, s := range *f.ships {
		text, err := s.ReadFile(f.ctx, f.settings())
		must(f.T, err)
		var config map[string]any
		must(f.T, json.Unmarshal(text, &config))
		has := func(key string) bool { _, is := config[key]; return is }
		if !has("server") {
			inits++
		}
		if has("cluster-init") != (f.name == "k3s" && !has("server")) {
			f.Errorf("%s: cluster-init is set: %t, and server: %v", s.Name(), has("cluster-init"), config["server"])
		}
		if has("agent-token") != s.server() || has("disable-etcd") || !has("token") {
			f.Errorf("%s: settings of other roles: %v", s.Name(), slices.Sorted(maps.Keys(config)))
		}
		token := fmt.Sprint(config["token"])
		if s.server() {
			tokens["server"], tokens["agent"] = token, fmt.Sprint(config["agent-token"])
		} else if token != tokens["agent"] || token == tokens["server"] {
			f.Errorf("%s: its token is not that of agents alone", s.Name())
		}
		if out, err := s.Sh(f.ctx, "grep -rlF '"+tokens["server"]+"' /etc /var/lib/rancher 2>/dev/null"); !s.server() && (err == nil || out != "") {
			f.Errorf("the worker %s has the servers' token in %s", s.Name(), out)
		}
	}
	if inits != 1 {
		f.Errorf("%d machines begin the cluster", inits)
	}
}

// starts are the times at which systemd was asked to start k3s on the host, over all boots. Those by which systemd starts
// what has ended by itself are not in them: on a busy machine k3s ends when it loses a lease.
func (f *fleet) starts(s *ship) []time.Time { return f.unitTimes(s, "Starting") }

// unitTimes are the times at which systemd wrote of k3s that it is in a phase, Starting or Started. Of the former, those
// that follow an end of its own are left out.
func (f *fleet) unitTimes(s *ship, phase string) []time.Time {
	f.Helper()
	var times []time.Time
	again := false
	out := f.on(s, "journalctl --no-pager -o short-unix -u "+s.unit+" -t systemd")
	for _, found := range regexp.MustCompile(`(?m)^(\d+\.\d+) .*: (?:`+phase+` `+s.unit+`\.service|`+s.unit+`\.service: (Scheduled restart job))`).FindAllStringSubmatch(out, -1) {
		if found[2] != "" {
			again = phase == "Starting"
			continue
		}
		seconds, err := strconv.ParseFloat(found[1], 64)
		must(f.T, err)
		if !again {
			times = append(times, time.UnixMicro(int64(seconds*1e6)))
		}
		again = false
	}
	return times
}

// turn is one restart of k3s on a host.
type turn struct {
	host          string
	server        bool
	begins, begun time.Time
}

// turns are the starts of k3s since a time, in their order. A start that is not over has no end.
func (f *fleet) turns(since time.Time) []turn {
	f.Helper()
	var all []turn
	for _, s := range *f.ships {
		begun := f.unitTimes(s, "Started")
		for _, begins := range f.starts(s) {
			if begins.Before(since) {
				continue
			}
			t := turn{host: s.Name(), server: s.server(), begins: begins}
			if i := slices.IndexFunc(begun, begins.Before); i >= 0 {
				t.begun = begun[i]
			}
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b turn) int { return a.begins.Compare(b.begins) })
	return all
}

// wantOneByOne looks whether since a time each host has restarted k3s once, one server at a time, and workers after them.
func (f *fleet) wantOneByOne(since time.Time) {
	f.Helper()
	turns, count := f.turns(since), map[string]int{}
	for i, t := range turns {
		f.Logf("%s: %s started after %s, in %s", t.host, f.name, t.begins.Sub(since).Round(100*time.Millisecond), t.begun.Sub(t.begins).Round(100*time.Millisecond))
		count[t.host]++
		if i > 0 && (turns[i-1].begun.IsZero() || t.begins.Before(turns[i-1].begun)) {
			f.Errorf("the unit was started on %s before it ran on %s", t.host, turns[i-1].host)
		}
		if i > 0 && t.server && !turns[i-1].server {
			f.Errorf("the worker %s was restarted before the server %s", turns[i-1].host, t.host)
		}
	}
	for _, s := range *f.ships {
		if count[s.Name()] != 1 {
			f.Errorf("the unit was started %d times on %s", count[s.Name()], s.Name())
		}
	}
}

// rollsConfig gives all kubelets another setting, and asks the API through the server all the time.
func (f *fleet) rollsConfig() {
	watch := f.polls()
	began := time.Now()
	f.applies(f.Versions[0], "kubelet-arg: [max-pods=99]")
	f.awaitTurns(began, 4)
	f.awaitActive(4)
	f.Logf("from the changed config to all Active: %s", time.Since(began).Round(100*time.Millisecond))
	watch()
	f.wantOneByOne(began)
	for name, n := range f.nodes() {
		if n.Status.Allocatable["pods"] != "99" {
			f.Errorf("node %s takes %s pods, want 99", name, n.Status.Allocatable["pods"])
		}
	}
}

// awaitTurns waits until k3s has been started a number of times since a time.
func (f *fleet) awaitTurns(since time.Time, want int) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, manyPatience)
	defer cancel()
	said := ""
	must(f.T, bed.Await(ctx, fmt.Sprintf("%s to be started %d times", f.name, want), time.Second, func(ctx context.Context) error {
		text := f.causes(ctx)
		if text != said {
			f.Logf("%s", text)
			said = text
		}
		if turns := f.turns(since); len(turns) < want {
			return fmt.Errorf("it was started on %v; %s", turns, text)
		}
		return nil
	}))
}

// causes is what is said of all machines now.
func (f *fleet) causes(ctx context.Context) string {
	list, err := f.Machines(ctx)
	if err != nil {
		return err.Error()
	}
	var said []string
	for _, m := range list {
		said = append(said, fmt.Sprintf("%s: %s: %s", f.hostOf(m), m.DroverState, m.Cause))
	}
	slices.Sort(said)
	return strings.Join(said, "\n")
}

// polls asks the cluster's API through the server once a second until the returned function is called, which logs when
// and why it did not answer.
func (f *fleet) polls() (stop func()) {
	f.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(f.drover("clusters", "kubeconfig", "harbour")))
	must(f.T, err)
	client, err := rest.HTTPClientFor(config)
	must(f.T, err)
	ctx, cancel := context.WithCancel(f.ctx)
	var watching sync.WaitGroup
	var asked, failed int
	var gaps []string
	watching.Go(func() {
		var since time.Time
		for ctx.Err() == nil {
			err := asks(ctx, client, config.Host+"/api/v1/namespaces/default")
			if ctx.Err() != nil {
				break
			}
			asked++
			if err == nil {
				since = time.Time{}
			} else {
				failed++
				if since.IsZero() {
					since, gaps = time.Now(), append(gaps, "a gap since "+time.Now().Format(time.TimeOnly)+":")
				}
				gaps = append(gaps, fmt.Sprintf("   after %s: %v", time.Since(since).Round(100*time.Millisecond), err))
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return func() {
		f.Helper()
		cancel()
		watching.Wait()
		f.Logf("the API was asked %d times through the server; %d failed\n%s", asked, failed, strings.Join(gaps, "\n"))
		if asked == failed {
			f.Error("the API did not answer once")
		}
	}
}

// asks asks an API once.
func asks(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", answer.Status, body)
	}
	return err
}

// inventory is what joining a cluster and leaving it may change on a host: files, units, mounts, links and firewall rules,
// each with what tells a changed one.
func (f *fleet) inventory(s *ship) map[string]string {
	f.Helper()
	out := f.on(s, `find /etc /usr/local /var/lib /opt /run -xdev \( -path /run/systemd/journal -o -path /run/log -o -path /run/udev -o -path /run/systemd/units -o -path /var/lib/systemd \) -prune -o -printf 'file %p\t%y %m %l\n'
find /var/lib/rancher /var/lib/kubelet /var/lib/cni -printf 'file %p\t%y %m %l\n'
find /etc /usr/local /opt -type f -exec sha256sum {} + | awk '{ print "content " $2 "\t" $1 }'
systemctl list-unit-files --no-legend --no-pager | awk '{ print "unit " $1 "\t" $2 }'
awk '{ print "mount " $5 "\t" $4 }' /proc/self/mountinfo
ip -o link | awk -F': ' '{ split($2, name, "@"); print "link " name[1] "\t" }'
iptables-save | awk '/^-A/ { print "rule " $0 "\t" } /^:/ && $2 != "ACCEPT" { print "chain " $1 "\t" $2 }'
ip route | sed 's/.*/route &\t/'`)
	found := map[string]string{}
	for line := range strings.Lines(out) {
		what, value, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		found[what] = value
	}
	return found
}
