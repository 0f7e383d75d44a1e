// The controller of the tokens in all clusters: a cluster is looked at when something changes at the server, when the cluster comes
// back, and each quarter of an hour.

package authtokens

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/server/controllers/rights"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const (
	// lookEvery is when a cluster is looked at though nothing has changed at the server.
	lookEvery = 15 * time.Minute
	// gather is how long changes are waited for that come together.
	gather = 100 * time.Millisecond
	// lookLimit bounds one look.
	lookLimit = time.Minute
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
	// Clusters are all clusters that stay, and Cluster is such a cluster; false when there is none of that key.
	Clusters func() []records.ClusterKey
	Cluster  func(records.ClusterKey) (Cluster, bool)
	// Tokens are all of the server.
	Tokens func() []records.Token
	User   func(id string) (records.User, bool)
	// Uses says whether a user may use the cluster of a management ID.
	Uses func(userID, clusterID string) bool
	// Image is that of kube-api-auth, which comes from Registry where that is set.
	Image, Registry func() string
	// Client is the way to a cluster with the rights of its administrator; the error says why there is none.
	Client func(records.ClusterKey) (kubernetes.Interface, error)
	Now    func() time.Time
	Logger *slog.Logger
}

// Keeper keeps the tokens of all clusters.
type Keeper struct {
	Options

	mu     sync.Mutex
	states map[records.ClusterKey]*clusterState
}

// clusterState is what the last look left in a cluster; nothing that is known to be there is made again before lookEvery.
type clusterState struct {
	is        Cluster
	image     string
	at        time.Time
	withdrawn bool
}

// NewKeeper makes a Keeper; nothing happens before its worker runs.
func NewKeeper(o Options) *Keeper { return &Keeper{Options: o} }

// Watches are what the tokens in clusters depend on: keys are those of clusters.
func Watches(s *state.State) []reconcile.Watch {
	roleWatches, of := rights.RoleWatches(s) // a user who may not use a cluster any more has no token there
	return append(roleWatches,
		reconcile.Documents(s.Clusters, func(e store.Event[records.Cluster], q reconcile.Queue) {
			if e.Type == store.Deleted || e.Old == nil || e.Old.Generation != e.Value.Generation || e.Old.Deleting.IsZero() != e.Value.Deleting.IsZero() {
				q.Add(e.Key)
			}
		}),
		reconcile.Documents(s.Tokens, func(e store.Event[records.Token], q reconcile.Queue) {
			if e.Value.ClusterID != "" {
				of(q, e.Value.ClusterID)
			}
		}),
		reconcile.Documents(s.Users, func(e store.Event[records.User], q reconcile.Queue) {
			if e.Type == store.Deleted || e.Old == nil || e.Old.Disabled != e.Value.Disabled || !slices.Equal(e.Old.Groups, e.Value.Groups) {
				q.AddAll()
			}
		}),
		reconcile.Documents(s.Settings, func(e store.Event[records.Setting], q reconcile.Queue) {
			if e.Key == "agent-image" || e.Key == "system-default-registry" {
				q.AddAll()
			}
		}))
}

// Worker brings each cluster to what should be there. A cluster that hangs holds no other one.
func (k *Keeper) Worker(watches ...reconcile.Watch) reconcile.Worker {
	return reconcile.Worker{
		Name: "cluster-tokens", Title: "keeps in clusters with an authorized endpoint the tokens that are good there",
		Watches: watches, Keys: k.keys, Start: k.start, Reconcile: k.Reconcile,
		Resync: lookEvery, Gather: gather, Limit: lookLimit,
	}
}

// start forgets what an earlier leader of this process knew.
func (k *Keeper) start(context.Context) (stop func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.states = map[records.ClusterKey]*clusterState{}
	return func() {}
}

func (k *Keeper) keys() (all []string) {
	for _, key := range k.Clusters() {
		all = append(all, string(key))
	}
	return all
}

// CameBack has a cluster looked at whose API can be reached again, and whole: it may be another than before, out of a snapshot.
func (k *Keeper) CameBack(key records.ClusterKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.states, key)
}

// in is what was made in a cluster as it is.
func (k *Keeper) in(key records.ClusterKey, is Cluster) *clusterState {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m := k.states[key]; m != nil && m.is == is {
		return m
	}
	m := &clusterState{is: is}
	k.states[key] = m
	return m
}

// Reconcile brings a cluster to what should be there. The errors are those of the cluster's API.
func (k *Keeper) Reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	key := records.ClusterKey(name)
	is, ok := k.Cluster(key)
	if !ok {
		k.CameBack(key)
		return reconcile.Result{Gone: true}, nil
	}
	m := k.in(key, is)
	if !is.Endpoint && m.withdrawn {
		return reconcile.Result{}, nil
	}
	client, err := k.Client(key)
	if err != nil {
		return reconcile.Result{Wait: &reconcile.Wait{Object: "cluster " + name, Cause: err.Error()}}, nil
	}
	changes, err := k.look(ctx, client, m)
	for _, change := range changes {
		k.Logger.Info("tokens in a cluster changed", "cluster", name, "change", change)
	}
	return reconcile.Result{}, err
}

// look brings a cluster to what should be there. Tokens that have to go do not wait for anything to be deployed.
func (k *Keeper) look(ctx context.Context, client kubernetes.Interface, m *clusterState) (changes []string, err error) {
	if !m.is.Endpoint {
		changes, err := withdraw(ctx, client)
		m.withdrawn = err == nil
		return changes, err
	}
	now := k.Now()
	want := Desired(Snapshot{
		ClusterID: m.is.ID, Tokens: k.Tokens(), User: k.User, Uses: func(userID string) bool { return k.Uses(userID, m.is.ID) }, Now: now,
	})
	changes, err = Sync(ctx, client, want, now)
	image := installers.FromRegistry(k.Registry(), k.Image())
	if m.image == image && now.Sub(m.at) < lookEvery && err == nil {
		return changes, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return changes, err
	}
	if err := deploy(ctx, client, image); err != nil {
		return changes, fmt.Errorf("deploy kube-api-auth: %w", err)
	}
	m.image, m.at = image, now
	return changes, err // not found: the types are there in a moment
}
