package rke1

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
	rkedesired "github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
)

const key = "fleet-default/yard"

// bed is a store, and a runner whose hosts cannot be reached.
type bed struct {
	*testing.T
	state  *state.State
	runner *Controller

	mu   sync.Mutex
	now  time.Time
	away bool
}

func newBed(t *testing.T) *bed {
	t.Helper()
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	known, err := versions.Load(t.Context(), "", versions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{T: t, state: st, now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	b.runner = New(NewClusters(Options{
		State: st, Versions: known, Now: b.clock, Logger: slog.New(slog.DiscardHandler), Pause: time.Millisecond,
		Dial: func(context.Context, records.Subject, tunnel.Target) (net.Conn, error) {
			return nil, errors.New("nobody is there")
		},
		Tunnel: func(records.Subject) observed.Tunnel {
			b.mu.Lock()
			defer b.mu.Unlock()
			return observed.Tunnel{Connected: !b.away}
		},
	}))
	return b
}

func (b *bed) clock() time.Time { b.mu.Lock(); defer b.mu.Unlock(); return b.now }

// cluster puts a cluster of one host into the store.
func (b *bed) cluster() {
	b.Helper()
	spec := clusterspec.RancherKubernetesEngineConfig(`{"network":{"plugin":"canal"}}`)
	c := records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "yard", Generation: 1}, ID: "c-abcde", Spec: clusterspec.Spec{RancherKubernetesEngineConfig: &spec}}
	m := records.Machine{
		Object: records.Object{Namespace: "c-abcde", Name: "m-1", UID: "u"}, ClusterNamespace: "fleet-default", ClusterName: "yard", ClusterID: "c-abcde",
		NodeName: "a", Address: []string{"10.0.0.1"}, Roles: records.Roles{Etcd: true, ControlPlane: true, Worker: true}, Docker: &records.DockerHost{},
	}
	if _, err := b.state.Store.Commit(b.Context(), b.state.Clusters.Creating(key, c), b.state.Machines.Creating(m.Key(), m)); err != nil {
		b.Fatal(err)
	}
}

// start has the runner work; stop ends it.
func (b *bed) start() (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	_, wait := reconcile.Begin(ctx, b.runner.Worker(), slog.New(slog.DiscardHandler))
	return func() { cancel(); wait() }
}

