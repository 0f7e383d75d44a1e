// Package nodes looks at each cluster through the cluster's own Kubernetes API: is it
// there, which nodes has it, are they Ready. No host's word counts here. The API is
// reached through the tunnel that a control-plane host opened, with the
// administrator's certificate that the distribution left on that host; it is fetched
// when needed and kept in memory only.
package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/server/planner"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/versions"
)

// Tunnels is what the manager needs of the tunnel server.
type Tunnels interface {
	Dial(ctx context.Context, subject, network, address string) (net.Conn, error)
	Connected(subject string) (since time.Time, ok bool)
}

// Options of a manager.
type Options struct {
	State   *state.State
	Tunnels Tunnels
	// Changed is called whenever what API tells of a cluster changed. It must not block.
	Changed func(clusterKey string)
	Logger  *slog.Logger
	Now     func() time.Time
}

// Manager watches the APIs of all clusters that have a control plane.
type Manager struct {
	Options

	mu       sync.Mutex
	watchers map[string]*watcher // by cluster key
	running  sync.WaitGroup
}

// New makes a manager; nothing happens before Run.
func New(o Options) *Manager { return &Manager{Options: o, watchers: map[string]*watcher{}} }

// Run watches until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	signal := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	defer m.State.Clusters.Observe(func(store.Event[records.Cluster]) { signal() })()
	defer m.State.Machines.Observe(func(e store.Event[records.Machine]) {
		// Thousands of workers may come at once, and none of them changes where an API is.
		if was, is := e.Old != nil && e.Old.Roles.ControlPlane, e.Type != store.Deleted && e.Value.Roles.ControlPlane; was != is {
			signal()
		}
	})()
	for {
		m.match(ctx)
		select {
		case <-ctx.Done():
			m.running.Wait()
			return nil
		case <-wake:
		}
	}
}

// match has one watcher for each cluster with a control-plane machine, and none for others.
func (m *Manager) match(ctx context.Context) {
	wanted := map[string]bool{}
	for _, d := range m.State.Machines.List() {
		if d.Value.Roles.ControlPlane && d.Value.Docker == nil {
			wanted[d.Value.ClusterKey()] = true
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, w := range m.watchers {
		if cluster, ok := m.State.Clusters.Get(key); !ok || !wanted[key] || !cluster.Value.Deleting.IsZero() {
			w.cancel()
			delete(m.watchers, key)
		}
	}
	for key := range wanted {
		cluster, ok := m.State.Clusters.Get(key)
		if !ok || m.watchers[key] != nil || !cluster.Value.Deleting.IsZero() {
			continue
		}
		watchCtx, cancel := context.WithCancel(ctx)
		w := &watcher{
			manager: m, key: key, runtime: string(versions.RuntimeOf(cluster.Value.Spec.KubernetesVersion)), cancel: cancel,
			wake: make(chan struct{}, 1), api: planner.API{Cause: "the server has not asked yet"},
		}
		m.watchers[key] = w
		m.running.Go(func() { w.run(watchCtx) })
	}
}

// API is what is seen of a cluster now.
func (m *Manager) API(clusterKey string) planner.API {
	m.mu.Lock()
	w := m.watchers[clusterKey]
	m.mu.Unlock()
	if w == nil {
		return planner.API{Cause: "no control-plane machine is registered"}
	}
	return w.snapshot()
}

// TunnelChanged tells that a machine's tunnel came or went.
func (m *Manager) TunnelChanged(machineKey string, _ bool) {
	d, ok := m.State.Machines.Get(machineKey)
	if !ok {
		return
	}
	m.mu.Lock()
	w := m.watchers[d.Value.ClusterKey()]
	m.mu.Unlock()
	if w != nil {
		w.poke()
	}
}

// controlPlanes are the machine keys through which a cluster's API may be reached.
func (m *Manager) controlPlanes(clusterKey string) []string {
	var keys []string
	for _, d := range m.State.Machines.List() {
		if d.Value.Roles.ControlPlane && d.Value.Deleting.IsZero() && d.Value.ClusterKey() == clusterKey {
			keys = append(keys, d.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

// pick finds a control-plane machine with an open tunnel.
func (m *Manager) pick(clusterKey string) (machineKey string, err error) {
	keys := m.controlPlanes(clusterKey)
	for _, key := range keys {
		if _, ok := m.Tunnels.Connected(key); ok {
			return key, nil
		}
	}
	if len(keys) == 0 {
		return "", fmt.Errorf("no control-plane machine is registered")
	}
	return "", &NoTunnelError{Machines: keys}
}

// NoTunnelError says that no control-plane host has a tunnel open.
type NoTunnelError struct{ Machines []string }

func (e *NoTunnelError) Error() string {
	return fmt.Sprintf("no tunnel from %s is open; drover's agent opens one, an agent of another make does not", join(e.Machines))
}

func join(keys []string) string {
	text := ""
	for i, key := range keys {
		if i > 0 {
			text += ", "
		}
		text += key
	}
	return text
}
