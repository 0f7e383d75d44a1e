// Keeping the rights of all clusters, and the secrets of projects, which go where the namespaces of a project are: one loop
// for each, which looks when a binding, a role, a user, a secret or a namespace changes, when the cluster comes back, and
// now and then whether somebody has changed something there. A cluster that hangs holds no other one.

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

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/server/downstream/projectsecrets"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
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
	// retryFirst and retryLast are the pauses after a failure.
	retryFirst = time.Second
	retryLast  = time.Minute
)

// Options of a Keeper. All are required.
type Options struct {
	// Clusters are all clusters, with their management IDs.
	Clusters func() map[records.ClusterKey]string
	// Bindings are those of a cluster and its projects, and those of the server.
	Bindings func(clusterID string) []roles.Binding
	Find     roles.Lookup
	Projects Projects
	// Secrets are those of the projects of a cluster, which are copied into the projects' namespaces.
	Secrets func(clusterID string) []records.ProjectSecret
	// Reports says whether what somebody changes by hand is reported, by Differs, and stays, instead of being put back.
	Reports func() bool
	// Differs gets what was changed by hand in a cluster, and what of somebody is in the way there, after each look; nil for nothing.
	Differs func(ctx context.Context, cluster records.ClusterKey, what []string) error
	// User is the ID of the user whom a principal stands for; false for one who is gone or disabled.
	User func(principal string) (id string, ok bool)
	// Uses says whether a user may use the cluster of a management ID.
	Uses func(userID, clusterID string) bool
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

	mu    sync.Mutex
	ctx   context.Context // of the present period of work; nil when there is none
	loops map[records.ClusterKey]*loop
	done  sync.WaitGroup
}

// loop is what keeps one cluster.
type loop struct {
	key  records.ClusterKey
	id   string
	wake chan struct{}
	end  context.CancelFunc
	// had is what was wanted when the cluster was looked at last; that and the marks are those of the loop alone.
	had Had
	marks
	// reached is what was last heard of the cluster's API, and kept how many objects should be in it; the keeper's mutex guards both.
	reached bool
	kept    int
}

// NewKeeper makes a Keeper; nothing happens before Start.
func NewKeeper(o Options) *Keeper { return &Keeper{Options: o, warnAbove: many} }

// Start keeps the rights until ctx ends; wait is for after that.
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

// Match has a loop for each cluster that there is, and none for others.
func (k *Keeper) Match() {
	clusters := k.Clusters()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx == nil || k.ctx.Err() != nil {
		return
	}
	for key, l := range k.loops {
		if clusters[key] != l.id {
			l.end()
			delete(k.loops, key)
		}
	}
	for key, id := range clusters {
		if k.loops[key] != nil {
			continue
		}
		ctx, end := context.WithCancel(k.ctx)
		l := &loop{key: key, id: id, wake: make(chan struct{}, 1), end: end, marks: marks{putBack: map[string]time.Time{}}}
		l.poke()
		k.loops[key] = l
		k.done.Go(func() { k.keep(ctx, l) })
		k.done.Go(func() { k.follow(ctx, l) })
	}
}

// Reached says whether a cluster's API can be reached now; one that comes back is looked at soon.
func (k *Keeper) Reached(key records.ClusterKey, is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.loops[key]
	if l == nil {
		return
	}
	if is && !l.reached {
		l.poke()
	}
	l.reached = is
}

// LookByID has the cluster of a management ID looked at soon, all clusters for "".
func (k *Keeper) LookByID(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.loops {
		if id == "" || l.id == id {
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
	next := lookEvery
	for {
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
			log.Info("rights or secrets in a cluster changed", "change", change)
		}
		switch {
		case err == nil:
			pause.Reset()
			if next = lookEvery; len(l.fresh) > 0 {
				next = settle
			}
		case ctx.Err() != nil:
			return
		default:
			log.Debug("rights or secrets not brought to a cluster", "error", err)
			next = pause.Next()
		}
	}
}

// look brings a cluster to what should be there.
func (k *Keeper) look(ctx context.Context, l *loop) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	client, err := k.Client(l.key)
	if err != nil {
		return nil, err
	}
	namespaces, err := k.namespaces(ctx, client, l)
	if err != nil {
		return nil, err
	}
	want := Wanted(Snapshot{Bindings: k.Bindings(l.id), Find: k.Find, User: k.User, Namespaces: namespaces})
	copies := projectsecrets.Wanted(k.Secrets(l.id), namespaces)
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
	copied, taken, err := projectsecrets.Sync(ctx, client, copies)
	changes := append(done.Changes, copied...)
	if err != nil {
		return changes, err
	}
	if err := k.Differs(ctx, l.key, slices.Concat(done.Differs, taken, l.reported())); err != nil {
		return changes, err
	}
	return changes, k.Sweep(ctx, l.key, func(userID string) bool { return k.Uses(userID, l.id) })
}

// count remembers how many objects a cluster should have, and warns once when they have become many.
func (k *Keeper) count(l *loop, n int) {
	k.mu.Lock()
	before := l.kept
	l.kept = n
	k.mu.Unlock()
	if n > k.warnAbove && before <= k.warnAbove {
		k.Logger.Warn("many objects are kept in a cluster for people's rights: give roles to groups instead of to each of their people, or have fewer namespaces in a project",
			"cluster", string(l.key), "objects", n, "warned_above", k.warnAbove)
	}
}

// Kept is how many objects each cluster should have for people's rights, of those that have any; nothing of a keeper that rests.
func (k *Keeper) Kept() map[records.ClusterKey]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx == nil || k.ctx.Err() != nil {
		return nil
	}
	all := map[records.ClusterKey]int{}
	for key, l := range k.loops {
		if l.kept > 0 {
			all[key] = l.kept
		}
	}
	return all
}

// follow has a cluster looked at when one of its namespaces comes, goes, or moves to another project.
func (k *Keeper) follow(ctx context.Context, l *loop) {
	for pause := (backoff.Backoff{Min: retryFirst, Max: retryLast, Floor: 0.5}); ; {
		if err := k.watch(ctx, l); err == nil {
			pause.Reset()
		}
		if backoff.Wait(ctx, pause.Next()) != nil {
			return
		}
	}
}

func (k *Keeper) watch(ctx context.Context, l *loop) error {
	client, err := k.Client(l.key)
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
			l.poke()
		}
	}
	return nil
}
