package downstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
)

// fleet are several control-plane hosts.
type fleet map[records.Subject]*host

func (f fleet) Connected(s records.Subject) (time.Time, bool)  { return f[s].Connected(s) }
func (f fleet) OnTunnel(func(subject records.Subject, _ bool)) {}

func (f fleet) Dial(ctx context.Context, s records.Subject, to tunnel.Target) (net.Conn, error) {
	return f[s].Dial(ctx, s, to)
}

func (f fleet) Ask(ctx context.Context, s records.Subject, path string) (*http.Response, error) {
	return f[s].Ask(ctx, s, path)
}

// TestADeadControlPlaneHoldsNothing: tunnels of both hosts are open all the time.
func TestADeadControlPlaneHoldsNothing(t *testing.T) {
	first, second := newHost(t), newHost(t)
	for i, h := range []*host{first, second} {
		h.open = true
		h.set("True", map[string]any{machineLabel: fmt.Sprintf("seen-by-%d", i+1)})
	}
	first.down = true
	m, changed := start(t, fleet{"fleet-default/custom-1": first, "fleet-default/custom-2": second}, controlPlane("custom-1"), controlPlane("custom-2"))
	by := func(n string) func(observed.API) bool {
		return func(a observed.API) bool { _, ok := a.Nodes["seen-by-"+n]; return a.Reachable && ok }
	}
	await(t, m, changed, by("2"))
	client, err := m.Client("fleet-default/harbour")
	if err != nil {
		t.Fatal(err)
	}
	found, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(found.Items) != 1 || found.Items[0].Labels[machineLabel] != "seen-by-2" {
		t.Errorf("the client asks elsewhere: %v, %v", found, err)
	}
	first.stop(false)
	second.stop(true)
	await(t, m, changed, by("1"))

	first.stop(true)
	all := regexp.MustCompile(`^.* on fleet-default/custom-1: .*; .* on fleet-default/custom-2: .*$`)
	await(t, m, changed, func(a observed.API) bool { return !a.Reachable && all.MatchString(a.Cause) })
	if _, err := m.Client("fleet-default/harbour"); !errors.As(err, new(*UnavailableError)) {
		t.Errorf("client without an API: %v", err)
	}
}

// TestAControlPlaneWithoutEtcdHoldsNothing: its watches go on, and nothing else of it works.
func TestAControlPlaneWithoutEtcdHoldsNothing(t *testing.T) {
	first, second := newHost(t), newHost(t)
	for i, h := range []*host{first, second} {
		h.open = true
		h.set("True", map[string]any{machineLabel: fmt.Sprintf("seen-by-%d", i+1)})
	}
	m, changed := start(t, fleet{"fleet-default/custom-1": first, "fleet-default/custom-2": second}, controlPlane("custom-1"), controlPlane("custom-2"))
	by := func(n string) func(observed.API) bool {
		return func(a observed.API) bool { _, ok := a.Nodes["seen-by-"+n]; return a.Reachable && ok }
	}
	await(t, m, changed, by("1"))
	first.mu.Lock()
	first.frozen = true
	first.mu.Unlock()
	await(t, m, changed, by("2"))
	second.mu.Lock()
	second.frozen = true
	second.mu.Unlock()
	why := await(t, m, changed, func(a observed.API) bool { return !a.Reachable })
	if want := "read through the Kubernetes API on fleet-default/custom-2: etcd has no leader"; !strings.Contains(why.Cause, want) {
		t.Errorf("the cause is %q, want %q", why.Cause, want)
	}
}

