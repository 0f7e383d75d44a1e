// Package downstream is the server's client of each cluster's own Kubernetes API: is it
// there, which nodes has it, are they Ready. No host's word counts here. The API is
// reached through the tunnel of the cluster's agent, by what that announced, or through the
// tunnel that a control-plane host opened, with the administrator's certificate that the
// distribution left on that host; it is fetched when needed and kept in memory only.
package downstream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/answers"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Hosts is the way to the hosts; see server/hosts.
type Hosts interface {
	Dial(ctx context.Context, subject records.Subject, to tunnel.Target) (net.Conn, error)
	Ask(ctx context.Context, subject records.Subject, path string) (*http.Response, error)
	Connected(subject records.Subject) (since time.Time, ok bool)
	OnTunnel(f func(subject records.Subject, connected bool))
}

// Options of the clusters.
type Options struct {
	State  *state.State
	Hosts  Hosts
	Logger *slog.Logger
	// Now may be nil for the clock.
	Now func() time.Time
	// Budget is what answers may take that are read at the same time; nil is that of the process.
	Budget *answers.Budget
}

// Clusters are the APIs of all clusters that have a control plane.
type Clusters struct {
	Options
	observers []func(records.ClusterKey)

	mu       sync.Mutex
	watchers map[records.ClusterKey]*watcher
	running  sync.WaitGroup
}

// New makes Clusters; nothing happens before Run.
func New(o Options) *Clusters {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Clusters{Options: o, watchers: map[records.ClusterKey]*watcher{}}
	o.Hosts.OnTunnel(func(subject records.Subject, _ bool) { c.tunnelChanged(subject) })
	return c
}

// OnChange calls f whenever what API says of a cluster changed. f must not block. Call
// OnChange before Run.
func (c *Clusters) OnChange(f func(records.ClusterKey)) { c.observers = append(c.observers, f) }

// OnReach calls f whenever a cluster's API answers that did not before. f must not block. Call OnReach before Run.
func (c *Clusters) OnReach(f func(records.ClusterKey)) {
	var mu sync.Mutex
	reached := map[records.ClusterKey]bool{}
	c.OnChange(func(key records.ClusterKey) {
		is := c.API(key).Reachable
		mu.Lock()
		was := reached[key]
		if reached[key] = is; !is {
			delete(reached, key)
		}
		mu.Unlock()
		if is && !was {
			f(key)
		}
	})
}

func (c *Clusters) changed(key records.ClusterKey) {
	for _, f := range c.observers {
		f(key)
	}
}

// Run watches until ctx ends. It returns no error.
func (c *Clusters) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	signal := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	defer c.State.Clusters.Observe(func(e store.Event[records.Cluster]) {
		is := e.Type == store.Put && c.watched(store.Document[records.Cluster]{Key: e.Key, Value: e.Value})
		if is != (c.watcher(records.ClusterKey(e.Key)) != nil) { // each look is at all clusters
			signal()
		}
	})()
	defer c.State.Machines.Observe(func(e store.Event[records.Machine]) {
		if c.machineChanged(e) {
			signal()
		}
	})()
	defer c.State.RKEStates.Observe(func(e store.Event[records.RKEState]) {
		if w := c.watcher(records.ClusterKey(e.Key)); w != nil {
			w.poke() // its API may answer from now on, or its credentials are others
			return
		}
		signal()
	})()
	defer c.State.ClusterAgents.Observe(func(e store.Event[records.ClusterAgent]) {
		if w := c.watcher(records.ClusterKey(e.Key)); w != nil && e.Type != store.Deleted {
			w.announced()
			w.move()
			return
		}
		signal()
	})()
	for {
		c.match(ctx)
		select {
		case <-ctx.Done():
			c.running.Wait()
			return nil
		case <-wake:
		}
	}
}

// machineChanged has the cluster's watcher look at what may concern it, and says whether there are other control planes than
// before. Thousands of workers may come at once, and none of them changes where an API is.
func (c *Clusters) machineChanged(e store.Event[records.Machine]) (others bool) {
	was, is := e.Old != nil && e.Old.Roles.ControlPlane, e.Type != store.Deleted && e.Value.Roles.ControlPlane
	if was != is {
		return true
	}
	w := c.watcher(e.Value.Cluster())
	if !is || w == nil {
		return false
	}
	if e.Old.Deleting.IsZero() != e.Value.Deleting.IsZero() {
		w.move()
	}
	if was, is := e.Old.Status, e.Value.Status; was.State != is.State || was.WaitingFor != is.WaitingFor {
		// Its API may answer from now on: its installer has ended, or one more probe is healthy.
		w.poke()
	}
	return false
}

