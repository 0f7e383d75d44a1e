// What the leader does in clusters for their agents: the agent that is there is kept as the server wants it, one is deployed
// where the server provisions and the setting says so, and what was put into an imported cluster that leaves is taken out.

package clusteragents

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/server/clusteragents/manifest"
	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel/connect"
)

// Setting says which clusters have an agent: those that were imported, or All.
const (
	Setting  = "cluster-agent"
	Imported = "imported"
	All      = "all"
)

const (
	// lookEvery is when all clusters are looked at though nothing has changed, lookLimit bounds what is done in one.
	lookEvery = time.Minute
	lookLimit = time.Minute
	// repairEvery is how often what is deployed is put back though the server wants nothing else.
	repairEvery = 15 * time.Minute
	// fieldManager owns what the server applies.
	fieldManager = "drover"
	// rootCA is the ConfigMap in which each namespace has the authority of the API server. Source: Kubernetes 1.20.
	rootCA = "kube-root-ca.crt"
)

// Keeper keeps the agents in the clusters.
type Keeper struct {
	Agents *Agents
	// Client is the way to a cluster with the rights of its administrator; the error says why there is none.
	Client func(records.ClusterKey) (kubernetes.Interface, error)
	// Authority is that of the API of a cluster that the server provisions, in PEM, by its state or its hosts; empty while it is not
	// known.
	Authority func(records.ClusterKey) []byte
	// Clear removes from a cluster what lets people in.
	Clear func(ctx context.Context, key records.ClusterKey, client kubernetes.Interface) error

	mu   sync.Mutex
	done map[records.ClusterKey]kept
}

// kept is what was deployed last, and when.
type kept struct {
	print [sha256.Size]byte
	at    time.Time
}

// NewKeeper makes a Keeper; nothing happens before its worker runs.
func NewKeeper(agents *Agents, client func(records.ClusterKey) (kubernetes.Interface, error), authority func(records.ClusterKey) []byte, clear func(context.Context, records.ClusterKey, kubernetes.Interface) error) *Keeper {
	return &Keeper{
		Agents: agents, Client: client, Authority: authority, Clear: clear, done: map[records.ClusterKey]kept{},
	}
}

// watches are what the agents in clusters depend on: keys are those of clusters.
func (k *Keeper) watches() []reconcile.Watch {
	s := k.Agents.State
	return []reconcile.Watch{
		reconcile.Documents(s.Clusters, func(e store.Event[records.Cluster], q reconcile.Queue) {
			if e.Type == store.Deleted || e.Old == nil || e.Old.Deleting.IsZero() != e.Value.Deleting.IsZero() || e.Old.Status.Initialized != e.Value.Status.Initialized {
				q.Add(e.Key)
			}
		}),
		reconcile.Documents(s.Settings, func(_ store.Event[records.Setting], q reconcile.Queue) { q.AddAll() }),
		reconcile.Documents(s.RegistrationTokens, func(_ store.Event[records.RegistrationToken], q reconcile.Queue) { q.AddAll() }),
	}
}

// Worker keeps the agent of each cluster. A cluster that hangs holds no other one.
func (k *Keeper) Worker(watches ...reconcile.Watch) reconcile.Worker {
	return reconcile.Worker{
		Name: "cluster-agents", Title: "keeps the agents in clusters as the server wants them", Resync: lookEvery, Limit: lookLimit,
		Watches: append(k.watches(), watches...), Reconcile: k.reconcile,
		Keys: reconcile.Keys(k.Agents.State.Clusters),
	}
}

func (k *Keeper) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	d, ok := k.Agents.State.Clusters.Get(name)
	if !ok {
		return reconcile.Result{Gone: true}, nil
	}
	work := k.due(d.Value)
	if work == nil {
		return reconcile.Result{}, nil
	}
	client, err := k.Client(records.ClusterKey(name))
	if err != nil {
		return reconcile.Result{After: lookEvery, Wait: &reconcile.Wait{Object: "the agent in cluster " + name, Cause: err.Error()}}, nil
	}
	return reconcile.Result{}, work(ctx, d.Value, client)
}

// due is what is to be done in a cluster; nil for nothing.
func (k *Keeper) due(c records.Cluster) func(context.Context, records.Cluster, kubernetes.Interface) error {
	is, known := k.Agents.State.ClusterAgents.Get(c.Key())
	switch wants(c, known, is.Value, k.Agents.Settings.Get(Setting).Value) {
	case cleaning:
		return k.clean
	case deploying:
		return k.deploy
	case nothing:
	}
	return nil
}

type want int

const (
	nothing want = iota
	deploying
	cleaning
)

// wants decides what a cluster is to have: by itself, by what is known of its agent, and by the setting.
func wants(c records.Cluster, known bool, is records.ClusterAgent, setting string) want {
	switch {
	case c.Spec.Imported() && !c.Deleting.IsZero():
		if c.Leave.Uninstall && known && is.Cleaned.IsZero() {
			return cleaning
		}
	case !c.Deleting.IsZero(), c.MayChange() != nil:
	case c.Spec.Imported() && is.Ready(), !c.Spec.Imported() && setting == All && c.Status.Initialized && c.Paused == nil:
		return deploying
	}
	return nothing
}

