// Where the objects of each resource come from: the records, in the form of package forms.

package kube

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/store"
)

// finalizer says that a cluster is gone when the server has carried its removal out.
const finalizer = "drover.dev/removal"

// tidy leaves out of the metadata what is empty.
func tidy(content map[string]any) map[string]any {
	if m, ok := content["metadata"].(map[string]any); ok {
		for _, name := range []string{"labels", "annotations"} {
			if of, ok := m[name].(map[string]any); ok && len(of) == 0 {
				delete(m, name)
			}
		}
		for _, name := range []string{"creationTimestamp", "uid"} {
			if m[name] == "" || m[name] == "0001-01-01T00:00:00Z" {
				delete(m, name)
			}
		}
	}
	return content
}

func readiness(ready bool) string {
	if ready {
		return "True"
	}
	return "False"
}

func (a *API) clusters() *Resource {
	r := &Resource{Definition: definitionOf("provisioning.cattle.io", "clusters"), api: a, collection: subscribe.Clusters}
	r.list = func() []object {
		machines := a.o.State.MachineCounts()
		var all []object
		for _, d := range a.o.State.Clusters.List() {
			if k8sobjects.IsProvisioned(d.Value) {
				all = append(all, a.cluster(d, machines[d.Value.ID]))
			}
		}
		return all
	}
	r.get = func(key string) (object, bool) {
		d, ok := a.o.State.Clusters.Get(key)
		if !ok || !k8sobjects.IsProvisioned(d.Value) {
			return object{}, false
		}
		return a.cluster(d, a.o.State.MachineCount(d.Value.ID)), true
	}
	r.changed = func(c subscribe.Change) (string, *object, bool) {
		removed, gone := c.Removed.(records.Cluster)
		if !gone {
			return c.Key, nil, true
		}
		last := a.cluster(store.Document[records.Cluster]{Key: c.Key, Revision: c.Revision, Value: removed}, 0)
		return c.Key, &last, k8sobjects.IsProvisioned(removed)
	}
	r.create, r.update, r.remove = a.createCluster, a.updateCluster, a.removeCluster
	return r
}

// cluster is a provisioning.cattle.io/v1 Cluster.
func (a *API) cluster(d store.Document[records.Cluster], machines int) object {
	cl, s := d.Value, k8sobjects.ClusterSummary(d.Value)
	content := tidy(k8sobjects.Cluster(d, machines))
	meta, _ := content["metadata"].(map[string]any)
	meta["finalizers"] = []any{finalizer}
	if owners := ownersOf(cl); owners != nil {
		meta["managedFields"] = owners
	}
	return object{
		key: d.Key, may: auth.Object{Kind: auth.ProvisionedCluster, Key: d.Key, Cluster: cl.ID}, revision: d.Revision, content: content,
		cells: []any{cl.Name, readiness(cl.Status.Ready), s.State, version(cl), machines, a.age(cl.Created), cl.ID, s.Message},
	}
}

// version is the one that runs, or the one that is wanted while nothing runs.
func version(cl records.Cluster) string {
	if cl.Status.Version != "" {
		return cl.Status.Version
	}
	return cl.Spec.KubernetesVersion
}

func ownersOf(cl records.Cluster) []any {
	var owners []any
	if len(cl.Owners) == 0 || json.Unmarshal(cl.Owners, &owners) != nil {
		return nil
	}
	return owners
}

func (a *API) management() *Resource {
	r := &Resource{Definition: definitionOf("management.cattle.io", "clusters"), api: a, collection: subscribe.Clusters}
	r.list = func() []object {
		machines := a.o.State.MachineCounts()
		var all []object
		for _, d := range a.o.State.Clusters.List() {
			all = append(all, a.managed(d, machines[d.Value.ID]))
		}
		slices.SortFunc(all, func(x, y object) int { return strings.Compare(x.key, y.key) })
		return all
	}
	r.get = func(id string) (object, bool) {
		d, ok := a.o.State.ClustersByID.First(id)
		if !ok {
			return object{}, false
		}
		return a.managed(d, a.o.State.MachineCount(id)), true
	}
	r.changed = func(c subscribe.Change) (string, *object, bool) {
		d, gone, ok := subscribe.Of(c, a.o.State.Clusters)
		if gone {
			last := a.managed(d, 0)
			return last.key, &last, true
		}
		return d.Value.ID, nil, ok
	}
	r.remove = func(q *Request, o object) error {
		d, ok := a.o.State.ClustersByID.First(o.key)
		if !ok {
			return q.missing(o.key)
		}
		return a.leave(q, records.ClusterKey(d.Key))
	}
	return r
}

