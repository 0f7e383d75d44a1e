// Keeping the tokens of all clusters: one loop for each, which looks when something changes at the
// server, when the cluster comes back, and now and then. A cluster that hangs holds no other one.

package authtokens

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/server/records"
)

const (
	// lookEvery is when a cluster is looked at though nothing has changed at the server.
	lookEvery = 15 * time.Minute
	// gather is how long changes are waited for that come together.
	gather = 100 * time.Millisecond
	// lookLimit bounds one look.
	lookLimit = time.Minute
	// retryFirst and retryLast are the pauses after a failure.
	retryFirst = time.Second
	retryLast  = time.Minute
)

// Cluster is one that is kept.
type Cluster struct {
	// ID is its management ID.
	ID string
	// Endpoint says that it has an authorized endpoint.
	Endpoint bool
}

// Options of a Keeper. All are required.
type Options struct {
	// Clusters are all clusters.
	Clusters func() map[records.ClusterKey]Cluster
	// Tokens are all of the server.
	Tokens func() []records.Token
	User   func(id string) (records.User, bool)
	// Uses says whether a user may use the cluster of a management ID.
	Uses func(userID, clusterID string) bool
	// Image is that of kube-api-auth.
	Image func() string
	// Client is the way to a cluster with the rights of its administrator; the error says why there is none.
	Client func(records.ClusterKey) (kubernetes.Interface, error)
	Now    func() time.Time
	Logger *slog.Logger
}

// Keeper keeps the tokens of all clusters.
type Keeper struct {
	Options

	mu    sync.Mutex
	ctx   context.Context // of the present period of work; nil when there is none
	loops map[records.ClusterKey]*loop
	done  sync.WaitGroup
}

// loop is what keeps one cluster. The keeper's mutex guards reached and back.
type loop struct {
	key  records.ClusterKey
	is   Cluster
	wake chan struct{}
	end  context.CancelFunc
	// reached is what was last heard of the cluster's API, and back, that it has come back since it was looked at.
	reached, back bool
	made          made
}

// made is what the last look left in a cluster; nothing that is known to be there is made again before lookEvery.
type made struct {
	image     string
	at        time.Time
	withdrawn bool
}

// NewKeeper makes a Keeper; nothing happens before Start.
func NewKeeper(o Options) *Keeper { return &Keeper{Options: o} }

// Start keeps the tokens until ctx ends; wait is for after that.
func (k *Keeper) Start(ctx context.Context) (wait func()) {
	k.mu.Lock()
	k.ctx, k.loops = ctx, map[records.ClusterKey]*loop{}
	k.mu.Unlock()
	k.Match()
	return func() {
		k.mu.Lock()
		k.ctx = nil
		k.mu.Unlock()
		k.done.Wait()
	}
}

// Match has a loop for each cluster that there is as it is, and none for others.
func (k *Keeper) Match() {
	clusters := k.Clusters()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx == nil || k.ctx.Err() != nil {
		return
	}
	for key, l := range k.loops {
		if is, ok := clusters[key]; !ok || is != l.is {
			l.end()
			delete(k.loops, key)
		}
	}
	for key, is := range clusters {
		if k.loops[key] != nil {
			continue
		}
		ctx, end := context.WithCancel(k.ctx)
		l := &loop{key: key, is: is, wake: make(chan struct{}, 1), end: end}
		l.poke()
		k.loops[key] = l
		k.done.Go(func() { k.keep(ctx, l) })
	}
}

// Reached says whether a cluster's API can be reached now; one that comes back is looked at soon, and whole:
// it may be another than before, out of a snapshot.
func (k *Keeper) Reached(key records.ClusterKey, is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.loops[key]
	if l == nil {
		return
	}
	if is && !l.reached {
		l.back = true
		l.poke()
	}
	l.reached = is
}

// LookByID has the cluster of a management ID looked at soon, all clusters for "".
func (k *Keeper) LookByID(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.loops {
		if id == "" || l.is.ID == id {
			l.poke()
		}
	}
}

func (l *loop) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// keep looks at one cluster again and again.
func (k *Keeper) keep(ctx context.Context, l *loop) {
	log := k.Logger.With("cluster", string(l.key))
	pause := backoff.Backoff{Min: retryFirst, Max: retryLast, Floor: 0.5}
	for next := lookEvery; ; {
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-l.wake:
			timer.Stop()
			if backoff.Wait(ctx, gather) != nil {
				return
			}
		}
		changes, err := k.look(ctx, l)
		for _, change := range changes {
			log.Info("tokens in a cluster changed", "change", change)
		}
		switch {
		case err == nil:
			pause.Reset()
			next = lookEvery
		case ctx.Err() != nil:
			return
		default:
			log.Debug("tokens not brought to a cluster", "error", err)
			next = pause.Next()
		}
	}
}

// look brings a cluster to what should be there. Tokens that have to go do not wait for anything to be deployed.
func (k *Keeper) look(ctx context.Context, l *loop) (changes []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	k.mu.Lock()
	if l.back {
		l.made, l.back = made{}, false
	}
	k.mu.Unlock()
	if !l.is.Endpoint && l.made.withdrawn {
		return nil, nil
	}
	client, err := k.Client(l.key)
	if err != nil {
		return nil, err
	}
	if !l.is.Endpoint {
		changes, err := withdraw(ctx, client)
		l.made.withdrawn = err == nil
		return changes, err
	}
	now := k.Now()
	want := Wanted(Snapshot{
		ClusterID: l.is.ID, Tokens: k.Tokens(), User: k.User, Uses: func(userID string) bool { return k.Uses(userID, l.is.ID) }, Now: now,
	})
	changes, err = Sync(ctx, client, want, now)
	image := k.Image()
	if l.made.image == image && now.Sub(l.made.at) < lookEvery && err == nil {
		return changes, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return changes, err
	}
	if err := deploy(ctx, client, image); err != nil {
		return changes, fmt.Errorf("deploy kube-api-auth: %w", err)
	}
	l.made = made{image: image, at: now}
	return changes, err // not found: the types are there in a moment
}
