// What dashboards read over /v1 beside clusters: people, settings, nodes, tokens, preferences, features and snapshots of etcd. They are changed over /v3.

package api

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/access"
	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/kube"
	"github.com/drover-project/drover/server/api/secrets"
	"github.com/drover-project/drover/server/api/steve"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// typesOfV1 are those types.
func (o Options) typesOfV1(p *people.People) []steve.Type {
	types := []steve.Type{settingType(o.Settings, func(name string) int64 {
		d, _ := o.State.Settings.Get(name)
		return max(1, d.Revision)
	})}
	made := kube.People{State: o.State, People: p}
	for _, k := range append(made.Kinds(), made.Namespaces()) {
		types = append(types, personType(k))
	}
	types = append(types, (&secrets.API{State: o.State}).Type(),
		nodes(o.State), tokens(o.State, o.Now), preferenceType(o.State), userPreferences(o.State, o.Now), features(), snapshots(o.State))
	return append(types, none()...)
}

func typeSchema(kind, resource string, namespaced bool) steve.Schema {
	return steve.Schema{Group: "management.cattle.io", Version: "v3", Kind: kind, Resource: resource, Namespaced: namespaced}
}

// shown are things as the type has them.
func shown[T any](all []T, show func(T) steve.Seen) []steve.Seen {
	seen := make([]steve.Seen, 0, len(all))
	for _, one := range all {
		seen = append(seen, show(one))
	}
	return seen
}

func nodes(s *state.State) steve.Type {
	show := func(d store.Document[records.Machine]) steve.Seen {
		return steve.Seen{
			About:   auth.Object{Kind: auth.Machine, Key: k8sobjects.NodeID(d.Value), Cluster: d.Value.ClusterID},
			Content: k8sobjects.Node(d), State: k8sobjects.MachineSummary(d.Value),
		}
	}
	id := func(m records.Machine) string { return strings.Replace(k8sobjects.NodeID(m), ":", "/", 1) }
	return steve.Type{
		Schema: typeSchema("Node", "nodes", true), Of: auth.Machine, Collection: subscribe.Machines,
		List: func() []steve.Seen {
			var all []steve.Seen
			for _, d := range s.Machines.List() {
				if !d.Value.InFleet() {
					all = append(all, show(d))
				}
			}
			return all
		},
		Get: func(wanted string) (steve.Seen, bool) {
			clusterID, _, _ := strings.Cut(wanted, "/")
			cl, _ := s.ClustersByID.First(clusterID)
			for _, d := range s.MachinesByCluster.Find(records.ClusterKey(cl.Key)) {
				if id(d.Value) == wanted {
					return show(*d), true
				}
			}
			return steve.Seen{}, false
		},
		Changed: func(c subscribe.Change) (string, *steve.Seen, bool) {
			d, gone, ok := subscribe.Of(c, s.Machines)
			if gone {
				last := show(d)
				return id(d.Value), &last, !d.Value.InFleet()
			}
			return id(d.Value), nil, ok && !d.Value.InFleet()
		},
	}
}

func tokens(s *state.State, now func() time.Time) steve.Type {
	show := func(d store.Document[records.Token]) steve.Seen {
		return steve.Seen{About: auth.Object{Kind: auth.Token, Key: d.Key, Owner: d.Value.UserID}, Content: k8sobjects.Token(d, now())}
	}
	return steve.Type{
		Schema: typeSchema("Token", "tokens", false), Of: auth.Token, Collection: subscribe.Tokens, Own: true,
		List:    func() []steve.Seen { return shown(s.Tokens.List(), show) },
		Get:     func(id string) (steve.Seen, bool) { d, ok := s.Tokens.Get(id); return show(d), ok },
		Changed: subscribe.Shown(show),
	}
}

func preferenceType(s *state.State) steve.Type {
	show := func(d store.Document[records.Preference]) steve.Seen {
		return steve.Seen{About: auth.Object{Kind: auth.Preference, Key: d.Value.Name, Owner: d.Value.UserID}, Content: k8sobjects.Preference(d)}
	}
	return steve.Type{
		Schema: typeSchema("Preference", "preferences", true), Of: auth.Preference, Collection: subscribe.Preferences, Own: true,
		List:    func() []steve.Seen { return shown(s.Preferences.List(), show) },
		Get:     func(id string) (steve.Seen, bool) { d, ok := s.Preferences.Get(id); return show(d), ok },
		Changed: subscribe.Shown(show),
	}
}

func features() steve.Type {
	show := func(f access.Feature) steve.Seen {
		return steve.Seen{About: auth.Object{Kind: auth.Feature, Key: f.Name}, Content: k8sobjects.Feature(f.Name, f.Description, f.On)}
	}
	return steve.Type{
		Schema: typeSchema("Feature", "features", false), Of: auth.Feature,
		List: func() []steve.Seen { return shown(access.Features(), show) },
		Get: func(id string) (steve.Seen, bool) {
			for _, f := range access.Features() {
				if f.Name == id {
					return show(f), true
				}
			}
			return steve.Seen{}, false
		},
		Changed: func(subscribe.Change) (string, *steve.Seen, bool) { return "", nil, false }, // they are in no collection
	}
}

// personType is the type of users, roles, bindings or projects.
func personType(k kube.PersonKind) steve.Type {
	seen := func(o kube.PersonObject) steve.Seen { return steve.Seen{About: o.May, Content: o.Content} }
	return steve.Type{
		Schema: steve.Schema{Group: k.Group, Version: k.Version, Kind: k.Kind, Resource: k.Plural, Namespaced: k.Namespaced}, Of: k.Of, Collection: k.Collection,
		List: func() []steve.Seen { return shown(k.List(), seen) },
		Get: func(id string) (steve.Seen, bool) {
			o, ok := k.Get(id)
			return seen(o), ok
		},
		Changed: func(c subscribe.Change) (string, *steve.Seen, bool) {
			id, gone, ok := k.Changed(c)
			if gone == nil {
				return id, nil, ok
			}
			last := seen(*gone)
			return id, &last, ok
		},
	}
}

// settingType is the type of settings; the revision is that of one by its name.
func settingType(of *settings.Settings, revision func(name string) int64) steve.Type {
	seen := func(s settings.Setting) steve.Seen {
		return steve.Seen{About: auth.Object{Kind: auth.Setting, Key: s.Name}, Content: k8sobjects.Setting(s, revision(s.Name))}
	}
	return steve.Type{
		Schema: steve.Schema{Group: "management.cattle.io", Version: "v3", Kind: "Setting", Resource: "settings"}, Of: auth.Setting, Collection: subscribe.Settings,
		List: func() []steve.Seen { return shown(of.List(), seen) },
		Get: func(id string) (steve.Seen, bool) {
			s := of.Get(id)
			return seen(s), s.Name != ""
		},
		// A setting that is gone from the store is back at its default.
		Changed: func(c subscribe.Change) (string, *steve.Seen, bool) { return c.Key, nil, true },
	}
}

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
