// The controller of the rights in all clusters, and of the secrets of projects, which go where the namespaces of a project are: a
// cluster is looked at when a binding, a role, a user, a secret or a namespace changes, when the cluster comes back, and each quarter
// of an hour, as objects may be changed in the cluster.

package rights

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const (
	// lookEvery is when a cluster is looked at though nothing has changed at the server.
	lookEvery = 15 * time.Minute
	// gather is how long changes are waited for that come together.
	gather = 100 * time.Millisecond
	// lookLimit bounds one look, watchLimit one watch of namespaces.
	lookLimit  = time.Minute
	watchLimit = 5 * time.Minute
	// maxKnown bounds what one watch remembers, in bytes: twenty thousand changes. perKnown is what each takes beside its texts.
	maxKnown = 4 << 20
	perKnown = 100
	// many is how many objects of a cluster are worth a warning: each look lists them all, and each binding in a project is one in each of
	// its namespaces.
	many = 1000
)

// Stored is what the server keeps of clusters and of who may what in them.
type Stored interface {
	// Staying are all clusters that stay, and Cluster is the management ID of such a cluster; false when there is none of that key.
	Staying() []records.ClusterKey
	Cluster(records.ClusterKey) (id string, ok bool)
	// Bindings are those of a cluster and its projects, and those of the server.
	Bindings(clusterID string) []roles.Binding
	// Secrets are those of the projects of a cluster, which are copied into the projects' namespaces.
	Secrets(clusterID string) []records.ProjectSecret
	// EnabledUser is the ID of the user whom a principal stands for; false for one who is gone or disabled.
	EnabledUser(principal string) (id string, ok bool)
	// Uses says whether a user may use the cluster of a management ID.
	Uses(userID, clusterID string) bool
	// Differs gets what was changed by hand in a cluster, and which objects of other owners are in the way there, after each look; nil for
	// nothing.
	Differs(ctx context.Context, cluster records.ClusterKey, what []string) error
}

// Options of a Keeper. All are required.
type Options struct {
	Stored   Stored
	Find     roles.Lookup
	Projects Projects
	// Reports says whether what a user of the cluster changes by hand is reported, by Stored.Differs, and stays, instead of being put back.
	Reports func() bool
	// Client is the way to a cluster with the rights of its administrator; the error says why there is none.
	Client func(records.ClusterKey) (kubernetes.Interface, error)
	// Sweep removes the accounts of those who may not use a cluster any more.
	Sweep  func(ctx context.Context, cluster records.ClusterKey, stays func(userID string) bool) error
	Logger *slog.Logger
}

// Keeper keeps the rights of all clusters.
type Keeper struct {
	Options
	// warnAbove is many, but in tests.
	warnAbove int

	mu   sync.Mutex
	kept map[records.ClusterKey]*kept
}

// kept is what the last look at a cluster found and left.
type kept struct {
	key records.ClusterKey
	id  string
	had Had
	marks
	// objects is how many should be in the cluster; the keeper's mutex guards it.
	objects int
}

// NewKeeper makes a Keeper; nothing happens before its worker runs.
func NewKeeper(o Options) *Keeper { return &Keeper{Options: o, warnAbove: many} }

// Watches are what the rights in clusters depend on: keys are those of clusters.
func Watches(s *state.State) []reconcile.Watch {
	roleWatches, of := RoleWatches(s)
	return append(roleWatches,
		reconcile.Documents(s.Clusters, func(e store.Event[records.Cluster], q reconcile.Queue) {
			if e.Type == store.Deleted || e.Old == nil || e.Old.Deleting.IsZero() != e.Value.Deleting.IsZero() {
				q.Add(e.Key)
			}
		}),
		reconcile.Documents(s.Namespaces, func(e store.Event[records.NamespacePage], q reconcile.Queue) { of(q, records.ClusterOfPage(e.Key)) }),
		reconcile.Documents(s.Projects, func(e store.Event[records.Project], q reconcile.Queue) { of(q, e.Value.ClusterID) }),
		reconcile.Documents(s.ProjectSecrets, func(e store.Event[records.ProjectSecret], q reconcile.Queue) {
			of(q, roles.ClusterOf(e.Value.ProjectID))
		}),
		reconcile.Documents(s.Settings, func(e store.Event[records.Setting], q reconcile.Queue) {
			if e.Key == settings.RightsByHand {
				q.AddAll()
			}
		}),
		reconcile.Documents(s.Users, func(e store.Event[records.User], q reconcile.Queue) {
			if e.Type == store.Deleted || e.Old == nil || e.Old.Disabled != e.Value.Disabled || !slices.Equal(e.Old.Principals(), e.Value.Principals()) {
				q.AddAll()
			}
		}))
}

// RoleWatches are the roles and who has them, for workers whose keys are those of clusters. of has the cluster of a management ID
// looked at, and all for none.
func RoleWatches(s *state.State) (watches []reconcile.Watch, of func(q reconcile.Queue, clusterID string)) {
	of = func(q reconcile.Queue, clusterID string) {
		if clusterID == "" {
			q.AddAll()
		} else if d, ok := s.ClustersByID.First(clusterID); ok {
			q.Add(d.Key)
		}
	}
	anywhere := func(_ store.Event[roles.Role], q reconcile.Queue) { q.AddAll() }
	return []reconcile.Watch{
		reconcile.Documents(s.RoleTemplates, anywhere), reconcile.Documents(s.GlobalRoles, anywhere),
		reconcile.Documents(s.Bindings, func(e store.Event[roles.Binding], q reconcile.Queue) {
			of(q, e.Value.ClusterID)
			if e.Old != nil && e.Old.ClusterID != e.Value.ClusterID {
				of(q, e.Old.ClusterID)
			}
		}),
	}, of
}

