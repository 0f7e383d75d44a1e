// Who somebody is, and how outside directories are shown.

package views

import (
	"time"

	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/records"
)

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

// Directory is the configuration of one, without its secrets.
type Directory struct {
	Type        string                   `json:"type"` // directory
	Kind        string                   `json:"kind"`
	Enabled     bool                     `json:"enabled"`
	DisplayName string                   `json:"displayName,omitempty"`
	Access      string                   `json:"access"`
	Allowed     []string                 `json:"allowed,omitempty"`
	LDAP        *records.LDAPDirectory   `json:"ldap,omitempty"`
	OIDC        *records.OIDCDirectory   `json:"oidc,omitempty"`
	GitHub      *records.GitHubDirectory `json:"github,omitempty"`
	Changed     time.Time                `json:"changed"`
}

// OfDirectory shows one.
func OfDirectory(d records.Directory) Directory {
	d = directories.Shown(d)
	return Directory{
		Type: "directory", Kind: d.Kind, Enabled: !d.Disabled, DisplayName: d.DisplayName, Access: string(d.Access), Allowed: d.Allowed,
		LDAP: d.LDAP, OIDC: d.OIDC, GitHub: d.GitHub, Changed: d.Changed,
	}
}

// TestedDirectory is what a directory said when it was tested.
type TestedDirectory struct {
	Type string `json:"type"` // testedDirectory
	Kind string `json:"kind"`
	// Principal, Login, Name and Groups are of whom the name and the password belong to; absent where none were given.
	Principal string   `json:"principal,omitempty"`
	Login     string   `json:"login,omitempty"`
	Name      string   `json:"name,omitempty"`
	Groups    []string `json:"groups,omitempty"`
}

// OfTested shows it. Of very many groups the first are shown.
func OfTested(kind string, p directories.Person) TestedDirectory {
	groups, _ := directories.Kept(kind, p.Groups, func(string) bool { return false })
	return TestedDirectory{Type: "testedDirectory", Kind: kind, Principal: p.Principal, Login: p.Login, Name: p.Name, Groups: groups}
}
