// Outside directories: where people are known who have no password of this server.

package records

import "time"

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
	// Disabled keeps the configuration and lets nobody in by it.
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
type LDAPDirectory struct {
	// URL is ldaps://host[:port], or ldap:// with StartTLS or Plaintext.
	URL      string `json:"url"`
	StartTLS bool   `json:"startTLS,omitempty"`
	// Plaintext sends passwords that anybody on the way can read.
	Plaintext bool `json:"plaintext,omitempty"`
	// CA is PEM of the authorities to trust; empty for those of the system.
	CA string `json:"ca,omitempty"`
	// BindDN and BindPassword are of the account that looks for people and groups.
	BindDN       string `json:"bindDN"`
	BindPassword string `json:"bindPassword,omitempty"`

	Users  LDAPUsers  `json:"users"`
	Groups LDAPGroups `json:"groups,omitzero"`
}

// LDAPUsers is where people are, and by which attributes they are known.
type LDAPUsers struct {
	Base string `json:"base"`
	// Filter is one that entries of people match; empty for the usual one of the kind.
	Filter string `json:"filter,omitempty"`
	// Login and Name are attributes; empty for uid and cn, in an Active Directory sAMAccountName and displayName.
	Login string `json:"login,omitempty"`
	Name  string `json:"name,omitempty"`
}

// LDAPGroups is where groups are; without a Base there are none.
type LDAPGroups struct {
	Base   string `json:"base,omitempty"`
	Filter string `json:"filter,omitempty"`
	// Member is the attribute that holds the DNs of members; empty for member.
	Member string `json:"member,omitempty"`
	// Nested also finds the groups that groups are in.
	Nested bool `json:"nested,omitempty"`
}

// OIDCDirectory is how a provider of OpenID Connect is asked.
type OIDCDirectory struct {
	Issuer       string   `json:"issuer"`
	ClientID     string   `json:"clientID"`
	ClientSecret string   `json:"clientSecret,omitempty"`
	CA           string   `json:"ca,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
	// GroupsClaim, LoginClaim and NameClaim are claims of the ID token or of the userinfo endpoint; empty for groups,
	// preferred_username and name.
	GroupsClaim string `json:"groupsClaim,omitempty"`
	LoginClaim  string `json:"loginClaim,omitempty"`
	NameClaim   string `json:"nameClaim,omitempty"`
}

// GitHubDirectory is how github.com or a GitHub Enterprise Server is asked.
type GitHubDirectory struct {
	// URL is of an Enterprise Server; empty for https://github.com.
	URL          string `json:"url,omitempty"`
	CA           string `json:"ca,omitempty"`
	ClientID     string `json:"clientID"`
	ClientSecret string `json:"clientSecret,omitempty"`
}

// DirectoryToken is by what a directory is asked about a user who is away: a refresh token of OpenID Connect, or an access
// token of GitHub. Sensitive. Key: the ID of the user.
type DirectoryToken struct {
	Kind  string `json:"kind"`
	Token string `json:"token"`
}
