// Buckets of S3: a cluster gets the settings of its own by its API, so that no host and no plan has the keys, and what is
// in it is looked up by the server itself, for a cluster that is lost lists nothing.

package daytwo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/installers/snapshots/bucket"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/objects"
	"github.com/drover-project/drover/server/offsite"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner/ops"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/references"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const (
	// bucketLimit bounds a look into a bucket, and stall how long it may say nothing meanwhile.
	bucketLimit = 20 * time.Second
	stall       = 8 * time.Second
	// fresh is how old a snapshot may be for the cluster to be now what it was then, as far as the server knows.
	fresh = time.Hour
	// managedBy marks the Secret as the server's own.
	managedBy = "app.kubernetes.io/managed-by"
)

// tokenHash is the form of ops.TokenHash.
var tokenHash = regexp.MustCompile(`^[0-9a-f]{12}$`)

// taken matches the end of a snapshot's name, which is when it was taken, in seconds since 1970.
var taken = regexp.MustCompile(`-([0-9]{10})(\.zip)?$`)

// PlaceOf is the bucket of a cluster's snapshots, as offsite.Of says it by what is stored.
func PlaceOf(s *state.State, c records.Cluster) (p offsite.Place, on bool, err error) {
	usable := references.Of(c, references.Stored(s))
	return offsite.Of(c, func(key string) (objects.Object, bool) {
		o, ok := usable[key]
		return o, ok
	})
}

// Foreign says that a snapshot in a cluster's bucket may be another cluster's: it is in a folder that is not the cluster's alone, and
// was taken with no server token of the cluster. Those are for people who may read the keys of the bucket (OpensBucket).
func Foreign(s *state.State, c records.Cluster, one records.Snapshot) bool {
	return foreignTo(s, c)(one)
}

func foreignTo(s *state.State, c records.Cluster) func(records.Snapshot) bool {
	tokens := sync.OnceValue(func() []string {
		secrets, _ := s.ClusterSecrets.Get(c.Key())
		return ops.TokenHashes(secrets.Value)
	})
	shared := sync.OnceValue(func() bool {
		place, on, err := PlaceOf(s, c)
		return err != nil || !on || !place.Own
	})
	return func(one records.Snapshot) bool {
		return one.Machine == records.SnapshotInS3 && !slices.Contains(tokens(), one.TokenHash) && shared()
	}
}

// OpensBucket says whether a person may read the keys of a cluster's bucket, and so whatever is in it.
func OpensBucket(s *state.State, who auth.Identity, c records.Cluster) bool {
	return references.OpensBucket(who, c, references.Stored(s))
}

// Known are the snapshots of a cluster as they are stored; foreign has those with it that are Foreign.
func Known(s *state.State, c records.Cluster, foreign bool) []store.Document[records.Snapshot] {
	all := s.Snapshots.ListIn(c.Key() + "/")
	if foreign {
		return all
	}
	is := foreignTo(s, c)
	return slices.DeleteFunc(all, func(d store.Document[records.Snapshot]) bool { return is(d.Value) })
}

// open opens a place. Way is that of bucket.Config.
func open(p offsite.Place, way func(*http.Transport)) (*bucket.Bucket, error) {
	return bucket.Open(bucket.Config{
		Endpoint: p.Endpoint, Bucket: p.Bucket, Region: p.Region, Folder: p.Folder, AccessKey: p.AccessKey, SecretKey: p.SecretKey, CA: p.EndpointCA,
		Lookup: map[string]bucket.Lookup{"dns": bucket.DNS, "path": bucket.Path}[p.BucketLookupType], SkipVerify: p.SkipSSLVerify, Stall: stall,
		Way: way,
	})
}

// watches are what may have changed the snapshots of a cluster, or its bucket.
func (m *Mirror) watches() []reconcile.Watch {
	return []reconcile.Watch{
		reconcile.Documents(m.State.Operations, func(e store.Event[operations.Operation], q reconcile.Queue) {
			if e.Type == store.Put && ops.Is(e.Value.Kind) && (e.Value.State.Ended() || len(e.Value.Tasks) == 0) {
				q.Add(e.Value.Subject)
			}
		}),
		reconcile.Documents(m.State.Clusters, func(e store.Event[records.Cluster], q reconcile.Queue) {
			changed := e.Type != store.Put || e.Old == nil || e.Old.Generation != e.Value.Generation || e.Old.Status.Connected != e.Value.Status.Connected
			if changed && !e.Value.Spec.Docker() && !e.Value.Spec.Imported() {
				q.Add(e.Key)
			}
		}),
		reconcile.Documents(m.State.Objects, func(e store.Event[objects.Object], q reconcile.Queue) {
			for _, d := range m.State.Clusters.List() {
				if slices.Contains(d.Value.Spec.Objects(d.Value.Namespace), e.Key) {
					q.Add(d.Key)
				}
			}
		}),
	}
}

