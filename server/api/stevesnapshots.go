// Snapshots of etcd of k3s and RKE2, of which dashboards choose the one to restore.

package api

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/steve"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// unfit are characters that names of Kubernetes do not have.
var unfit = regexp.MustCompile(`[^a-z0-9.-]+`)

// maxObjectName is how long a name of Kubernetes may be.
const maxObjectName = 253

// snapshotName is the name of the object of a snapshot: "<cluster>-<local|s3>-<name>-<6 hex>".
func snapshotName(s records.Snapshot) string {
	hash := sha256.Sum256([]byte(s.Key()))
	end := "-" + hex.EncodeToString(hash[:3])
	name := unfit.ReplaceAllString(strings.ToLower(s.Cluster.Name()+"-"+storage(s)+"-"+s.Name()), "-")
	return name[:min(len(name), maxObjectName-len(end))] + end
}

func storage(s records.Snapshot) string {
	if s.Machine == records.SnapshotInS3 {
		return "s3"
	}
	return "local"
}

// snapshots are of clusters that are there. Those in a bucket that may be another cluster's are not among them.
//
// Wire source: rancher/rancher pkg/apis/rke.cattle.io/v1 (ETCDSnapshot).
func snapshots(s *state.State) steve.Type {
	show := func(d store.Document[records.Snapshot]) (steve.Seen, bool) {
		one := d.Value
		cluster, ok := s.Clusters.Get(string(one.Cluster))
		if !ok || etcdops.Foreign(s, cluster.Value, one) {
			return steve.Seen{}, false
		}
		where, file, status, state := one.File, one.Name(), "successful", k8sobjects.Well()
		if strings.HasPrefix(where, "/") {
			where = "file://" + where
		}
		if one.Fault != "" {
			status, state = "failed", k8sobjects.NewSummary(k8sobjects.Failed, "error", one.Fault)
		}
		return steve.Seen{About: auth.In(cluster.Value.ID, auth.EtcdBackup), State: state, Content: map[string]any{
			"apiVersion": "rke.cattle.io/v1", "kind": "ETCDSnapshot",
			"metadata": map[string]any{
				"name": snapshotName(one), "namespace": one.Cluster.Namespace(), "uid": snapshotName(one), "resourceVersion": strconv.FormatInt(d.Revision, 10),
				"creationTimestamp": one.Created.UTC().Format(time.RFC3339),
				"labels":            map[string]string{"rke.cattle.io/cluster-name": one.Cluster.Name(), "rke.cattle.io/machine-name": one.Machine, "rke.cattle.io/node-name": one.Node},
				"annotations":       map[string]string{"etcdsnapshot.rke.io/storage": storage(one), "etcdsnapshot.rke.io/snapshot-file-name": file},
			},
			"spec": map[string]any{"clusterName": one.Cluster.Name()},
			"snapshotFile": map[string]any{
				"name": file, "location": where, "nodeName": one.Node, "createdAt": one.Created.UTC().Format(time.RFC3339), "size": one.Size, "status": status, "message": one.Fault,
			},
			"status": map[string]any{"missing": !one.Missing.IsZero()},
		}}, true
	}
	return steve.Type{
		Schema: steve.Schema{Group: "rke.cattle.io", Version: "v1", Kind: "ETCDSnapshot", Resource: "etcdsnapshots", Namespaced: true},
		Of:     auth.EtcdBackup, Collection: subscribe.Snapshots,
		List: func() (all []steve.Seen) {
			for _, d := range s.Snapshots.List() {
				if seen, ok := show(d); ok {
					all = append(all, seen)
				}
			}
			return all
		},
		Get: func(id string) (steve.Seen, bool) {
			namespace, name, _ := strings.Cut(id, "/")
			for _, d := range s.Snapshots.ListIn(namespace + "/") {
				if snapshotName(d.Value) == name {
					return show(d)
				}
			}
			return steve.Seen{}, false
		},
		Changed: func(c subscribe.Change) (string, *steve.Seen, bool) {
			if gone, ok := c.Removed.(records.Snapshot); ok {
				last, ok := show(store.Document[records.Snapshot]{Key: c.Key, Revision: c.Revision, Value: gone})
				return gone.Cluster.Namespace() + "/" + snapshotName(gone), &last, ok
			}
			d, ok := s.Snapshots.Get(c.Key)
			return d.Value.Cluster.Namespace() + "/" + snapshotName(d.Value), nil, ok
		},
	}
}
