// What is known of snapshots. The distribution lists its snapshots in the cluster's own API, where nobody finds them when
// the cluster is lost; they are kept here too.

package daytwo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/server/planner/ops"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const (
	// every is how often each cluster is asked. Snapshots are taken twice a day, so that a watch would be open for nothing.
	every = 10 * time.Minute
	// askLimit bounds one question.
	askLimit = 15 * time.Second
	// forgetAfter is for how long a snapshot is kept that the cluster does not list any more: after a restore it lists those
	// of then, until it has looked at its directories.
	forgetAfter = time.Hour
	// maxSnapshots bounds what is kept of a cluster.
	maxSnapshots = 500
	// maxPath is how long the name of a file may be, as on Linux, or that of a node.
	maxPath = 4096
	// inS3 is the node that the distribution lists of snapshots in S3.
	inS3 = "s3"
	// listPath is where the distribution lists snapshots. Source: k3s-io/api k3s.cattle.io/v1, ETCDSnapshotFile.
	listPath = "/apis/k3s.cattle.io/v1/etcdsnapshotfiles"
)

// Mirror keeps the records of snapshots.
type Mirror struct {
	State *state.State
	// Client is the way to a cluster's API; the error says why there is none.
	Client func(records.ClusterKey) (kubernetes.Interface, error)
	// Way is the way to buckets, as bucket.Config has it.
	Way    func(*http.Transport)
	Logger *slog.Logger
	Now    func() time.Time

	mu sync.Mutex
	// faults are why buckets did not answer last, by their clusters.
	faults map[records.ClusterKey]string
}

// Worker looks at each cluster again and again, and at once when an operation on it begins or ends, and when its bucket may be another one.
func (m *Mirror) Worker() reconcile.Worker {
	return reconcile.Worker{
		Name: "snapshots", Title: "keeps what clusters and their buckets list of snapshots", Resync: every, AtOnce: 1,
		Keys: reconcile.Keys(m.State.Clusters), Watches: m.watches(), Reconcile: m.reconcile,
	}
}

// reconcile brings to a cluster what it has to know of its bucket, and keeps what is there. What does not answer is asked again with all others.
func (m *Mirror) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	key := records.ClusterKey(name)
	if _, ok := m.State.Clusters.Get(name); !ok {
		return reconcile.Result{Gone: true}, nil
	}
	if err := errors.Join(m.deliver(ctx, key), m.Refresh(ctx, key)); err != nil {
		return reconcile.Result{After: every, Wait: &reconcile.Wait{Object: "snapshots of cluster " + name, Cause: err.Error()}}, nil
	}
	return reconcile.Result{}, nil
}

// listed is what the distribution lists of a snapshot.
type listed struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		SnapshotName string `json:"snapshotName"`
		NodeName     string `json:"nodeName"`
		Location     string `json:"location"`
	} `json:"spec"`
	Status struct {
		Size         *resource.Quantity `json:"size"`
		CreationTime time.Time          `json:"creationTime"`
		Error        *struct {
			Message string `json:"message"`
		} `json:"error"`
	} `json:"status"`
}

// Refresh brings the records of a cluster's snapshots to what the cluster lists, and its bucket. The error says who could not be asked.
func (m *Mirror) Refresh(ctx context.Context, key records.ClusterKey) error {
	d, ok := m.State.Clusters.Get(string(key))
	if !ok || d.Value.Spec.Docker() || d.Value.Spec.Imported() {
		return nil
	}
	items, silent := m.ask(ctx, key)
	f := found{cluster: d.Value, answered: silent == nil, items: items}
	var closed error
	f.objects, f.opened, closed = m.inBucket(ctx, d.Value)
	m.fault(key, closed)
	return errors.Join(silent, closed, m.write(ctx, f))
}

