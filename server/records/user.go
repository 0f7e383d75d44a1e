// Users: people and programs that log in.

package records

import (
	"slices"
	"time"

	"github.com/drover-project/drover/server/roles"
)

// User is a person or program that may log in. Sensitive. Key: ID.
type User struct {
	ID           string `json:"id"`
	Username     string `json:"username"`
	DisplayName  string `json:"displayName,omitempty"`
	Description  string `json:"description,omitempty"`
	PasswordHash string `json:"passwordHash,omitempty"`
	// Admin is an administrator of data from before there were bindings: a start of the server
	// makes a binding of it.
	Admin      bool `json:"admin,omitempty"`
	Disabled   bool `json:"disabled,omitempty"`
	MustChange bool `json:"mustChangePassword,omitempty"`
	// Labels and Annotations are of the user as an object of Kubernetes.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Created     time.Time         `json:"created"`
	CreatorID   string            `json:"creatorID,omitempty"`
	// Elsewhere are the principals by which directories know the user, and Groups those of the
	// groups that they were found in when a directory was last asked.
	Elsewhere []string `json:"principals,omitempty"`
	Groups    []string `json:"groups,omitempty"`
	// Asked is when a directory last said so.
	Asked time.Time `json:"asked,omitzero"`
}

// Principal is the one by which this server knows the user.
func (u User) Principal() string { return roles.LocalUser(u.ID) }

// Principals are all texts by which a binding may name the user: their own and those of their groups.
func (u User) Principals() []string {
	all := slices.Concat([]string{u.Principal()}, u.Elsewhere, u.Groups)
	slices.Sort(all)
	return slices.Compact(all)
}

// UserName is a login name that is taken. Sensitive. Key: the name in lower case.
type UserName struct {
	UserID string `json:"userID"`
}

// Preference is what a dashboard keeps for a user. Key: "<user id>/<name>".
type Preference struct {
	UserID  string    `json:"userID"`
	Name    string    `json:"name"`
	Value   string    `json:"value"`
	Created time.Time `json:"created"`
}

// Key is where it is stored.
func (p Preference) Key() string { return p.UserID + "/" + p.Name }