// match has one watcher for each cluster with a control-plane machine or an agent, and none for others.
func (c *Clusters) match(ctx context.Context) {
	c.mu.Lock() // from before the look on, or what changes meanwhile is compared with watchers that go or come
	defer c.mu.Unlock()
	wanted := map[records.ClusterKey]bool{}
	for _, cluster := range c.State.Clusters.List() {
		key := records.ClusterKey(cluster.Key)
		wanted[key] = c.watched(cluster)
	}
	for key, w := range c.watchers {
		if !wanted[key] {
			w.cancel()
			delete(c.watchers, key)
		}
	}
	for key, wants := range wanted {
		cluster, ok := c.State.Clusters.Get(string(key))
		if !ok || !wants || c.watchers[key] != nil {
			continue
		}
		watchCtx, cancel := context.WithCancel(ctx)
		w := &watcher{
			clusters: c, key: key, runtime: string(versions.RuntimeOf(cluster.Value.Spec.KubernetesVersion)), cancel: cancel,
			wake: make(chan struct{}, 1), moves: make(chan struct{}, 1), changes: make(chan struct{}), api: observed.API{Cause: "the server has not asked yet"},
		}
		c.watchers[key] = w
		c.running.Go(func() { w.run(watchCtx) })
	}
}

// hasAPI says whether a cluster may have a Kubernetes API: one of Docker hosts has none before something was deployed there.
func (c *Clusters) hasAPI(cluster store.Document[records.Cluster]) bool {
	if !cluster.Value.Spec.Docker() {
		return true
	}
	_, deployed := c.State.RKEStates.Get(cluster.Key)
	return deployed
}

func (c *Clusters) watcher(key records.ClusterKey) *watcher {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watchers[key]
}

var errNoAgent = errors.New("no agent of the cluster has come yet")

// API is what is seen of a cluster now.
func (c *Clusters) API(key records.ClusterKey) observed.API {
	w := c.watcher(key)
	if w == nil {
		return observed.API{Cause: c.unreached(key).Error()}
	}
	return w.snapshot()
}

// Client is the way to a cluster's API for requests of the server's own, each of which has an
// answer within seconds or fails. It may lead through another host the next time, so that it
// is not to be kept. The error says why there is none, as API does.
func (c *Clusters) Client(key records.ClusterKey) (kubernetes.Interface, error) {
	connection, err := c.connection(key)
	if err != nil {
		return nil, err
	}
	return connection.client, nil
}

// connection is the one that works now; the error is an UnavailableError.
func (c *Clusters) connection(key records.ClusterKey) (*connection, error) {
	w := c.watcher(key)
	if w == nil {
		return nil, &UnavailableError{Cause: c.unreached(key).Error()}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.connection == nil {
		return nil, &UnavailableError{Cause: w.api.Cause}
	}
	return w.connection, nil
}

// UnavailableError says that a cluster's API cannot be reached now, and why.
type UnavailableError struct{ Cause string }

func (e *UnavailableError) Error() string { return e.Cause }

// tunnelChanged has the cluster of a machine looked at, whose tunnel came or went.
func (c *Clusters) tunnelChanged(subject records.Subject) {
	var key records.ClusterKey
	if id, ok := subject.ClusterID(); ok {
		d, _ := c.State.ClustersByID.First(id)
		key = records.ClusterKey(d.Key)
	} else if d, ok := c.State.Machines.Get(string(subject.Machine())); ok {
		key = d.Value.Cluster()
	}
	if w := c.watcher(key); w != nil {
		w.poke()
		w.move()
	}
}

// CA is the CA of a cluster's API in PEM. It is empty until the cluster was reached once since the server began; that of a
// cluster of RKE1 is in its state.
func (c *Clusters) CA(key records.ClusterKey) []byte {
	if d, ok := c.State.RKEStates.Get(string(key)); ok {
		config, err := rke1Credentials(key, d.Value)
		if err != nil {
			return nil // without credentials no request has reached it either
		}
		return config.CAData
	}
	w := c.watcher(key)
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ca
}
