// Package projects makes the two projects that every cluster has, Default and System, from the cluster: they
// are not stored. Those that people make are records.Project in the store.
//
// Wire source of labels: rancher/rancher pkg/controllers/management/auth/project_cluster.
package projects

import (
	"crypto/sha256"

	"github.com/drover-project/drover/server/records"
)

// Labels of the two, by which clients find them.
const (
	DefaultLabel = "authz.management.cattle.io/default-project"
	SystemLabel  = "authz.management.cattle.io/system-project"
)

// Builtin are the two projects of a cluster.
func Builtin(cl records.Cluster) []records.Project {
	defaultID, systemID := IDs(cl.ID)
	both := []records.Project{
		{ID: defaultID, Name: "Default", Description: "Default project created for the cluster", Labels: map[string]string{DefaultLabel: "true"}},
		{ID: systemID, Name: "System", Description: "System project created for the cluster", Labels: map[string]string{SystemLabel: "true"}},
	}
	for i := range both {
		p := &both[i]
		p.ClusterID, p.UID, p.Created, p.CreatorID, p.Builtin = cl.ID, cl.UID+"-"+p.Short(), cl.Created, cl.CreatorID, true
	}
	return both
}

// IDs are made from the cluster's id, so that they last as long as it does. Of
// the two the one that sorts first is Default: lists are sorted by id, and people
// choose from them.
func IDs(clusterID string) (defaultID, systemID string) {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	for salt := byte(0); ; salt++ {
		sum := sha256.Sum256(append([]byte("projects of "+clusterID), salt))
		ids := [2]string{}
		for i := range ids {
			short := make([]byte, 5)
			for j := range short {
				short[j] = alphabet[int(sum[5*i+j])%len(alphabet)]
			}
			ids[i] = clusterID + ":p-" + string(short)
		}
		if ids[0] != ids[1] {
			return min(ids[0], ids[1]), max(ids[0], ids[1])
		}
	}
}
