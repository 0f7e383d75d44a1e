// Package projects makes the two projects that every cluster has, Default and System, from the cluster, whose record has
// their IDs. Projects that people make are records.Project in the store.
//
// Wire source of labels: rancher/rancher pkg/controllers/management/auth/project_cluster.
package projects

import (
	"time"

	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
)

// Labels of the two, by which clients find them.
const (
	DefaultLabel = "authz.management.cattle.io/default-project"
	SystemLabel  = "authz.management.cattle.io/system-project"
)

// Builtin are the two projects of a cluster.
func Builtin(cl records.Cluster) []records.Project {
	both := []records.Project{
		{ID: cl.Projects.Default, Name: "Default", Description: "Default project created for the cluster", Labels: map[string]string{DefaultLabel: "true"}},
		{ID: cl.Projects.System, Name: "System", Description: "System project created for the cluster", Labels: map[string]string{SystemLabel: "true"}},
	}
	for i := range both {
		p := &both[i]
		p.ClusterID, p.UID, p.Created, p.CreatorID, p.Builtin = cl.ID, cl.UID+"-"+p.Short(), cl.Created, cl.CreatorID, true
	}
	return both
}

// New are the projects of a cluster that is made now, whose namespaces have no marks to adopt. Their IDs are random; of the two
// the one that sorts first is Default: lists are sorted by ID, and people choose from them.
func New(clusterID string, now time.Time) records.ClusterProjects {
	for {
		a, b := ID(clusterID), ID(clusterID)
		if a != b {
			return records.ClusterProjects{Default: min(a, b), System: max(a, b), Adopted: now}
		}
	}
}

// ID is a random ID of a project: "<cluster id>:p-xxxxx".
func ID(clusterID string) string { return clusterID + ":p-" + randomid.ID(5) }
