// Which project a namespace of a cluster is in: what the server recorded, by the namespace's UID, when a
// person with the rights for it moved the namespace over the API. What the cluster says of its namespaces counts for nothing: people
// who may change a namespace there are not people who may have the secrets of any project. A namespace that is deleted and made again has
// another UID and is in none; those that Kubernetes comes with are in Default and System unless something else was recorded.

package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

const (
	// maxPage bounds the namespaces of a page, of which a cluster has sixteen.
	maxPage = 4096
	// maxUID bounds a UID, in bytes: Kubernetes' have 36.
	maxUID = 64
	// tries bounds what is begun again because the record changed meanwhile.
	tries = 100
)

// ErrMoved says that a namespace is in another project than the caller had seen.
var ErrMoved = errors.New("the namespace was moved to another project at the same time: look at it again")

// Memberships is what the server knows of the projects of a cluster.
type Memberships struct {
	records.ClusterProjects
	// All has the IDs of the projects.
	All map[string]bool
	// Recorded are the projects of namespaces by their UIDs; empty for one that was taken out of any.
	Recorded map[string]string
}

// Of is the project of a namespace; empty for none.
func (k Memberships) Of(uid, name string) string {
	project, recorded := k.Recorded[uid]
	if !recorded {
		project = k.BuiltIn(name)
	}
	if !k.All[project] {
		return ""
	}
	return project
}

// BuiltIn is the project of a namespace of that name of which nothing was recorded.
func (k Memberships) BuiltIn(name string) string {
	switch {
	case name == "default":
		return k.Default
	case slices.Contains(systemNamespaces(), name):
		return k.System
	}
	return ""
}

// systemNamespaces are those of the project System.
func systemNamespaces() []string {
	return []string{
		"calico-apiserver", "calico-system", "cattle-impersonation-system", "cattle-system", "cattle-ui-plugin-system", "ingress-nginx",
		"kube-node-lease", "kube-public", "kube-system", "kube-system-helm", "longhorn-system", "system-upgrade", "tigera-operator",
	}
}

// Membership reads and writes the record.
type Membership struct {
	State *State
	Now   func() time.Time
}

// In is what is known of a cluster; nothing of one that is gone.
func (m *Membership) In(clusterID string) Memberships {
	cl, ok := m.State.ClustersByID.First(clusterID)
	if !ok {
		return Memberships{}
	}
	k := Memberships{ClusterProjects: cl.Value.Projects, All: map[string]bool{}, Recorded: map[string]string{}}
	for _, p := range m.State.ProjectsOf(cl.Value) {
		k.All[p.ID] = true
	}
	for _, page := range m.State.Namespaces.ListIn(clusterID + "/") {
		maps.Copy(k.Recorded, page.Value.Projects)
	}
	return k
}

// Latest is In of what is recorded by now, also by another server. The error is that of the store.
func (m *Membership) Latest(ctx context.Context, clusterID string) (Memberships, error) {
	if err := m.State.Store.CatchUp(ctx); err != nil {
		return Memberships{}, err
	}
	return m.In(clusterID), nil
}

// Move records that a namespace has come from one project into another; both may be empty. The error is ErrMoved when it is not in
// the first, and *store.NotFoundError when the other is gone.
func (m *Membership) Move(ctx context.Context, clusterID, uid, name, from, to string) error {
	if uid == "" || len(uid) > maxUID {
		return fmt.Errorf("record the project of namespace %s: the cluster says of it that its UID is %.80q, and one of 1 to %d bytes is needed", name, uid, maxUID)
	}
	return m.again(ctx, func() ([]store.Op, error) {
		k := m.In(clusterID)
		if k.Of(uid, name) != from {
			return nil, ErrMoved
		}
		if k.Of(uid, name) == to {
			return nil, nil
		}
		if to != "" && !k.All[to] {
			return nil, &store.NotFoundError{Collection: "projects", Key: to}
		}
		ops, err := m.writing(clusterID, map[string]string{uid: to})
		if d, made := m.State.Projects.Get(records.ProjectKey(to)); made { // it must not go at the same moment
			ops = append(ops, m.State.Projects.Updating(d))
		}
		return ops, err
	})
}

