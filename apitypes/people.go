// Users, their tokens, and the directories that know them.

package apitypes

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

// HeldRole is a role that a user has.
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
	Type        string           `json:"type"` // directory
	Kind        string           `json:"kind"`
	Enabled     bool             `json:"enabled"`
	DisplayName string           `json:"displayName,omitempty"`
	Access      string           `json:"access"`
	Allowed     []string         `json:"allowed,omitempty"`
	LDAP        *LDAPDirectory   `json:"ldap,omitempty"`
	OIDC        *OIDCDirectory   `json:"oidc,omitempty"`
	GitHub      *GitHubDirectory `json:"github,omitempty"`
	Changed     time.Time        `json:"changed"`
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

// Token is an API token, without its key.
type Token struct {
	Type        string    `json:"type"` // token
	Name        string    `json:"name"`
	UserID      string    `json:"userId"`
	Description string    `json:"description"`
	ClusterID   string    `json:"clusterId,omitempty"`
	Session     bool      `json:"session"`
	Enabled     bool      `json:"enabled"`
	Created     time.Time `json:"created"`
	Expires     time.Time `json:"expires,omitzero"` // absent for never
	// LastUsed is when a request came with it last; absent when that is not known.
	LastUsed time.Time `json:"lastUsed,omitzero"`
}

// LDAPDirectory is how an OpenLDAP or an Active Directory is asked.
type LDAPDirectory struct {
	// URL is ldaps://host[:port], or ldap:// with StartTLS or Plaintext.
	URL      string `json:"url"`
	StartTLS bool   `json:"startTLS,omitempty"`
	// Plaintext sends passwords that can be read on the way.
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