// managed is a management.cattle.io/v3 Cluster.
func (a *API) managed(d store.Document[records.Cluster], machines int) object {
	cl, s := d.Value, k8sobjects.ClusterSummary(d.Value)
	_, provider := k8sobjects.Driver(cl, machines)
	content := tidy(k8sobjects.ManagementCluster(d, machines))
	meta, _ := content["metadata"].(map[string]any)
	meta["finalizers"] = []any{finalizer}
	return object{
		key: cl.ID, may: auth.OfCluster(cl.ID), revision: d.Revision, content: content,
		cells: []any{cl.ID, cl.Name, readiness(cl.Status.Ready), s.State, provider, version(cl), machines, a.age(cl.Created)},
	}
}

func (a *API) machines() *Resource {
	r := &Resource{Definition: definitionOf("cluster.x-k8s.io", "machines"), api: a, collection: subscribe.Machines}
	r.list = func() []object {
		var all []object
		for _, d := range a.o.State.Machines.List() {
			if k8sobjects.IsMachine(d.Value) {
				all = append(all, a.machine(d))
			}
		}
		return all
	}
	r.get = func(key string) (object, bool) {
		d, ok := a.o.State.Machines.Get(key)
		if !ok || !k8sobjects.IsMachine(d.Value) {
			return object{}, false
		}
		return a.machine(d), true
	}
	r.changed = func(c subscribe.Change) (string, *object, bool) {
		removed, gone := c.Removed.(records.Machine)
		if !gone {
			return c.Key, nil, true
		}
		last := a.machine(store.Document[records.Machine]{Key: c.Key, Revision: c.Revision, Value: removed})
		return c.Key, &last, k8sobjects.IsMachine(removed)
	}
	return r
}

func (a *API) machine(d store.Document[records.Machine]) object {
	m, s := d.Value, k8sobjects.MachineSummary(d.Value)
	content := tidy(k8sobjects.Machine(d))
	status, _ := content["status"].(map[string]any)
	node, kubelet := "", ""
	if n := m.Status.Node; n != nil {
		node, kubelet = n.Name, n.KubeletVersion
	}
	return object{
		key: d.Key, may: auth.Object{Kind: auth.ClusterMachine, Key: d.Key, Cluster: m.ClusterID}, revision: d.Revision, content: content, cluster: m.ClusterName,
		cells: []any{m.Name, m.ClusterName, node, m.Roles.String(), status["phase"], s.State, a.age(m.Created), kubelet, s.Message},
	}
}

func (a *API) settings() *Resource {
	r := &Resource{Definition: definitionOf("management.cattle.io", "settings"), api: a, collection: subscribe.Settings, permanent: true}
	r.list = func() []object {
		var all []object
		for _, s := range a.o.Settings.List() {
			all = append(all, a.setting(s))
		}
		return all
	}
	r.get = func(name string) (object, bool) {
		s := a.o.Settings.Get(name)
		return a.setting(s), s.Name != ""
	}
	r.changed = func(c subscribe.Change) (string, *object, bool) { return c.Key, nil, true }
	r.update = a.updateSetting
	return r
}

func (a *API) setting(s settings.Setting) object {
	d, _ := a.o.State.Settings.Get(s.Name)
	return object{
		key: s.Name, may: auth.Object{Kind: auth.Setting, Key: s.Name}, revision: max(1, d.Revision), content: k8sobjects.Setting(s, max(1, d.Revision)),
		cells: []any{s.Name, s.Value, string(s.Source)},
	}
}

// age is how long ago a time is, as tables show it.
func (a *API) age(t time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(a.o.Now().Sub(t))
}
