// The watcher of one cluster: connect, list nodes, watch nodes, and again with
// back-off, or at once when a tunnel came or went.

package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/server/planner"
	"github.com/drover-project/drover/server/records"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// machineLabel is how a node is found, and nothing else: a name can be taken by another host.
const machineLabel = "rke.cattle.io/machine"

const (
	shortestPause = 500 * time.Millisecond
	longestPause  = 15 * time.Second
	// listLimit bounds one question; silenceLimit is how long a watch may say nothing before the
	// API is asked again, since a tunnel that lost its host in silence says nothing either.
	listLimit    = 15 * time.Second
	silenceLimit = 30 * time.Second
)

type watcher struct {
	manager *Manager
	key     string
	runtime string
	cancel  context.CancelFunc
	wake    chan struct{}

	mu         sync.Mutex
	api        planner.API
	connection *connection
	refreshes  int
}

func (w *watcher) snapshot() planner.API {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.api
}

func (w *watcher) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) run(ctx context.Context) {
	pause := shortestPause
	for ctx.Err() == nil {
		started := w.manager.Now()
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		w.lost(err)
		if w.manager.Now().Sub(started) > time.Minute {
			pause = shortestPause
		}
		var noTunnel *NoTunnelError
		wait := pause/2 + rand.N(pause)
		if errors.As(err, &noTunnel) {
			// The tunnel's arrival wakes us; a timer would only ask in vain.
			wait = longestPause
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
			pause = min(pause*2, longestPause)
		case <-w.wake:
			pause = shortestPause
		}
		timer.Stop()
	}
}

// follow connects once and watches until something breaks; it always returns an error.
func (w *watcher) follow(ctx context.Context) error {
	c, err := w.connect(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	defer w.set(nil)
	for {
		nodes, err := w.list(ctx, c)
		if err != nil {
			return fmt.Errorf("ask the Kubernetes API on %s: %w", c.machineKey, withoutURL(err))
		}
		w.set(c)
		if err := w.watch(ctx, c, nodes); err != nil {
			return fmt.Errorf("watch the Kubernetes API on %s: %w", c.machineKey, withoutURL(err))
		}
	}
}

func (w *watcher) list(ctx context.Context, c *connection) (*corev1.NodeList, error) {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	version := w.api.Version
	w.refreshes++
	ask := version == "" || w.refreshes%20 == 0
	w.mu.Unlock()
	if ask {
		info, err := c.client.Discovery().ServerVersion()
		if err != nil {
			return nil, err
		}
		version = info.GitVersion
	}
	byName := map[string]corev1.Node{}
	for _, node := range list.Items {
		byName[node.Name] = node
	}
	w.show(byName, version)
	return list, nil
}

// watch follows the nodes; nil means that the API ended the watch in good order and wants to be asked anew.
func (w *watcher) watch(ctx context.Context, c *connection, list *corev1.NodeList) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	byName := map[string]corev1.Node{}
	for _, node := range list.Items {
		byName[node.Name] = node
	}
	// The API's own limit makes the watch end before we take silence for death.
	seconds := int64(silenceLimit / time.Second)
	events, err := c.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, TimeoutSeconds: &seconds})
	if err != nil {
		return err
	}
	defer events.Stop()
	silence := time.NewTimer(silenceLimit + listLimit)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silence.C:
			return fmt.Errorf("no word for %s", silenceLimit+listLimit)
		case event, ok := <-events.ResultChan():
			if !ok {
				return nil
			}
			node, isNode := event.Object.(*corev1.Node)
			if event.Type == watch.Error || !isNode {
				return nil
			}
			if event.Type == watch.Deleted {
				delete(byName, node.Name)
			} else {
				byName[node.Name] = *node
			}
			w.show(byName, w.snapshot().Version)
		}
	}
}

// show publishes what the API says, and tells when it differs from what was known.
func (w *watcher) show(byName map[string]corev1.Node, version string) {
	api := planner.API{Reachable: true, Version: version, Nodes: map[string]records.NodeRef{}}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		node := byName[name]
		if uid := node.Labels[machineLabel]; uid != "" {
			api.Nodes[uid] = reference(node)
		} else {
			api.Strangers = append(api.Strangers, name)
		}
	}
	w.publish(api)
}

// lost keeps the nodes that were known out of sight: the planner decides what an unreachable API means.
func (w *watcher) lost(err error) {
	w.manager.Logger.Debug("cluster API out of reach", "cluster", w.key, "error", err)
	w.publish(planner.API{Cause: err.Error(), Version: w.snapshot().Version})
}

func (w *watcher) publish(api planner.API) {
	w.mu.Lock()
	same := equal(w.api, api)
	w.api = api
	w.mu.Unlock()
	if !same {
		w.manager.Changed(w.key)
	}
}

func equal(a, b planner.API) bool {
	return a.Reachable == b.Reachable && a.Cause == b.Cause && a.Version == b.Version && slices.Equal(a.Strangers, b.Strangers) &&
		maps.EqualFunc(a.Nodes, b.Nodes, func(x, y records.NodeRef) bool {
			return x.Name == y.Name && x.UID == y.UID && x.ProviderID == y.ProviderID && x.KubeletVersion == y.KubeletVersion &&
				x.Ready == y.Ready && x.NotReady == y.NotReady && slices.Equal(x.Addresses, y.Addresses)
		})
}

func reference(node corev1.Node) records.NodeRef {
	ref := records.NodeRef{
		Name: node.Name, UID: string(node.UID), ProviderID: node.Spec.ProviderID, KubeletVersion: node.Status.NodeInfo.KubeletVersion,
		NotReady: "it has reported no condition Ready",
	}
	for _, a := range node.Status.Addresses {
		ref.Addresses = append(ref.Addresses, a.Address)
	}
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		ref.Ready = c.Status == corev1.ConditionTrue
		ref.NotReady = ""
		if !ref.Ready {
			ref.NotReady = fmt.Sprintf("%s: %s", c.Reason, c.Message)
		}
	}
	return ref
}

func (w *watcher) set(c *connection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connection = c
}

// Transport is the way to a cluster's API for requests of people, with the administrator's
// credentials already on it. The error says why there is none, as API does.
func (m *Manager) Transport(clusterKey string) (http.RoundTripper, error) {
	m.mu.Lock()
	w := m.watchers[clusterKey]
	m.mu.Unlock()
	if w == nil {
		return nil, &UnavailableError{Cause: "no control-plane machine is registered"}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.connection == nil {
		return nil, &UnavailableError{Cause: w.api.Cause}
	}
	return w.connection.transport, nil
}

// UnavailableError says that a cluster's API cannot be reached now, and why.
type UnavailableError struct{ Cause string }

func (e *UnavailableError) Error() string { return e.Cause }
