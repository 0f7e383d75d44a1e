package clusters

import (
	"context"
	"testing"
	"time"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

const dockyard = `apiVersion: management.cattle.io/v3
kind: Cluster
metadata: {name: dockyard}
spec: {rancherKubernetesEngineConfig: {}}
`

// follow hands on each new state of a machine.
func follow(b *bed, key string) (next func() records.MachineStatus) {
	states := make(chan records.MachineStatus, 100)
	b.Cleanup(b.state.Machines.Observe(func(e store.Event[records.Machine]) {
		if e.Key == key && (e.Old == nil || e.Old.Status.State != e.Value.Status.State) {
			states <- e.Value.Status
		}
	}))
	return func() records.MachineStatus {
		b.Helper()
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		defer cancel()
		select {
		case s := <-states:
			return s
		case <-ctx.Done():
			b.Fatal("the state of the machine does not change")
			return records.MachineStatus{}
		}
	}
}

func TestADockerClusterFollowsItsTunnels(t *testing.T) {
	b := newBed(t)
	var connected observed.Tunnel
	b.control.Hosts = seenHosts{bed: b, tunnel: func(subject records.Subject) observed.Tunnel {
		b.mu.Lock()
		defer b.mu.Unlock()
		if subject != b.subject {
			return observed.Tunnel{}
		}
		return connected
	}}
	id := b.apply(dockyard)[0].ID
	if len(id) != len("c-abcde") {
		t.Errorf("ID = %s", id)
	}
	if _, ok := b.state.ClusterSecrets.Get("fleet-default/dockyard"); ok {
		t.Error("the cluster has join tokens of k3s")
	}
	m := records.Machine{
		Object: records.Object{Namespace: id, Name: "m-1", UID: "u"}, ClusterNamespace: "fleet-default", ClusterName: "dockyard", ClusterID: id,
		NodeName: "n1", Docker: &records.DockerHost{}, Status: records.MachineStatus{Condition: records.Condition{State: records.Registering}},
	}
	b.set(func() { b.subject = m.Subject() })
	next := follow(b, m.Key())
	if _, err := b.state.Machines.Create(t.Context(), m.Key(), m); err != nil {
		t.Fatal(err)
	}
	next()
	b.run()
	change := func(f func()) {
		b.set(f)
		b.control.Changed("fleet-default/dockyard")
	}
	change(func() { connected = observed.Tunnel{Connected: true, Since: b.now} })
	if s := next(); s.State != records.Connected || !s.Since.Equal(b.clock()) {
		t.Errorf("status = %+v", s)
	}
	change(func() {
		b.now = b.now.Add(time.Hour)
		connected = observed.Tunnel{Since: b.now.Add(-time.Minute)}
	})
	s := next()
	if s.State != records.Disconnected || s.WaitingFor == "" || len(s.History) != 2 {
		t.Errorf("status = %+v", s)
	}
	if _, err := b.state.NodeConfigs.Create(t.Context(), m.Key(), records.NodeConfig{Config: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if err := b.applier.Remove(t.Context(), "fleet-default/dockyard", records.Leave{}); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{}, 10)
	defer b.state.NodeConfigs.Observe(func(store.Event[records.NodeConfig]) { gone <- struct{}{} })()
	if _, ok := b.state.NodeConfigs.Get(m.Key()); ok {
		<-gone
	}
	if _, ok := b.state.Machines.Get(m.Key()); ok {
		t.Error("the machine outlives its cluster")
	}
}