// deliver brings the settings of a cluster's bucket to it, and takes them away when it has none any more.
func (m *Mirror) deliver(ctx context.Context, key records.ClusterKey) error {
	d, ok := m.State.Clusters.Get(string(key))
	if !ok || d.Value.Spec.Docker() || d.Value.Spec.Imported() || !d.Value.Status.Initialized || d.Value.MayChange() != nil {
		return nil
	}
	place, on, err := PlaceOf(m.State, d.Value)
	if err != nil {
		return err
	}
	client, err := m.Client(key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	secrets := client.CoreV1().Secrets(offsite.SecretNamespace)
	is, err := secrets.Get(ctx, offsite.SecretName, metav1.GetOptions{})
	none := apierrors.IsNotFound(err)
	switch {
	case none && !on:
		return nil
	case none:
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: offsite.SecretName, Namespace: offsite.SecretNamespace, Labels: map[string]string{managedBy: "drover"}}, Data: place.Data(),
		}, metav1.CreateOptions{})
	case err != nil:
	case !on && is.Labels[managedBy] == "drover":
		err = secrets.Delete(ctx, offsite.SecretName, metav1.DeleteOptions{})
	case on && !maps.EqualFunc(is.Data, place.Data(), slices.Equal):
		is.Data = place.Data()
		_, err = secrets.Update(ctx, is, metav1.UpdateOptions{})
	}
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("write secret %s/%s of cluster %s: %w", offsite.SecretNamespace, offsite.SecretName, key, err)
	}
	return nil
}

// inBucket are the snapshots in a cluster's bucket. Opened is false when there is none, when the server has no keys of it, and
// when it does not answer, which the error says.
func (m *Mirror) inBucket(ctx context.Context, c records.Cluster) (all []records.Snapshot, opened bool, err error) {
	place, on, err := PlaceOf(m.State, c)
	if err != nil || !on || place.AccessKey == "" {
		return nil, false, err
	}
	b, err := open(place, m.Way)
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
		s, is, err := m.object(ctx, b, place, c, o)
		if err != nil {
			return nil, false, err
		}
		if is && len(all) < maxSnapshots {
			all = append(all, s)
		}
	}
	return all, true, nil
}

// object is the record of an object; false for one that is no snapshot. One that is known is not asked for again.
func (m *Mirror) object(ctx context.Context, b *bucket.Bucket, place offsite.Place, c records.Cluster, o bucket.Object) (s records.Snapshot, is bool, err error) {
	s = records.Snapshot{
		Cluster: records.NewClusterKey(c.Namespace, c.Name), Machine: records.SnapshotInS3, Size: o.Size, Created: o.Changed.UTC(),
		File: "s3://" + strings.TrimSuffix(place.Bucket+"/"+place.Folder, "/") + "/" + o.Name,
	}
	if known, ok := m.State.Snapshots.Get(s.Key()); ok && known.Value.Size == o.Size && known.Value.File == s.File && known.Value.Fault == "" {
		return known.Value, true, nil
	}
	looked, err := b.Find(ctx, o.Name)
	if err != nil || looked == nil {
		return s, false, err
	}
	for name, value := range looked.Meta {
		switch {
		case strings.HasSuffix(name, "-Token-Hash") && tokenHash.MatchString(value):
			s.TokenHash = value
		case strings.HasSuffix(name, "-Node-Name"):
			s.Node = fmt.Sprintf("%.253s", value)
		}
	}
	at := taken.FindStringSubmatch(o.Name)
	if at != nil {
		if seconds, err := strconv.ParseInt(at[1], 10, 64); err == nil {
			s.Created = time.Unix(seconds, 0).UTC()
		}
	}
	if at == nil && s.TokenHash == "" || o.Size == 0 {
		return s, false, nil
	}
	return m.descended(s, c), true, nil
}

