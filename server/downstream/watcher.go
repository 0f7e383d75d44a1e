// The watcher of one cluster: connect, reflect its nodes, and again with back-off, or at
// once when a tunnel came or went.

package downstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel/answers"
)

const (
	shortestPause = 500 * time.Millisecond
	longestPause  = 15 * time.Second
	// listLimit bounds one question. watchLimit is how long the API may keep one watch: a
	// tunnel that lost its host in silence says nothing either, so that it is asked again.
	listLimit  = 15 * time.Second
	watchLimit = 30 * time.Second
	// pagesLimit bounds a list of many pages.
	pagesLimit = 2 * time.Minute
	// checkPause is between two questions whether a connection that is used still leads to etcd. checkLimit bounds one of
	// them where the API can be asked on another way; where there is none, nothing is won by impatience.
	checkPause = 10 * time.Second
	checkLimit = 3 * time.Second
)

type watcher struct {
	clusters *Clusters
	key      records.ClusterKey
	runtime  string
	cancel   context.CancelFunc
	wake     chan struct{}
	// moves has something when a connection had better lead another way: a control-plane machine is being removed, or an agent
	// of the cluster has come.
	moves chan struct{}

	mu         sync.Mutex
	api        observed.API
	connection *connection
	// ca is that of the last connection, in PEM, and stays when the connection is lost.
	ca []byte
	// since is when the last connection was lost; changes is closed when it is another one.
	since   time.Time
	changes chan struct{}
	ways    Ways
}

func (w *watcher) snapshot() observed.API {
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

// announced has the watcher look whether what the cluster's agent announced before still works.
func (w *watcher) announced() {
	w.mu.Lock()
	suspect := w.connection
	w.mu.Unlock()
	if suspect != nil {
		select {
		case suspect.doubts <- struct{}{}:
		default:
		}
	}
	w.poke()
}

// move has the watcher look whether its connection had better lead another way.
func (w *watcher) move() {
	select {
	case w.moves <- struct{}{}:
	default:
	}
}

func (w *watcher) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(w.clusters.Logger.With("cluster", w.key).Handler()))
	pause := shortestPause
	for ctx.Err() == nil {
		err := w.connected(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errMoves) {
			continue // the connection is used until the next one is
		}
		if large, ok := errors.AsType[*answers.TooLargeError](err); ok {
			if err = w.bar(large); w.others("") {
				w.use(nil)
				continue // over another way
			}
		}
		shown := w.failed(err)
		if gone, ok := errors.AsType[*silentError](err); ok && w.others(gone.subject) {
			continue // the same: the next one is tried at once
		}
		w.use(nil)
		if w.snapshot().Reachable {
			// A control plane that answered has gone, as one does that restarts; the next one may be well.
			pause = shortestPause
		}
		w.lost(shown)
		wait := pause/2 + rand.N(pause) // #nosec G404 -- spreads load, nothing secret
		if _, ok := errors.AsType[*NoTunnelError](err); ok {
			// The tunnel's arrival wakes us; a timer would only ask in vain.
			wait = longestPause
		}
		if b, ok := errors.AsType[*barredError](err); ok {
			wait = b.Until.Sub(w.clusters.Now())
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

// connected connects once and follows the nodes until something breaks; it always returns an error.
func (w *watcher) connected(ctx context.Context) error {
	subject, err := w.pick()
	if err != nil {
		return err
	}
	c, err := w.connect(ctx, subject)
	if err != nil {
		return err
	}
	defer c.close()
	checked, broken := context.WithCancelCause(ctx)
	var checking sync.WaitGroup
	checking.Go(func() { broken(w.check(checked, c)) })
	checking.Go(func() { broken(w.leave(checked, c)) })
	checking.Go(func() { broken(c.exceeded(checked)) })
	err = w.follow(checked, c)
	if cause := context.Cause(checked); cause != nil {
		err = cause // it is why the nodes were not followed any more
	}
	broken(nil)
	checking.Wait()
	_, silent := errors.AsType[*silentError](err)
	if _, large := errors.AsType[*answers.TooLargeError](err); silent || large {
		c.end(err)
	}
	return err
}

// exceeded waits until an answer was too large.
func (c *connection) exceeded(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case e := <-c.excess:
		return e
	}
}

// bar has the way that was tried last not tried for a while.
func (w *watcher) bar(large *answers.TooLargeError) *barredError {
	w.clusters.Logger.Warn("an answer of a cluster's API is too large", "cluster", w.key, "error", large)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ways.Bar(w.ways.Last, large, w.clusters.Now())
}

// follow reflects the nodes until that breaks.
func (w *watcher) follow(ctx context.Context, c *connection) error {
	all := cache.NewStore(cache.MetaNamespaceKeyFunc)
	var version string
	shown := &nodeStore{Store: all, Changed: func() {
		w.use(c)
		w.publish(seenNodes(all, version, w.identity, w.recorded))
	}, Exceeded: func() { c.tooLarge(c.tooMany()) }}
	reflector := cache.NewReflectorWithOptions(c.nodes(), &corev1.Node{}, shown, cache.ReflectorOptions{Name: string(w.key), TypeDescription: "nodes"})
	for {
		info, err := c.version(ctx)
		if err != nil {
			return fmt.Errorf("ask the Kubernetes API %s: %w", c.place, withoutURL(err))
		}
		version = info
		// It returns nil when the API ended a watch early, and wants to be asked anew.
		if err := reflector.ListAndWatchWithContext(ctx); err != nil {
			return fmt.Errorf("watch the Kubernetes API %s: %w", c.place, withoutURL(err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(shortestPause):
		}
	}
}

// check reads again and again what an API server has to ask etcd for, and returns why it could not. An API server whose
// member of etcd was removed, or has no quorum, listens on and serves watches out of its memory, so that nothing else
// ends a connection to it. An API server that hangs takes connections and says nothing. The error is a silentError.
func (w *watcher) check(ctx context.Context, c *connection) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.doubts:
		case <-time.After(checkPause):
		}
		limit := listLimit
		if w.others(c.subject) {
			limit = checkLimit
		}
		err := c.read(ctx, limit)
		if err != nil {
			err = c.read(ctx, limit) // etcd may have been without a leader for some seconds
		}
		if err != nil {
			return &silentError{subject: c.subject, err: fmt.Errorf("read through the Kubernetes API %s: %w", c.place, withoutURL(err))}
		}
	}
}