// await waits for an operation as wanted.
func (b *bed) await(is func(operations.Operation) bool) operations.Operation {
	b.Helper()
	changed := make(chan struct{}, 1)
	defer b.state.Operations.Observe(func(store.Event[operations.Operation]) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	limit := time.After(time.Minute)
	for {
		all := b.state.Operations.List()
		for _, d := range all {
			if is(d.Value) {
				return d.Value
			}
		}
		select {
		case <-changed:
		case <-limit:
			b.Fatalf("no operation is as wanted: %+v", all)
		}
	}
}

func TestAFailedRunIsTriedAgainByWhoeverLeads(t *testing.T) {
	b := newBed(t)
	b.cluster()
	stop := b.start()
	first := b.await(func(o operations.Operation) bool { return o.Wait != nil })
	if !strings.Contains(first.Wait.Cause, "no etcd host can be reached") || !strings.Contains(first.Wait.Cause, "nobody is there") || first.State != operations.Running {
		t.Errorf("%+v", first)
	}
	if p := rkedesired.ReadParams(first); p.Tries != 1 || !p.Next.Equal(b.clock().Add(30*time.Second)) {
		t.Errorf("%+v", p)
	}
	if task, ok := first.Task("hosts"); !ok || task.State != operations.TaskFailed || len(first.Tasks) != len(engine.UpSteps()) {
		t.Errorf("%+v", first.Tasks)
	}
	kept, ok := b.state.RKEStates.Get(key)
	if !ok || len(kept.Value.Hosts) != 1 || kept.Value.Done != "" {
		t.Errorf("kept: %+v", kept.Value.Hosts)
	}
	stop()
	b.mu.Lock()
	b.now = b.now.Add(time.Minute)
	b.mu.Unlock()
	stop = b.start() // the next leader
	defer stop()
	second := b.await(func(o operations.Operation) bool { return rkedesired.ReadParams(o).Tries == 2 })
	if second.ID != first.ID {
		t.Errorf("%s goes on as %s", first.ID, second.ID)
	}
	again, _ := b.state.RKEStates.Get(key)
	was, err := rke.State(&kept.Value)
	if err != nil {
		t.Fatal(err)
	}
	is, err := rke.State(&again.Value)
	if err != nil {
		t.Fatal(err)
	}
	if was.Desired.Certificates[pki.CA].KeyPEM != is.Desired.Certificates[pki.CA].KeyPEM {
		t.Error("the second try made another CA")
	}
	// A user asks for one more try, and then for the end.
	if _, err := b.state.Operations.Modify(t.Context(), second.Key(), func(o operations.Operation) (operations.Operation, error) { return o.RetryBy("user", nil, b.clock()) }); err != nil {
		t.Fatal(err)
	}
	b.await(func(o operations.Operation) bool { return rkedesired.ReadParams(o).Tries == 3 })
	if _, err := b.state.Operations.Modify(t.Context(), second.Key(), func(o operations.Operation) (operations.Operation, error) { return o.AbortBy("user", b.clock()) }); err != nil {
		t.Fatal(err)
	}
	b.await(func(o operations.Operation) bool { return o.State == operations.Aborted })
	if d, _ := b.state.RKEStates.Get(key); d.Value.Halted == "" {
		t.Error("what was stopped begins again")
	}
	if all := b.state.Operations.List(); len(all) != 1 {
		t.Errorf("operations: %+v", all)
	}
}

func TestNothingBeginsWithoutTheHost(t *testing.T) {
	b := newBed(t)
	b.away = true
	b.cluster()
	s, ok := b.runner.gather(key)
	if !ok {
		t.Fatal("no cluster")
	}
	lines, err := b.runner.Preview(t.Context(), s.Cluster)
	if err != nil || len(lines) != 1 || !strings.Contains(lines[0], "the node agent on a, which has the role etcd, is not connected") {
		t.Errorf("%v: %q", err, lines)
	}
	stop := b.start()
	defer stop()
	b.mu.Lock()
	b.away = false
	b.mu.Unlock()
	b.runner.TunnelChanged("c-abcde:m-1", true)
	b.await(func(o operations.Operation) bool { return o.Kind == operations.KindProvision })
}

func TestOwnConfig(t *testing.T) {
	planned := engine.Planned{
		Node: config.Node{Role: []string{config.RoleWorker}},
		Host: desired.Host{
			Prefix: "/", Containers: []desired.Container{{Process: nodeconfig.Process{Name: "kubelet", Image: "image"}}},
			Files: []desired.File{{Path: "/etc/kubernetes/a", Content: "text", Mode: 0o600}, {Path: "/etc/kubernetes/b", Content: "text", Mode: 0o644}, {Path: "/etc/kubernetes/c"}},
		},
		Certificates: pki.Bundle{pki.CA: {Name: pki.CA, CertificatePEM: "PEM", Path: pki.Path(pki.CA)}},
	}
	c := ownConfig("c-abcde", planned)
	if len(c.Processes) != 1 || c.Processes["kubelet"].Image != "image" || len(c.Files) != 1 || !strings.Contains(c.Certs, `"certificatePEM":"PEM"`) || c.ClusterName != "c-abcde" {
		t.Errorf("%+v", c)
	}
	newer := c
	newer.NodeVersion = 7
	if !same(c, newer) {
		t.Error("versions make a difference")
	}
	for _, role := range []string{config.RoleEtcd, config.RoleControlPlane} {
		planned.Node.Role = []string{config.RoleWorker, role}
		if c := ownConfig("c-abcde", planned); c.Processes != nil || c.Certs != "" || c.Files != nil {
			t.Errorf("a host with %s repairs itself: %+v", role, c)
		}
	}
}

func TestAgentsHoldStillForAChange(t *testing.T) {
	b := newBed(t)
	b.cluster()
	s, _ := b.runner.gather(key)
	m := s.Machines[0]
	planned := []engine.Planned{{
		Node: config.Node{Address: "10.0.0.1", Role: []string{config.RoleWorker}},
		Host: desired.Host{Prefix: "/", Containers: []desired.Container{{Process: nodeconfig.Process{Name: "kubelet", Image: "one"}}}},
	}}
	turn := func(image string) *selfRepair {
		planned[0].Containers = []desired.Container{{Process: nodeconfig.Process{Name: "kubelet", Image: image}}}
		return &selfRepair{Controller: b.runner, cluster: s.Cluster, machines: s.Machines, report: Silent{}}
	}
	stored := func(a *selfRepair) (string, int) {
		c, version, err := a.stored(m.Key())
		if err != nil || c == nil {
			t.Fatal(err, c)
		}
		return c.Processes["kubelet"].Image, version
	}
	bring := func(a *selfRepair) {
		if err := a.hold(t.Context(), planned); err != nil {
			t.Fatal(err)
		}
		if err := a.release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first := turn("one")
	bring(first)
	bring(turn("one"))
	if image, version := stored(first); image != "one" || version != 1 {
		t.Errorf("%s, version %d", image, version)
	}
	// The agent acknowledges what it got; only then the change goes on.
	second := turn("two")
	held := make(chan int, 1)
	defer b.state.NodeConfigs.Observe(func(e store.Event[records.NodeConfig]) {
		if c, err := nodeconfig.Decode(e.Value.Config); err == nil && len(c.Processes) == 0 {
			held <- c.NodeVersion
		}
	})()
	done := make(chan error, 1)
	go func() { done <- second.hold(t.Context(), planned) }()
	version := <-held
	select {
	case <-done:
		t.Error("the change goes on while the agent repairs its host")
	default:
	}
	if _, err := b.state.Machines.Modify(t.Context(), m.Key(), func(m records.Machine) (records.Machine, error) {
		docker := *m.Docker
		docker.AppliedNodeConfig = version
		m.Docker = &docker
		return m, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := second.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if image, version := stored(second); image != "two" || version != 3 {
		t.Errorf("%s, version %d", image, version)
	}
	// A host that leaves is not planned, and its agent must not bring back what is taken off.
	s.Machines[0].Deleting = b.clock()
	b.mu.Lock()
	b.away = true // no host is waited for
	b.mu.Unlock()
	leaves := turn("two")
	if err := leaves.hold(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if image, version := stored(leaves); image != "" || version != 4 {
		t.Errorf("%s, version %d", image, version)
	}
}

func TestAnExportedClusterIsLeftAlone(t *testing.T) {
	b := newBed(t)
	b.cluster()
	s, _ := b.runner.gather(key)
	m := s.Machines[0]
	text, err := json.Marshal(nodeconfig.NodeConfig{ClusterName: "c-abcde", NodeVersion: 4, Processes: map[string]nodeconfig.Process{"kubelet": {Name: "kubelet", Image: "one"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.state.NodeConfigs.Create(t.Context(), m.Key(), records.NodeConfig{Config: text}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.state.Clusters.Modify(t.Context(), key, func(c records.Cluster) (records.Cluster, error) {
		c.Exported = &records.Exported{At: b.clock()}
		return c, nil
	}); err != nil {
		t.Fatal(err)
	}
	// What was decided before the cluster was exported does not begin any more.
	if err := b.runner.begin(t.Context(), s, rkedesired.Decision{Do: rkedesired.Begin, Kind: operations.KindProvision, Title: "make it"}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing left to do
		if again, err := b.runner.pass(t.Context(), key); err != nil || again != 0 {
			t.Fatal(again, err)
		}
		d, _ := b.state.NodeConfigs.Get(m.Key())
		c, err := nodeconfig.Decode(d.Value.Config)
		if err != nil || c.NodeVersion != 5 || len(c.Processes) != 0 {
			t.Errorf("%v: %+v", err, c)
		}
	}
	if all := b.state.Operations.List(); len(all) != 0 {
		t.Errorf("operations: %+v", all)
	}
}
