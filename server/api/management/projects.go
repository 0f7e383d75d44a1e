// The type project as it is shown: the two that every cluster has, and those that people made. What changes
// them is in package access.

package management

import (
	"strings"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/records"
)

func (a *API) projectKind() *Kind {
	return &Kind{
		Schema: a.Project,
		List: func(c *route.Call) []norman.Object {
			var objects []norman.Object
			for _, d := range a.State.Clusters.List() {
				for _, p := range a.State.ProjectsOf(d.Value) {
					objects = append(objects, ProjectObject(p, d.Value, c.URLs))
				}
			}
			return objects
		},
		Get: func(c *route.Call, id string) (norman.Object, bool) {
			p, cl, ok := a.State.Project(id)
			if !ok {
				return norman.Object{}, false
			}
			return ProjectObject(p, cl, c.URLs), true
		},
	}
}

// ProjectObject is a project of a cluster.
func ProjectObject(p records.Project, cl records.Cluster, u norman.URLs) norman.Object {
	state := k8sobjects.Well()
	if !cl.Deleting.IsZero() {
		state = k8sobjects.NewSummary(k8sobjects.Removing, "yes", "the cluster is being removed")
	}
	o := norman.Object{
		ID: p.ID, Fixed: p.Builtin, Kept: p.Builtin,
		Links: map[string]string{
			"schemas":                     u.Base + "/v3/project/" + p.ID + "/schemas",
			"subscribe":                   u.Base + "/v3/project/" + p.ID + "/subscribe",
			"namespaces":                  u.Base + "/v3/cluster/" + p.ClusterID + "/namespaces?projectId=" + p.ID,
			"projectRoleTemplateBindings": u.Base + "/v3/projectroletemplatebindings?projectId=" + p.ID,
		},
		Fields: map[string]any{
			"name": p.Name, "description": p.Description, "clusterId": p.ClusterID, "namespaceId": p.ClusterID,
			"backingNamespace": strings.Replace(p.ID, ":", "-", 1), "created": p.Created, "creatorId": norman.Reference(p.CreatorID), "uuid": p.UID,
			"labels": norman.Map(p.Labels), "annotations": norman.Map(p.Annotations), "conditions": []k8sobjects.Condition{},
		},
	}
	state.Into(o.Fields)
	return o
}