// Adopt records, once, what the namespaces of a cluster from before there was a record say of themselves: marks are the annotations by UID and name.
// Until then they were believed, so that the upgrade changes no rights. The errors are those of the store.
func (m *Membership) Adopt(ctx context.Context, key records.ClusterKey, marks map[Namespace]string) error {
	return m.again(ctx, func() ([]store.Op, error) {
		d, ok := m.State.Clusters.Get(string(key))
		if !ok || !d.Value.Projects.Adopted.IsZero() {
			return nil, nil
		}
		k, changed := m.In(d.Value.ID), map[string]string{}
		for n, mark := range marks {
			if !k.All[mark] {
				mark = "" // that of another server, and one of a project that is gone
			}
			_, recorded := k.Recorded[n.UID]
			if !recorded && mark != k.BuiltIn(n.Name) && n.UID != "" && len(n.UID) <= maxUID {
				changed[n.UID] = mark
			}
		}
		ops, err := m.writing(d.Value.ID, changed)
		d.Value.Projects.Adopted = m.Now().UTC()
		return append(ops, m.State.Clusters.Updating(d)), err
	})
}

// Namespace names one of a cluster.
type Namespace struct{ UID, Name string }

// Forget takes namespaces that are gone out of the record. The errors are those of the store.
func (m *Membership) Forget(ctx context.Context, clusterID string, uids []string) error {
	return m.again(ctx, func() (ops []store.Op, err error) {
		for _, page := range m.State.Namespaces.ListIn(clusterID + "/") {
			left := maps.Clone(page.Value.Projects)
			for _, uid := range uids {
				delete(left, uid)
			}
			if len(left) < len(page.Value.Projects) {
				page.Value.Projects = left
				ops = append(ops, m.State.Namespaces.Updating(page))
			}
		}
		return ops, nil
	})
}

// LeavingProject are the writes by which all namespaces leave a project that is about to be removed: another one may get its ID.
func LeavingProject(s *State, clusterID, project string) (ops []store.Op) {
	for _, page := range s.Namespaces.ListIn(clusterID + "/") {
		left := maps.Clone(page.Value.Projects)
		for uid, in := range left {
			if in == project {
				left[uid] = ""
			}
		}
		if !maps.Equal(left, page.Value.Projects) {
			page.Value.Projects = left
			ops = append(ops, s.Namespaces.Updating(page))
		}
	}
	return ops
}

// writing are the writes that record namespaces' projects, by UID.
func (m *Membership) writing(clusterID string, changed map[string]string) (ops []store.Op, err error) {
	pages := map[string]map[string]string{}
	for uid, project := range changed {
		key := records.NamespacePageKey(clusterID, uid)
		if pages[key] == nil {
			pages[key] = map[string]string{}
		}
		pages[key][uid] = project
	}
	for key, more := range pages {
		d, there := m.State.Namespaces.Get(key)
		all := maps.Clone(d.Value.Projects)
		if all == nil {
			all = map[string]string{}
		}
		if maps.Copy(all, more); len(all) > maxPage {
			return nil, fmt.Errorf("record the projects of namespaces of cluster %s: page %s would have %d, and at most %d are possible: remove namespaces", clusterID, key, len(all), maxPage)
		}
		if d.Value.Projects = all; there {
			ops = append(ops, m.State.Namespaces.Updating(d))
		} else {
			ops = append(ops, m.State.Namespaces.Creating(key, d.Value))
		}
	}
	return ops, nil
}

// again decides and writes, anew when the record has changed, come or gone meanwhile. What the decision refuses is refused at once,
// which a retry of the store could not tell from a write in the way.
func (m *Membership) again(ctx context.Context, once func() ([]store.Op, error)) error {
	for try := 1; ; try++ {
		ops, err := once()
		if err != nil {
			return err
		}
		_, err = m.State.Store.Commit(ctx, ops...)
		_, conflict := errors.AsType[*store.ConflictError](err)
		_, exists := errors.AsType[*store.ExistsError](err)
		_, gone := errors.AsType[*store.NotFoundError](err)
		if err == nil || try == tries || !conflict && !exists && !gone {
			return err
		}
	}
}