// TestAHostThatIsBeingRemovedIsLeft before its API server hangs its callers, once another one answers, and without a
// moment in which the cluster is out of reach.
func TestAHostThatIsBeingRemovedIsLeft(t *testing.T) {
	first, second := newHost(t), newHost(t)
	for i, h := range []*host{first, second} {
		h.open = true
		h.set("True", map[string]any{machineLabel: fmt.Sprintf("seen-by-%d", i+1)})
	}
	second.stop(true)
	m, changed := start(t, fleet{"fleet-default/custom-1": first, "fleet-default/custom-2": second}, controlPlane("custom-1"), controlPlane("custom-2"))
	by := func(n string) func(observed.API) bool {
		return func(a observed.API) bool { _, ok := a.Nodes["seen-by-"+n]; return ok }
	}
	await(t, m, changed, by("1"))
	remove := func(at time.Time) {
		d, ok := m.State.Machines.Get("fleet-default/custom-1")
		if !ok {
			t.Fatal("the machine is gone")
		}
		d.Value.Deleting = at
		if _, err := m.State.Store.Commit(t.Context(), m.State.Machines.Updating(d)); err != nil {
			t.Fatal(err)
		}
	}
	asked := second.askedFor()
	remove(time.Unix(1, 0))
	<-asked // and its API does not answer
	if api := m.API("fleet-default/harbour"); !api.Reachable || !by("1")(api) {
		t.Errorf("it was left for one that does not answer: %+v", api)
	}
	second.stop(false)
	remove(time.Time{})
	remove(time.Unix(2, 0))
	await(t, m, changed, func(api observed.API) bool {
		if _, err := m.Client("fleet-default/harbour"); err != nil || !api.Reachable {
			t.Fatalf("out of reach: %v, %+v", err, api)
		}
		return by("2")(api)
	})
}

// TestWhatWakesTheWatcher: a control plane that gets further may answer now, and is not asked after a pause only.
func TestWhatWakesTheWatcher(t *testing.T) {
	machine := func(change func(*records.Machine)) records.Machine {
		m := controlPlane("custom-1")
		m.Status.Condition = records.Condition{State: records.ApplyingPlan, WaitingFor: "files"}
		change(&m)
		return m
	}
	for _, test := range []struct {
		name                 string
		change               func(*records.Machine)
		wakes, leaves, other bool
	}{
		{name: "words", change: func(m *records.Machine) { m.Status.Cause = "other words" }},
		{name: "its state", change: func(m *records.Machine) { m.Status.State = records.WaitingForProbes }, wakes: true},
		{name: "what it waits for", change: func(m *records.Machine) { m.Status.WaitingFor = "probes etcd" }, wakes: true},
		{name: "it is to be removed", change: func(m *records.Machine) { m.Deleting = time.Unix(1, 0) }, leaves: true},
		{name: "it is a control plane no more", change: func(m *records.Machine) { m.Roles.ControlPlane = false }, other: true},
	} {
		w := &watcher{wake: make(chan struct{}, 1), moves: make(chan struct{}, 1)}
		c := &Clusters{watchers: map[records.ClusterKey]*watcher{"fleet-default/harbour": w}}
		old := machine(func(*records.Machine) {})
		other := c.machineChanged(store.Event[records.Machine]{Type: store.Put, Old: &old, Value: machine(test.change)})
		if wakes, leaves := len(w.wake) > 0, len(w.moves) > 0; wakes != test.wakes || leaves != test.leaves || other != test.other {
			t.Errorf("%s: wakes %t, leaves %t, others %t", test.name, wakes, leaves, other)
		}
	}
}

// TestWhoWaitsForAPlanIsNotAsked: both hosts would answer, the first one from what ran on it before.
func TestWhoWaitsForAPlanIsNotAsked(t *testing.T) {
	f := fleet{}
	machine := func(name string, state records.MachineState) records.Machine {
		h := newHost(t)
		h.open = true
		h.set("True", map[string]any{machineLabel: name})
		m := controlPlane(name)
		m.Status.State = state
		f[m.Subject()] = h
		return m
	}
	for _, tc := range []struct {
		name   string
		second records.MachineState
		want   string
	}{
		{"the other has a plan", records.ApplyingPlan, "custom-2"},
		{"the other waits too", records.WaitingForPlan, "custom-1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, changed := start(t, f, machine("custom-1", records.WaitingForPlan), machine("custom-2", tc.second))
			api := await(t, m, changed, func(a observed.API) bool { return a.Reachable })
			if _, is := api.Nodes[tc.want]; !is || len(api.Nodes) != 1 {
				t.Errorf("the nodes are %v, want %s", api.Nodes, tc.want)
			}
		})
	}
}