// descended completes the record of a snapshot in a bucket by that of the host that took it. What the cluster was when it was
// taken is not known of an old one that nobody has reported.
func (m *Mirror) descended(s records.Snapshot, c records.Cluster) records.Snapshot {
	for _, d := range m.State.Snapshots.ListIn(string(s.Cluster) + "/") {
		if local := d.Value; local.Machine != records.SnapshotInS3 && local.Name() == s.Name() && local.Size == s.Size {
			s.By, s.SHA256, s.Spec, s.Node = local.By, local.SHA256, local.Spec, local.Node
			return s
		}
	}
	if m.Now().Sub(s.Created) < fresh {
		s.Spec = c.Spec
	}
	return s
}

// fault remembers why a cluster's bucket did not answer; nil forgets it.
func (m *Mirror) fault(key records.ClusterKey, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.faults == nil {
		m.faults = map[records.ClusterKey]string{}
	}
	delete(m.faults, key)
	if err != nil {
		m.faults[key] = err.Error()
	}
}

// Fault is why the bucket of a cluster did not answer when it was last asked by this server; empty when it did.
func (m *Mirror) Fault(key records.ClusterKey) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.faults[key]
}

// reachable says whether what is in a cluster's bucket can be had from there.
func (a *Asker) reachable(key records.ClusterKey) error {
	d, ok := a.State.Clusters.Get(string(key))
	if !ok {
		return &store.NotFoundError{Collection: "clusters", Key: string(key)}
	}
	place, on, err := PlaceOf(a.State, d.Value)
	switch {
	case err != nil:
		return err
	case !on:
		return errors.New("the cluster has no bucket any more: give it etcd.s3 again, or copy the file to a host and restore it by its path")
	case place.AccessKey == "":
		return errors.New("the server has no keys of the bucket: give the cluster a cloudCredentialName, or copy the file to a host and restore it by its path")
	}
	if a.Fault != nil {
		if why := a.Fault(key); why != "" {
			return errors.New(why)
		}
	}
	return nil
}

// unknown says of a snapshot that the server does not know what the cluster was when it was taken.
func unknown(s records.Snapshot) bool { return clusterspec.Equal(s.Spec, clusterspec.Spec{}) }

// pick is the one of several snapshots of a name that is restored, and the machine that begins the cluster anew with it. One on the
// host of a machine that is there comes before the same one in S3.
func (a *Asker) pick(c records.Cluster, r ops.Request, known []records.Snapshot) (records.Snapshot, string, error) {
	var local []records.Snapshot
	offsite := -1
	for i, s := range known {
		ok, _ := a.Restorable(s)
		switch {
		case s.Machine == records.SnapshotInS3:
			offsite = i
		case (r.Target == "" || s.Machine == r.Target) && (ok || len(known) == 1):
			local = append(local, s)
		}
	}
	switch {
	case len(local) > 1:
		return records.Snapshot{}, "", invalid("%d machines have a snapshot %s; say which one with --machine", len(local), r.Snapshot)
	case len(local) == 1:
		return local[0], local[0].Machine, nil
	case offsite >= 0:
		target, err := a.target(c, r.Target, known[offsite])
		return known[offsite], target, err
	}
	for _, s := range known {
		if r.Target == "" || s.Machine == r.Target {
			return s, s.Machine, nil // which cannot be restored, and says why
		}
	}
	return records.Snapshot{}, "", invalid("machine %s has no snapshot %s, but others have; leave out --machine, or name one of those", r.Target, r.Snapshot)
}

// target is the machine that begins the cluster anew with a snapshot from S3: the one that is named, the one that took it, or else the
// first by name that has etcd, with a control plane if there is such.
func (a *Asker) target(c records.Cluster, named string, s records.Snapshot) (string, error) {
	best, rank := "", 0
	for _, d := range a.State.MachinesByCluster.Find(records.NewClusterKey(c.Namespace, c.Name)) {
		m := d.Value
		if !m.Roles.Etcd || !m.Deleting.IsZero() {
			continue
		}
		is := 1
		if m.Roles.ControlPlane {
			is = 2
		}
		if m.NodeName != "" && m.NodeName == s.Node {
			is = 3
		}
		if m.Name == named {
			is = 4
		}
		if is > rank || is == rank && m.Name < best {
			best, rank = m.Name, is
		}
	}
	switch {
	case named != "" && rank < 4:
		return "", invalid("cluster %s has no machine %s with etcd", c.Name, named)
	case best == "":
		return "", invalid("cluster %s has no machine with etcd: register a host with drover clusters join-command %s --etcd --controlplane, and restore again", c.Name, c.Name)
	}
	return best, nil
}
