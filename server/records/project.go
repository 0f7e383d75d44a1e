// Projects: groups of namespaces of a cluster in which people have roles.

package records

import (
	"fmt"
	"strings"
	"time"
)

// Project is a project that people made; the two that every cluster has are made from it and not
// stored. Sensitive. Key: "<cluster id>/p-xxxxx", see ProjectKey.
type Project struct {
	// ID is "<cluster id>:p-xxxxx".
	ID          string            `json:"id"`
	ClusterID   string            `json:"clusterID"`
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	UID         string            `json:"uid"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Created     time.Time         `json:"created,omitzero"`
	CreatorID   string            `json:"creatorID,omitempty"`
	// Builtin is one of the two that every cluster has.
	Builtin bool `json:"-"`
}

// ProjectKey is the key of a project by its ID.
func ProjectKey(id string) string { return strings.Replace(id, ":", "/", 1) }

// Short is the project's name inside its cluster: "p-xxxxx".
func (p Project) Short() string {
	_, short, _ := strings.Cut(p.ID, ":")
	return short
}

// Differs is what somebody has changed by hand of the rights that the server keeps in a cluster, while it
// reports that and does not put it back.
type Differs struct {
	Since time.Time `json:"since"`
	// What are sentences such as "cluster role rt-abcde was changed", the first few of Count.
	What  []string `json:"what"`
	Count int      `json:"count"`
}

// Sentence is all of it for people.
func (d Differs) Sentence() string {
	text := strings.Join(d.What, "; ")
	if more := d.Count - len(d.What); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
