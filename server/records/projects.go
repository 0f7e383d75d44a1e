// The two projects that every cluster has, Default and System, are made of the cluster, whose record has their IDs. Projects
// that people make are stored.
//
// Wire source of labels: rancher/rancher pkg/controllers/management/auth/project_cluster.

package records

import (
	"time"

	"github.com/drover-project/drover/server/randomid"
)

// Labels of the two, by which clients find them.
const (
	defaultProjectLabel = "authz.management.cattle.io/default-project"
	systemProjectLabel  = "authz.management.cattle.io/system-project"
)

// BuiltinProjects are the two projects of a cluster.
func BuiltinProjects(cl Cluster) []Project {
	both := []Project{
		{ID: cl.Projects.Default, Name: "Default", Description: "Default project created for the cluster", Labels: map[string]string{defaultProjectLabel: "true"}},
		{ID: cl.Projects.System, Name: "System", Description: "System project created for the cluster", Labels: map[string]string{systemProjectLabel: "true"}},
	}
	for i := range both {
		p := &both[i]
		p.ClusterID, p.UID, p.Created, p.CreatorID, p.Builtin = cl.ID, cl.UID+"-"+p.Short(), cl.Created, cl.CreatorID, true
	}
	return both
}

// NewClusterProjects are the projects of a cluster that is made now, whose namespaces have no marks to adopt. Their IDs are random; of the two
// the one that sorts first is Default: lists are sorted by ID, and people choose from them.
func NewClusterProjects(clusterID string, now time.Time) ClusterProjects {
	for {
		a, b := NewProjectID(clusterID), NewProjectID(clusterID)
		if a != b {
			return ClusterProjects{Default: min(a, b), System: max(a, b), Adopted: now}
		}
	}
}

// NewProjectID is a random ID of a project: "<cluster id>:p-xxxxx".
func NewProjectID(clusterID string) string { return clusterID + ":p-" + randomid.ID(5) }
