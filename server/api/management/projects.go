// The type project: clients expect each cluster to have the projects Default and
// System, and the CLI's context is one of them. They are made from the cluster and not
// stored.

package management

import (
	"slices"
	"strings"

	"github.com/drover-project/drover/server/api/conditions"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/projects"
	"github.com/drover-project/drover/server/records"
)

func (a *API) projectKind() *kind {
	return &kind{
		schema: norman.Schema{
			ID: "project", Plural: "projects",
			Fields: norman.Fields(map[string]norman.Field{
				"name": {Type: "string"}, "description": {Type: "string"}, "clusterId": {Type: "reference[cluster]"},
				"namespaceId": {Type: "string"}, "backingNamespace": {Type: "string"}, "conditions": {Type: "array[condition]"},
			}),
		},
		list: a.listProjects,
		get: func(c *route.Call, id string) (norman.Object, bool) {
			clusterID, _, _ := strings.Cut(id, ":")
			d, ok := a.visibleCluster(c, clusterID)
			if !ok {
				return norman.Object{}, false
			}
			both := projectObjects(d.Value, c.URLs)
			i := slices.IndexFunc(both, func(o norman.Object) bool { return o.ID == id })
			if i < 0 {
				return norman.Object{}, false
			}
			return both[i], true
		},
	}
}

func (a *API) listProjects(c *route.Call) []norman.Object {
	var objects []norman.Object
	for _, d := range a.State.Clusters.List() {
		objects = append(objects, projectObjects(d.Value, c.URLs)...)
	}
	return objects
}

func projectObjects(cl records.Cluster, u norman.URLs) []norman.Object {
	defaultID, systemID := projects.IDs(cl.ID)
	state := conditions.New("active", "no", "")
	if !cl.Deleting.IsZero() {
		state = conditions.New("removing", "yes", "the cluster is being removed")
	}
	both := make([]norman.Object, 0, 2)
	for _, p := range []struct{ id, name, description, label string }{
		{defaultID, "Default", "Default project created for the cluster", "authz.management.cattle.io/default-project"},
		{systemID, "System", "System project created for the cluster", "authz.management.cattle.io/system-project"},
	} {
		_, short, _ := strings.Cut(p.id, ":")
		o := norman.Object{
			ID: p.id, Fixed: true, Kept: true,
			Links: map[string]string{
				"schemas":   u.Base + "/v3/project/" + p.id + "/schemas",
				"subscribe": u.Base + "/v3/project/" + p.id + "/subscribe",
			},
			Fields: map[string]any{
				"name": p.name, "description": p.description, "clusterId": cl.ID, "namespaceId": cl.ID,
				"backingNamespace": cl.ID + "-" + short, "created": cl.Created, "creatorId": norman.Reference(cl.CreatorID), "uuid": cl.UID + "-" + short,
				"labels": map[string]string{p.label: "true"}, "annotations": map[string]string{}, "conditions": []conditions.Condition{},
			},
		}
		state.Into(o.Fields)
		both = append(both, o)
	}
	return both
}
