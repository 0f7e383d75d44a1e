// Projects: groups of namespaces of a cluster in which people have roles. The two that every cluster has, Default and System, are made of the
// cluster, whose record has their IDs; those that people make are stored. Wire source of labels: rancher/rancher pkg/controllers/management/auth/project_cluster.

package records

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/server/randomid"
)

// ClusterProjects are what a cluster has of projects from its beginning.
type ClusterProjects struct {
	// Default and System are the IDs of the two projects that every cluster has, "<cluster id>:p-xxxxx".
	Default string `json:"default,omitempty"`
	System  string `json:"system,omitempty"`
	// Adopted is since when the server goes by what it recorded of namespaces alone (NamespacePage). Zero is a cluster from before there
	// were such records, of which the marks of its namespaces are still to be recorded, once.
	Adopted time.Time `json:"adopted,omitzero"`
}

// NamespacePage is a part of what the server recorded of the namespaces of a cluster: the project of each, by its UID. Empty is
// that it was taken out of any, which counts for the namespaces that are in Default and System unless a person says otherwise.
// Sensitive. Key: "<cluster id>/<x>", x being a hexadecimal digit, see NamespacePageKey.
type NamespacePage struct {
	Projects map[string]string `json:"projects"`
}

// NamespacePageKey is the key of the page of a namespace's UID: the pages of a cluster are sixteen, so that a change among ten
// thousand namespaces writes a few hundred of them.
func NamespacePageKey(clusterID, uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return fmt.Sprintf("%s/%x", clusterID, sum[0]>>4)
}

// ClusterOfPage is the cluster's ID of the key of a page.
func ClusterOfPage(key string) string {
	id, _, _ := strings.Cut(key, "/")
	return id
}

// Project is a project that people made; of the two that every cluster has the cluster has the IDs. Sensitive. Key: "<cluster id>/p-xxxxx", see ProjectKey.
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

// Differs is what was changed by hand of the rights that the server keeps in a cluster, while it
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
