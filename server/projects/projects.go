// Package projects names the two projects that every cluster has, Default and System. They are made from
// the cluster and not stored.
package projects

import "crypto/sha256"

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