// silentError says that a connection leads nowhere, and why.
type silentError struct {
	subject records.Subject
	err     error
}

func (e *silentError) Error() string { return e.err.Error() }

// errMoves ends a connection that another one is better than.
var errMoves = errors.New("the host is being removed, or the cluster's agent has come, and the API answers there")

// leave waits until the host of a connection is being removed and the API answers on another one, or until it answers through the
// cluster's own agent. The API server on a host that is removed outlives its member of etcd, and hangs its callers then.
func (w *watcher) leave(ctx context.Context, c *connection) error {
	for {
		staying, leaving := w.clusters.controlPlanes(w.key)
		var again <-chan time.Time
		agent, wait := w.better(c)
		switch {
		case agent != "" && wait > 0:
			again = time.After(wait)
		case agent != "":
			if w.answers(ctx, agent) {
				w.first()
				return errMoves
			}
			again = time.After(checkPause)
		}
		if slices.Contains(leaving, c.subject) {
			if slices.ContainsFunc(staying, func(s records.Subject) bool { return w.answers(ctx, s) }) {
				return errMoves
			}
			again = time.After(checkPause)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.moves:
		case <-again:
		}
	}
}

// answers says whether the API on a host can be asked.
func (w *watcher) answers(ctx context.Context, subject records.Subject) bool {
	if !w.may(subject) {
		return false
	}
	c, err := w.connect(ctx, subject)
	if err != nil {
		return false
	}
	defer c.close()
	if err = c.read(ctx, listLimit); err == nil {
		return true
	}
	if large, ok := errors.AsType[*answers.TooLargeError](err); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ways.Bar(subject, large, w.clusters.Now())
	}
	return false
}

// read reads something that exists in every cluster, and not from a cache.
func (c *connection) read(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	return err
}

// version is what the API reports of itself.
func (c *connection) version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	info, err := c.client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	return readVersion(info)
}

// lost keeps the nodes that were known out of sight: the planner decides what an unreachable API means.
func (w *watcher) lost(err error) {
	w.clusters.Logger.Debug("cluster API out of reach", "cluster", w.key, "error", err)
	w.publish(observed.API{Cause: err.Error(), Version: w.snapshot().Version})
}

func (w *watcher) publish(api observed.API) {
	w.mu.Lock()
	same := equalAPIs(w.api, api)
	w.api = api
	w.mu.Unlock()
	if !same {
		w.clusters.changed(w.key)
	}
}

func (w *watcher) use(c *connection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.connection != c {
		close(w.changes)
		w.changes = make(chan struct{})
		w.since = w.clusters.Now()
		if w.connection != nil {
			w.connection.end(errReplaced)
		}
	}
	if w.connection = c; c != nil {
		w.ca = c.ca
		w.ways.Worked()
	}
}

// withoutURL takes the made-up URL out of an error, which means nothing to a reader, and what libraries put before the cause.
func withoutURL(err error) error {
	if refused := answers.Refused(err); refused != nil {
		return refused
	}
	if made, ok := errors.AsType[*url.Error](err); ok {
		return made.Err
	}
	return err
}
