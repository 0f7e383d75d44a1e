// What is shown once to all who may do the same.

package auth

import (
	"encoding/hex"
	"fmt"
)

// anybody is the ID of nobody in particular: no user has it.
const anybody = "(anybody)"

// Anybody is who may do what who may do, and has no name, no token and nothing of their own: what is made for them holds
// nothing of a person, and may be shown to all whose Rights are the same.
func (who Identity) Anybody() Identity {
	if who.UserID == "" {
		return Identity{}
	}
	return Identity{UserID: anybody, Grants: who.Grants, Admin: who.Admin, ClusterID: who.ClusterID, MustChangePassword: who.MustChangePassword}
}

// Rights names what somebody may do to all that is nobody's own. It is different for two of whom one may do more.
func (who Identity) Rights() string {
	sum := who.Grants.Sum()
	return fmt.Sprintf("%v %v %v %q %q %s", who.UserID != "", who.Admin, who.MustChangePassword, who.ClusterID, who.PlanSecret, hex.EncodeToString(sum[:]))
}
