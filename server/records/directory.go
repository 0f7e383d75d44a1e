// Outside directories: where people are known who have no password of this server.

package records

import (
	"time"

	"github.com/drover-project/drover/apitypes"
)

// Kinds of directories, which are also their names: there is one of each at most, as clients of Rancher expect, and what
// people and groups are called begins with it.
const (
	OpenLDAP        = "openldap"
	ActiveDirectory = "activedirectory"
	GenericOIDC     = "genericoidc"
	GitHub          = "github"
)

// AccessMode says who of a directory may log in.
type AccessMode string

// Access modes.
const (
	// Unrestricted is everybody whom the directory knows.
	Unrestricted AccessMode = "unrestricted"
	// Restricted is whom the list names, and who has a role in a cluster or a project.
	Restricted AccessMode = "restricted"
	// Required is whom the list names.
	Required AccessMode = "required"
)

// Directory is the configuration of one. Sensitive. Key: Kind.
type Directory struct {
	Kind string `json:"kind"`
	// Disabled keeps the configuration and lets no user in by it.
	Disabled bool `json:"disabled,omitempty"`
	// DisplayName is what people who log in read; empty for the kind.
	DisplayName string     `json:"displayName,omitempty"`
	Access      AccessMode `json:"access,omitempty"`
	// Allowed are principals of people and groups, which Restricted and Required ask for.
	Allowed []string         `json:"allowed,omitempty"`
	LDAP    *LDAPDirectory   `json:"ldap,omitempty"`
	OIDC    *OIDCDirectory   `json:"oidc,omitempty"`
	GitHub  *GitHubDirectory `json:"github,omitempty"`
	Changed time.Time        `json:"changed,omitzero"`
}

// LDAPDirectory is how an OpenLDAP or an Active Directory is asked.
type LDAPDirectory = apitypes.LDAPDirectory

// LDAPUsers is where people are, and by which attributes they are known.
type LDAPUsers = apitypes.LDAPUsers

// LDAPGroups is where groups are; without a Base there are none.
type LDAPGroups = apitypes.LDAPGroups

// OIDCDirectory is how a provider of OpenID Connect is asked.
type OIDCDirectory = apitypes.OIDCDirectory

// GitHubDirectory is how github.com or a GitHub Enterprise Server is asked.
type GitHubDirectory = apitypes.GitHubDirectory

// DirectoryToken is by what a directory is asked about a user who is away: a refresh token of OpenID Connect, or an access
// token of GitHub. Sensitive. Key: the ID of the user.
type DirectoryToken struct {
	Kind  string `json:"kind"`
	Token string `json:"token"`
}
