// Who somebody is.

package views

import "time"

// WhoAmI is the caller.
type WhoAmI struct {
	Type     string `json:"type"` // whoami
	UserID   string `json:"userId"`
	Username string `json:"username"`
	Name     string `json:"name,omitempty"`
	// Token is the name of the token that they asked with, and Expires its end; absent for never.
	Token   string    `json:"token"`
	Expires time.Time `json:"expires,omitzero"`
	// Admin says that they may do everything.
	Admin              bool       `json:"admin"`
	MustChangePassword bool       `json:"mustChangePassword,omitempty"`
	Roles              []HeldRole `json:"roles"`
	// Principals are those by which directories know them, and Groups those of their groups, as they were at Asked.
	Principals []string  `json:"principals,omitempty"`
	Groups     []string  `json:"groups,omitempty"`
	Asked      time.Time `json:"asked,omitzero"`
}

// HeldRole is a role that somebody has.
type HeldRole struct {
	Binding string `json:"binding"`
	Role    string `json:"role"`
	// ClusterID and Cluster, and ProjectID, are where it holds; absent for the whole server.
	ClusterID string `json:"clusterId,omitempty"`
	Cluster   string `json:"clusterName,omitempty"`
	ProjectID string `json:"projectId,omitempty"`
	// Group is the principal of the group by which they have it; absent for their own.
	Group string `json:"group,omitempty"`
}
