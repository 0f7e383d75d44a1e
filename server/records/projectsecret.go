// Secrets of projects: each is copied into every namespace of its project.

package records

import (
	"time"
)

// ProjectSecret is a Secret that every namespace of a project has. Sensitive. Key: "<cluster id>/p-xxxxx/<name>", see
// ProjectSecretKey.
type ProjectSecret struct {
	// ProjectID is "<cluster id>:p-xxxxx".
	ProjectID string `json:"projectID"`
	// Name is that of all copies.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Type is that of a Secret in Kubernetes, such as "Opaque".
	Type string `json:"type"`
	// Data are the values as they are, not in base64.
	Data        map[string][]byte `json:"data,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	UID         string            `json:"uid"`
	Created     time.Time         `json:"created,omitzero"`
	CreatorID   string            `json:"creatorID,omitempty"`
}

// Key is the key of the record.
func (s ProjectSecret) Key() string { return ProjectSecretKey(s.ProjectID, s.Name) }

// ProjectSecretKey is the key of the Secret of that name of a project; without a name it is what the keys of all of the
// project begin with.
func ProjectSecretKey(projectID, name string) string { return ProjectKey(projectID) + "/" + name }
