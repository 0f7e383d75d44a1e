// What is known of snapshots. The distribution lists its snapshots in the cluster's own API, where nobody finds them when
// the cluster is lost; they are kept here too.

package daytwo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner/ops"
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
	// listPath is where the distribution lists snapshots. Source: k3s-io/api k3s.cattle.io/v1, ETCDSnapshotFile.
	listPath = "/apis/k3s.cattle.io/v1/etcdsnapshotfiles"
)

// Mirror keeps the records of snapshots.
type Mirror struct {
	State *state.State
	// Client is the way to a cluster's API; the error says why there is none.
	Client func(records.ClusterKey) (kubernetes.Interface, error)
	Logger *slog.Logger
	Now    func() time.Time
}

// Start looks at all clusters again and again until ctx ends, and at one at once when an operation on it took snapshots.
// wait returns when nothing is done any more.
func (m *Mirror) Start(ctx context.Context) (wait func()) {
	hurry := make(chan records.ClusterKey, 16)
	stop := m.State.Operations.Observe(func(e store.Event[operations.Operation]) {
		if e.Type == store.Put && e.Value.Kind == ops.KindSnapshot && e.Value.State.Ended() {
			select {
			case hurry <- records.ClusterKey(e.Value.Subject):
			default: // its turn comes
			}
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			for _, d := range m.State.Clusters.List() {
				m.look(ctx, records.ClusterKey(d.Key))
			}
			for waiting := true; waiting; {
				select {
				case <-ctx.Done():
					return
				case key := <-hurry:
					m.look(ctx, key)
				case <-tick.C:
					waiting = false
				}
			}
		}
	}()
	return func() {
		stop()
		<-done
	}
}

func (m *Mirror) look(ctx context.Context, key records.ClusterKey) {
	if err := m.Refresh(ctx, key); err != nil && ctx.Err() == nil {
		m.Logger.Debug("snapshots not listed", "cluster", key, "error", err)
	}
}

// listed is what the distribution lists of a snapshot.
type listed struct {
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

// Refresh brings the records of a cluster's snapshots to what the cluster lists. The error says why it could not be asked.
func (m *Mirror) Refresh(ctx context.Context, key records.ClusterKey) error {
	d, ok := m.State.Clusters.Get(string(key))
	if !ok || d.Value.Spec.Docker() {
		return nil
	}
	client, err := m.Client(key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	text, err := client.Discovery().RESTClient().Get().AbsPath(listPath).Param("limit", fmt.Sprint(maxSnapshots)).Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("list the snapshots of cluster %s: %w", key, err)
	}
	var list struct {
		Items []listed `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("read the snapshots of cluster %s: %w", key, err)
	}
	return m.write(ctx, d.Value, list.Items)
}

// write keeps what is listed, and forgets what has not been for long.
func (m *Mirror) write(ctx context.Context, cluster records.Cluster, items []listed) error {
	key := records.NewClusterKey(cluster.Namespace, cluster.Name)
	machines := m.machines(key)
	secrets, _ := m.State.ClusterSecrets.Get(string(key))
	there := map[string]bool{}
	for _, item := range items {
		next, ok := snapshot(key, item, machines)
		if !ok {
			continue
		}
		there[next.Key()] = true
		next.TokenHash, next.Spec = ops.TokenHash(secrets.Value.ServerToken), cluster.Spec
		if err := m.keep(ctx, next); err != nil {
			return err
		}
	}
	now := m.Now().UTC()
	for _, d := range m.State.Snapshots.ListIn(string(key) + "/") {
		s := d.Value
		var err error
		switch {
		case there[d.Key]:
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
	}
	if item.Status.Size != nil {
		s.Size = item.Status.Size.Value()
	}
	if item.Status.Error != nil && item.Status.Error.Message != "" {
		s.Fault = fmt.Sprintf("%.300s", item.Status.Error.Message)
	}
	return s, s.Machine != "" && s.Name() != "." && s.Name() != "/"
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