// ask is what a cluster lists.
func (m *Mirror) ask(ctx context.Context, key records.ClusterKey) ([]listed, error) {
	client, err := m.Client(key)
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

// found is what is found of a cluster's snapshots: by the cluster, if it answered, and in its bucket, if that could be opened.
type found struct {
	cluster          records.Cluster
	answered, opened bool
	items            []listed
	objects          []records.Snapshot
}

// snapshots are the records of what was found. Who was in the bucket knows better what is there than the cluster does, but for what
// could not be brought there.
func (m *Mirror) snapshots(f found) []records.Snapshot {
	key := records.NewClusterKey(f.cluster.Namespace, f.cluster.Name)
	machines, all := m.machines(key), f.objects
	secrets, _ := m.State.ClusterSecrets.Get(string(key))
	for _, item := range f.items {
		next, ok := snapshot(key, item, machines)
		if !ok || !next.Presentable() || f.opened && next.Machine == records.SnapshotInS3 && next.Fault == "" || slices.ContainsFunc(f.objects, func(s records.Snapshot) bool { return s.Key() == next.Key() }) {
			continue
		}
		next.Spec = f.cluster.Spec
		// Of an older one the host that restores it finds out which token it needs. What is in S3 may be another cluster's.
		if next.TokenHash == "" && next.Machine != records.SnapshotInS3 && !next.Created.Before(secrets.Value.Made) {
			next.TokenHash = ops.TokenHash(secrets.Value.ServerToken)
		}
		all = append(all, next)
	}
	return all
}

// write keeps what was found, and forgets what has not been for long.
func (m *Mirror) write(ctx context.Context, f found) error {
	key := records.NewClusterKey(f.cluster.Namespace, f.cluster.Name)
	there := map[string]bool{}
	for _, next := range m.snapshots(f) {
		there[next.Key()] = true
		if err := m.keep(ctx, next); err != nil {
			return err
		}
	}
	now := m.Now().UTC()
	for _, d := range m.State.Snapshots.ListIn(string(key) + "/") {
		s := d.Value
		looked := f.answered
		if s.Machine == records.SnapshotInS3 {
			looked = f.answered || f.opened
		}
		var err error
		switch {
		case there[d.Key] || !looked:
		case s.Missing.IsZero() && now.Sub(s.Created) > time.Minute:
			d.Value.Missing = now
			_, err = m.State.Snapshots.Update(ctx, d)
		case !s.Missing.IsZero() && now.Sub(s.Missing) > forgetAfter:
			err = m.State.Snapshots.Delete(ctx, d.Key, d.Revision)
		}
		if err := raced(err); err != nil {
			return fmt.Errorf("keep what is known of snapshot %s: %w", d.Key, err)
		}
	}
	return nil
}

// machines are the names of a cluster's machines by those of their nodes.
func (m *Mirror) machines(key records.ClusterKey) map[string]string {
	names := map[string]string{}
	for _, d := range m.State.MachinesByCluster.Find(key) {
		if d.Value.NodeName != "" {
			names[d.Value.NodeName] = d.Value.Name
		}
		if node := d.Value.Status.Node; node != nil {
			names[node.Name] = d.Value.Name
		}
	}
	return names
}

// snapshot reads what is listed; false for what is of no machine of the cluster.
func snapshot(key records.ClusterKey, item listed, machines map[string]string) (records.Snapshot, bool) {
	s := records.Snapshot{Cluster: key, Node: item.Spec.NodeName, Machine: machines[item.Spec.NodeName], Created: item.Status.CreationTime.UTC()}
	switch file, local := strings.CutPrefix(item.Spec.Location, "file://"); {
	case local:
		s.File = file
	case strings.HasPrefix(item.Spec.Location, "s3://"):
		s.File, s.Machine = item.Spec.Location, records.SnapshotInS3
	default: // one that failed has no place
		s.File = item.Spec.SnapshotName
		if item.Spec.NodeName == inS3 {
			s.Machine = records.SnapshotInS3
		}
	}
	for _, program := range []string{"k3s", "rke2"} {
		if hash := item.Metadata.Annotations["etcd."+program+".cattle.io/snapshot-token-hash"]; tokenHash.MatchString(hash) {
			s.TokenHash = hash
		}
	}
	if item.Status.Size != nil {
		s.Size = max(item.Status.Size.Value(), 0)
	}
	if item.Status.Error != nil && item.Status.Error.Message != "" {
		s.Fault = fmt.Sprintf("%.300s", item.Status.Error.Message)
	}
	return s, len(s.File) <= maxPath && len(s.Node) <= maxPath && s.Machine != "" && s.Name() != "." && s.Name() != ".." && s.Name() != "/"
}

// keep writes a record if it says something new. What is known of who took it, and of the cluster then, stays.
func (m *Mirror) keep(ctx context.Context, next records.Snapshot) error {
	d, known := m.State.Snapshots.Get(next.Key())
	if !known {
		if len(m.State.Snapshots.ListIn(string(next.Cluster)+"/")) >= maxSnapshots {
			return fmt.Errorf("cluster %s has more than %d snapshots, and no more are kept track of", next.Cluster, maxSnapshots)
		}
		_, err := m.State.Snapshots.Create(ctx, next.Key(), next)
		return raced(err)
	}
	if s := d.Value; s.Missing.IsZero() && s.Size == next.Size && s.Fault == next.Fault && s.File == next.File {
		return nil
	}
	d.Value.Missing, d.Value.Size, d.Value.Fault, d.Value.File = time.Time{}, next.Size, next.Fault, next.File
	_, err := m.State.Snapshots.Update(ctx, d)
	return raced(err)
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