// Worker brings each cluster to what should be there. A cluster that hangs holds no other one.
func (k *Keeper) Worker(watches ...reconcile.Watch) reconcile.Worker {
	return reconcile.Worker{
		Name: "rights", Title: "keeps in each cluster what people may do there, and the secrets of projects",
		Watches: watches, Keys: k.keys, Start: k.start, Reconcile: k.Reconcile, Follow: k.follow,
		Resync: lookEvery, Gather: gather, Limit: lookLimit,
	}
}

// start forgets what an earlier leader of this process knew.
func (k *Keeper) start(context.Context) (stop func()) {
	reset := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.kept = map[records.ClusterKey]*kept{}
	}
	reset()
	return reset
}

func (k *Keeper) keys() (all []string) {
	for _, key := range k.Stored.Staying() {
		all = append(all, string(key))
	}
	return all
}

// of is what is kept of a cluster that is there.
func (k *Keeper) of(key records.ClusterKey, id string) *kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.kept[key]; c != nil && c.id == id {
		return c
	}
	c := &kept{key: key, id: id, marks: marks{putBack: map[string]time.Time{}}}
	k.kept[key] = c
	return c
}

// Reconcile brings a cluster to what should be there. The errors are those of the cluster's API.
func (k *Keeper) Reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	key := records.ClusterKey(name)
	id, ok := k.Stored.Cluster(key)
	if !ok {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.kept, key)
		return reconcile.Result{Gone: true}, nil
	}
	client, err := k.Client(key)
	if err != nil {
		return reconcile.Result{Wait: &reconcile.Wait{Object: "cluster " + name, Cause: err.Error()}}, nil
	}
	c := k.of(key, id)
	changes, err := k.look(ctx, client, c)
	for _, change := range changes {
		k.Logger.Info("rights or secrets in a cluster changed", "cluster", name, "change", change)
	}
	if err == nil && len(c.fresh) > 0 {
		return reconcile.Result{After: settle}, nil
	}
	return reconcile.Result{}, err
}

// look brings a cluster to what should be there.
func (k *Keeper) look(ctx context.Context, client kubernetes.Interface, l *kept) ([]string, error) {
	namespaces, err := k.namespaces(ctx, client, l)
	if err != nil {
		return nil, err
	}
	want := Desired(Snapshot{Bindings: k.Stored.Bindings(l.id), Find: k.Find, User: k.Stored.EnabledUser, Namespaces: namespaces})
	copies := wantedCopies(k.Stored.Secrets(l.id), namespaces)
	k.count(l, len(want.ClusterRoles)+len(want.Bindings)+len(copies))
	var done Outcome
	if k.Reports() {
		done, err = Report(ctx, client, want, l.had)
	} else {
		done, err = Sync(ctx, client, want)
	}
	if err != nil {
		return done.Changes, err
	}
	l.had = done.Had
	copied, taken, err := syncCopies(ctx, client, copies)
	changes := append(done.Changes, copied...)
	if err != nil {
		return changes, err
	}
	if err := k.Stored.Differs(ctx, l.key, slices.Concat(done.Differs, taken, l.reported())); err != nil {
		return changes, err
	}
	return changes, k.Sweep(ctx, l.key, func(userID string) bool { return k.Stored.Uses(userID, l.id) })
}

// count remembers how many objects a cluster should have, and warns once when they have become many.
func (k *Keeper) count(c *kept, n int) {
	k.mu.Lock()
	before := c.objects
	c.objects = n
	k.mu.Unlock()
	if n > k.warnAbove && before <= k.warnAbove {
		k.Logger.Warn("many objects are kept in a cluster for people's rights: give roles to groups instead of to each of their people, or have fewer namespaces in a project",
			"cluster", string(c.key), "objects", n, "warned_above", k.warnAbove)
	}
}

// Kept is how many objects each cluster should have for people's rights, of those that have any; nothing while the worker does not run.
func (k *Keeper) Kept() map[records.ClusterKey]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[records.ClusterKey]int{}
	for key, c := range k.kept {
		if c.objects > 0 {
			all[key] = c.objects
		}
	}
	return all
}

// follow has a cluster looked at when one of its namespaces comes, goes, or moves to another project.
func (k *Keeper) follow(ctx context.Context, key string, q reconcile.Queue) error {
	client, err := k.Client(records.ClusterKey(key))
	if err != nil {
		return err
	}
	seconds := int64(watchLimit / time.Second)
	ctx, cancel := context.WithTimeout(ctx, watchLimit+lookLimit)
	defer cancel()
	events, err := client.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{TimeoutSeconds: &seconds})
	if err != nil {
		return fmt.Errorf("watch namespaces: %w", err)
	}
	defer context.AfterFunc(ctx, events.Stop)()
	defer events.Stop()
	known, size := map[string]string{}, 0
	for event := range events.ResultChan() {
		namespace, ok := event.Object.(*corev1.Namespace)
		if !ok {
			return fmt.Errorf("watch namespaces: %s", event.Type)
		}
		now := string(event.Type) + " " + namespace.Annotations[ProjectAnnotation]
		if known[namespace.Name] != now {
			if size += perKnown + len(namespace.Name) + len(now); size > maxKnown {
				return errors.New("watch namespaces: more of them change than are followed")
			}
			known[namespace.Name] = now
			q.Add(key)
		}
	}
	return nil
}
