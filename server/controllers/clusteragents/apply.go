// Bringing agents to clusters, and taking them out.

package clusteragents

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/server/clusteragents"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
)

const (
	// repairEvery is how often what is deployed is put back though the server wants nothing else.
	repairEvery = 15 * time.Minute
	// fieldManager owns what the server applies.
	fieldManager = "drover"
)

// kept is what was deployed last, and when.
type kept struct {
	print [sha256.Size]byte
	at    time.Time
}

// due is what is to be done in a cluster; nil for nothing.
func (c *Controller) due(cluster records.Cluster) func(context.Context, records.Cluster, kubernetes.Interface) error {
	is, known := c.Agents.State.ClusterAgents.Get(cluster.Key())
	switch wants(cluster, known, is.Value, c.Agents.Settings.Get(Setting).Value) {
	case cleaning:
		return c.clean
	case deploying:
		return c.deploy
	case nothing:
	}
	return nil
}

// deploy brings the agent to a cluster.
func (c *Controller) deploy(ctx context.Context, cluster records.Cluster, client kubernetes.Interface) error {
	server := c.Agents.Settings.ServerURL()
	if server == "" {
		return nil
	}
	key, namespace, token := records.ClusterKey(cluster.Key()), "", ""
	if cluster.Spec.Imported() {
		d, ok := c.Agents.State.RegistrationTokens.Get(cluster.ID + "/" + registration.DefaultToken)
		if !ok {
			return nil
		}
		token = d.Value.Token
	} else {
		is, err := c.expect(ctx, cluster)
		if err != nil {
			return err
		}
		namespace, token = cluster.ID, is.Secret
	}
	objects := clusteragents.Objects(c.Agents.Manifest(cluster, server, token, namespace))
	text, err := json.Marshal(objects)
	if err != nil {
		return fmt.Errorf("write the manifest of the cluster agent: %w", err)
	}
	now := kept{sha256.Sum256(text), c.Agents.Now()}
	c.mu.Lock()
	last := c.done[key]
	c.mu.Unlock()
	if last.print == now.print && now.at.Sub(last.at) < repairEvery {
		return nil
	}
	if cluster.Spec.Imported() {
		if err := c.follow(ctx, key, client); err != nil {
			return err
		}
	}
	for _, o := range objects {
		if err := apply(ctx, client, o); err != nil {
			return err
		}
	}
	if last.print != now.print {
		c.Agents.Logger.Info("agent deployed", "cluster", key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = map[records.ClusterKey]kept{}
	}
	c.done[key] = now
	return nil
}

// expect keeps what an agent that the server deploys has to prove itself by: the authority of the cluster, as the server knows it by
// itself, and a token that hosts do not have.
func (c *Controller) expect(ctx context.Context, cluster records.Cluster) (records.ClusterAgent, error) {
	ca := string(c.Authority(records.ClusterKey(cluster.Key())))
	d, known := c.Agents.State.ClusterAgents.Get(cluster.Key())
	next := d.Value
	if ca != "" {
		next.CA = ca
	}
	if next.Secret == "" {
		next.Secret = randomid.Secret()
	}
	switch {
	case next.CA == "":
		return next, errors.New("the authority of the API server is not known yet")
	case next == d.Value:
		return next, nil
	case known:
		d.Value = next
		_, err := c.Agents.State.ClusterAgents.Update(ctx, d)
		return next, err
	}
	_, err := c.Agents.State.ClusterAgents.Create(ctx, cluster.Key(), next)
	return next, err
}

// follow adds to the pinned authorities of an imported cluster those that the cluster itself says it has beside them: that is how
// another one is brought. The client leads to an API that has proved to be of the pinned ones.
func (c *Controller) follow(ctx context.Context, key records.ClusterKey, client kubernetes.Interface) error {
	found, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, clusteragents.RootCA, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the authorities of the API server: %w", err)
	}
	d, known := c.Agents.State.ClusterAgents.Get(string(key))
	next := clusteragents.Follow(d.Value.CA, found.Data["ca.crt"])
	if !known || next == d.Value.CA {
		return nil
	}
	d.Value.CA = next
	_, err = c.Agents.State.ClusterAgents.Update(ctx, d)
	return err
}

// apply makes one object what it should be; what others have put to it stays.
func apply(ctx context.Context, client kubernetes.Interface, object map[string]any) error {
	path, err := clusteragents.PathOf(object)
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
func (c *Controller) clean(ctx context.Context, cluster records.Cluster, client kubernetes.Interface) error {
	key := records.ClusterKey(cluster.Key())
	if err := c.Clear(ctx, key, client); err != nil {
		return fmt.Errorf("remove what lets people in: %w", err)
	}
	home, err := client.CoreV1().Namespaces().Get(ctx, clusteragents.Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("read namespace %s: %w", clusteragents.Namespace, err)
	default:
		if err := c.leave(ctx, client, home); err != nil {
			return err
		}
	}
	now := c.Agents.Now().UTC()
	_, err = c.Agents.State.ClusterAgents.Modify(ctx, string(key), func(a records.ClusterAgent) (records.ClusterAgent, error) {
		a.Cleaned = now
		return a, nil
	})
	if err == nil {
		c.Agents.Logger.Info("what was deployed in an imported cluster is removed", "cluster", key)
	}
	return err
}

// leave deletes the agent's namespace, and makes it the owner of the agent's rights before, which end with it then.
func (c *Controller) leave(ctx context.Context, client kubernetes.Interface, home *corev1.Namespace) error {
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: home.Name, UID: home.UID}}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": owner}})
	if err != nil {
		return fmt.Errorf("remove the agent: %w", err)
	}
	for _, path := range clusteragents.ClusterWide() {
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