// deploy brings the agent to a cluster.
func (k *Keeper) deploy(ctx context.Context, c records.Cluster, client kubernetes.Interface) error {
	server := k.Agents.Settings.ServerURL()
	if server == "" {
		return nil
	}
	key, namespace, token := records.ClusterKey(c.Key()), "", ""
	if c.Spec.Imported() {
		d, ok := k.Agents.State.RegistrationTokens.Get(c.ID + "/" + registration.DefaultToken)
		if !ok {
			return nil
		}
		token = d.Value.Token
	} else {
		is, err := k.expect(ctx, c)
		if err != nil {
			return err
		}
		namespace, token = c.ID, is.Secret
	}
	objects := manifest.Objects(k.Agents.Manifest(c, server, token, namespace))
	text, err := json.Marshal(objects)
	if err != nil {
		return fmt.Errorf("write the manifest of the cluster agent: %w", err)
	}
	now := kept{sha256.Sum256(text), k.Agents.Now()}
	k.mu.Lock()
	last := k.done[key]
	k.mu.Unlock()
	if last.print == now.print && now.at.Sub(last.at) < repairEvery {
		return nil
	}
	if c.Spec.Imported() {
		if err := k.follow(ctx, key, client); err != nil {
			return err
		}
	}
	for _, o := range objects {
		if err := apply(ctx, client, o); err != nil {
			return err
		}
	}
	if last.print != now.print {
		k.Agents.Logger.Info("agent deployed", "cluster", key)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done[key] = now
	return nil
}

// expect keeps what an agent that the server deploys has to prove itself by: the authority of the cluster, as the server knows it by
// itself, and a token that hosts do not have.
func (k *Keeper) expect(ctx context.Context, c records.Cluster) (records.ClusterAgent, error) {
	ca := string(k.Authority(records.ClusterKey(c.Key())))
	d, known := k.Agents.State.ClusterAgents.Get(c.Key())
	next := d.Value
	if ca != "" {
		next.CA = ca
	}
	if next.Secret == "" {
		next.Secret = random.Secret()
	}
	switch {
	case next.CA == "":
		return next, errors.New("the authority of the API server is not known yet")
	case next == d.Value:
		return next, nil
	case known:
		d.Value = next
		_, err := k.Agents.State.ClusterAgents.Update(ctx, d)
		return next, err
	}
	_, err := k.Agents.State.ClusterAgents.Create(ctx, c.Key(), next)
	return next, err
}

// follow adds to the pinned authorities of an imported cluster those that the cluster itself says it has beside them: that is how
// another one is brought. The client leads to an API that has proved to be of the pinned ones.
func (k *Keeper) follow(ctx context.Context, key records.ClusterKey, client kubernetes.Interface) error {
	found, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, rootCA, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the authorities of the API server: %w", err)
	}
	said, err := connect.Certificates(found.Data["ca.crt"])
	d, known := k.Agents.State.ClusterAgents.Get(string(key))
	if err != nil || !known || len(trusted(d.Value.CA, found.Data["ca.crt"])) == 0 {
		return nil
	}
	next := d.Value
	if next.CA = encode(said, d.Value.CA); next == d.Value {
		return nil
	}
	d.Value = next
	_, err = k.Agents.State.ClusterAgents.Update(ctx, d)
	return err
}

// apply makes one object what it should be; what others have put to it stays.
func apply(ctx context.Context, client kubernetes.Interface, object map[string]any) error {
	path, err := manifest.PathOf(object)
	if err != nil {
		return err
	}
	text, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = client.CoreV1().RESTClient().Patch(types.ApplyPatchType).AbsPath(path).
		Param("fieldManager", fieldManager).Param("force", "true").Body(text).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("apply %s: %w", path, err)
	}
	return nil
}

// clean takes out of a cluster what the server had put there. The agent itself goes last, and with it the way in: what is
// left then goes by itself, since it is owned by the agent's namespace.
func (k *Keeper) clean(ctx context.Context, c records.Cluster, client kubernetes.Interface) error {
	key := records.ClusterKey(c.Key())
	if err := k.Clear(ctx, key, client); err != nil {
		return fmt.Errorf("remove what lets people in: %w", err)
	}
	home, err := client.CoreV1().Namespaces().Get(ctx, manifest.Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("read namespace %s: %w", manifest.Namespace, err)
	default:
		if err := k.leave(ctx, client, home); err != nil {
			return err
		}
	}
	now := k.Agents.Now().UTC()
	_, err = k.Agents.State.ClusterAgents.Modify(ctx, string(key), func(a records.ClusterAgent) (records.ClusterAgent, error) {
		a.Cleaned = now
		return a, nil
	})
	if err == nil {
		k.Agents.Logger.Info("what was deployed in an imported cluster is removed", "cluster", key)
	}
	return err
}

// leave deletes the agent's namespace, and makes it the owner of the agent's rights before, which end with it then.
func (k *Keeper) leave(ctx context.Context, client kubernetes.Interface, home *corev1.Namespace) error {
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: home.Name, UID: home.UID}}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": owner}})
	if err != nil {
		return fmt.Errorf("remove the agent: %w", err)
	}
	for _, path := range manifest.ClusterWide() {
		err := client.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(path).Body(patch).Do(ctx).Error()
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove %s: %w", path, err)
		}
	}
	if err := client.CoreV1().Namespaces().Delete(ctx, home.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove namespace %s: %w", home.Name, err)
	}
	return nil
}
