// Asking clusters and buckets, writing down what they have, and bringing a cluster the settings of its bucket by its API, so that no host and
// no plan has the keys.

package snapshots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/installers/snapshots/bucket"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/snapshotbucket"
	"github.com/drover-project/drover/server/store"
)

const (
	// askLimit bounds one question, and bucketLimit a look into a bucket.
	askLimit    = 15 * time.Second
	bucketLimit = 20 * time.Second
	// managedBy marks the Secret as the server's own.
	managedBy = "app.kubernetes.io/managed-by"
	// listPath is where the distribution lists snapshots. Source: k3s-io/api k3s.cattle.io/v1, ETCDSnapshotFile.
	listPath = "/apis/k3s.cattle.io/v1/etcdsnapshotfiles"
)

// found is what is stored of a cluster and its snapshots, before a host or bucket is asked.
func (c *Controller) found(key records.ClusterKey, cluster records.Cluster) found {
	secrets, _ := c.State.ClusterSecrets.Get(string(key))
	f := found{cluster: cluster, secrets: secrets.Value, machines: map[string]string{}, kept: c.State.Snapshots.ListIn(string(key) + "/")}
	for _, d := range c.State.MachinesByCluster.Find(key) {
		if d.Value.NodeName != "" {
			f.machines[d.Value.NodeName] = d.Value.Name
		}
		if node := d.Value.Status.Node; node != nil {
			f.machines[node.Name] = d.Value.Name
		}
	}
	return f
}

// ask is what a cluster lists.
func (c *Controller) ask(ctx context.Context, key records.ClusterKey) ([]listed, error) {
	client, err := c.Client(key)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	text, err := client.Discovery().RESTClient().Get().AbsPath(listPath).Param("limit", fmt.Sprint(maxSnapshots)).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("list the snapshots of cluster %s: %w", key, err)
	}
	var list struct {
		Items []listed `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read the snapshots of cluster %s: %w", key, err)
	}
	return list.Items[:min(len(list.Items), maxSnapshots)], nil // an API that heeds the limit has no more
}

// inBucket are the snapshots in a cluster's bucket. Opened is false when there is none, when the server has no keys of it, and
// when it does not answer, which the error says.
func (c *Controller) inBucket(ctx context.Context, f found) (all []records.Snapshot, opened bool, err error) {
	place, on, err := etcdops.PlaceOf(c.State, f.cluster)
	if err != nil || !on || place.AccessKey == "" {
		return nil, false, err
	}
	b, err := etcdops.OpenBucket(place, c.Way)
	if err != nil {
		return nil, false, err
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(ctx, bucketLimit)
	defer cancel()
	objects, err := b.List(ctx)
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(objects, func(a, b bucket.Object) int { return b.Changed.Compare(a.Changed) })
	for _, o := range objects {
		s, is, err := c.object(ctx, b, place, f, o)
		if err != nil {
			return nil, false, err
		}
		if is && len(all) < maxSnapshots {
			all = append(all, s)
		}
	}
	return all, true, nil
}

// object is the record of an object; false for an object that is no snapshot. A known object is not asked for again.
func (c *Controller) object(ctx context.Context, b *bucket.Bucket, place snapshotbucket.Place, f found, o bucket.Object) (s records.Snapshot, is bool, err error) {
	s = records.Snapshot{
		Cluster: records.ClusterKey(f.cluster.Key()), Machine: records.SnapshotInS3, Size: o.Size, Created: o.Changed.UTC(),
		File: "s3://" + strings.TrimSuffix(place.Bucket+"/"+place.Folder, "/") + "/" + o.Name,
	}
	if known, ok := c.State.Snapshots.Get(s.Key()); ok && known.Value.Size == o.Size && known.Value.File == s.File && known.Value.Fault == "" {
		return known.Value, true, nil
	}
	details, err := b.Find(ctx, o.Name)
	if err != nil || details == nil {
		return s, false, err
	}
	o.Meta = details.Meta
	if s, is = withContent(s, o); !is {
		return s, false, nil
	}
	return f.descended(s, c.Now()), true, nil
}

// apply writes down what has changed.
func (c *Controller) apply(ctx context.Context, changes []change) error {
	for _, one := range changes {
		var err error
		switch {
		case one.gone:
			err = c.State.Snapshots.Delete(ctx, one.Key, one.Revision)
		case one.Revision == 0:
			_, err = c.State.Snapshots.Create(ctx, one.Key, one.Value)
		default:
			_, err = c.State.Snapshots.Update(ctx, one.Document)
		}
		if err := raced(err); err != nil {
			return fmt.Errorf("keep what is known of snapshot %s: %w", one.Key, err)
		}
	}
	return nil
}

// raced leaves out errors that say that another server was first.
func raced(err error) error {
	_, conflict := errors.AsType[*store.ConflictError](err)
	_, exists := errors.AsType[*store.ExistsError](err)
	_, gone := errors.AsType[*store.NotFoundError](err)
	if conflict || exists || gone {
		return nil
	}
	return err
}

// deliver brings the settings of a cluster's bucket to it, and takes them away when it has none any more.
func (c *Controller) deliver(ctx context.Context, key records.ClusterKey, cluster records.Cluster) error {
	if cluster.Spec.Docker() || cluster.Spec.Imported() || !cluster.Status.Initialized || cluster.MayChange() != nil {
		return nil
	}
	place, on, err := etcdops.PlaceOf(c.State, cluster)
	if err != nil {
		return err
	}
	client, err := c.Client(key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	secrets := client.CoreV1().Secrets(snapshotbucket.SecretNamespace)
	is, err := secrets.Get(ctx, snapshotbucket.SecretName, metav1.GetOptions{})
	none := apierrors.IsNotFound(err)
	switch {
	case none && !on:
		return nil
	case none:
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: snapshotbucket.SecretName, Namespace: snapshotbucket.SecretNamespace, Labels: map[string]string{managedBy: "drover"}}, Data: place.Data(),
		}, metav1.CreateOptions{})
	case err != nil:
	case !on && is.Labels[managedBy] == "drover":
		err = secrets.Delete(ctx, snapshotbucket.SecretName, metav1.DeleteOptions{})
	case on && !maps.EqualFunc(is.Data, place.Data(), slices.Equal):
		is.Data = place.Data()
		_, err = secrets.Update(ctx, is, metav1.UpdateOptions{})
	}
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("write secret %s/%s of cluster %s: %w", snapshotbucket.SecretNamespace, snapshotbucket.SecretName, key, err)
	}
	return nil
}
