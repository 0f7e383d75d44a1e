package store

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
)

// builtinProjects writes the IDs of a cluster's projects Default and System, which servers of schema 2 made from the cluster's ID, into
// the cluster: bindings, secrets and the marks of namespaces name them.
func builtinProjects(documents []migratedDocument) (changes []migratedDocument, err error) {
	for _, d := range documents {
		if d.Collection != "clusters" {
			continue
		}
		var known struct {
			ID       string          `json:"id"`
			Projects json.RawMessage `json:"projects"`
		}
		cluster := map[string]json.RawMessage{}
		if err := errors.Join(json.Unmarshal(d.Value, &known), json.Unmarshal(d.Value, &cluster)); err != nil {
			return nil, fmt.Errorf("read cluster %s: %w", d.Key, err)
		}
		if known.Projects != nil {
			continue
		}
		first, second := hashedProjects(known.ID)
		if cluster["projects"], err = json.Marshal(map[string]string{"default": first, "system": second}); err != nil {
			return nil, err
		}
		if d.Value, err = json.Marshal(cluster); err != nil {
			return nil, err
		}
		changes = append(changes, d)
	}
	return changes, nil
}

// hashedProjects are the IDs as they were made: of the two the one that sorts first is Default.
func hashedProjects(clusterID string) (defaultID, systemID string) {
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
