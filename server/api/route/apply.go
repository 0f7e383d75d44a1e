// Who may apply which documents.

package route

import (
	"fmt"
	"net/http"

	"github.com/drover-project/drover/server/admission"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
)

// MayApply refuses a document of a cluster that the caller may not change, or, where there is none, of
// one that they may not make. Of a cluster that they do not see they learn what any user learns who
// chooses its name: that it is taken.
func (c *Call) MayApply(existing *records.Cluster) error {
	switch {
	case existing == nil && auth.May(c.Who, auth.Create, auth.Object{Kind: auth.Cluster}):
		return nil
	case existing == nil:
		return norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "user %s may not create clusters", c.Who.Username)
	case !auth.May(c.Who, auth.Get, auth.OfCluster(existing.ID)):
		return fmt.Errorf("the name is taken: %w", records.ErrNotUnique)
	case !auth.May(c.Who, auth.Update, auth.OfCluster(existing.ID)):
		return norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "user %s may not change cluster %s", c.Who.Username, existing.Name)
	}
	return nil
}

// Leave reads force, uninstall and agent, each true or absent, from the query of a removal.
func (c *Call) Leave() records.Leave {
	is := func(name string) bool { return c.Query().Get(name) == "true" }
	return records.Leave{By: c.Who.UserID, Force: is("force"), Uninstall: is("uninstall"), Agent: is("agent")}
}

// Turn is what becomes of a removal while another operation is under way: it waits, as clients of Rancher's API know of
// no refusal there, unless busy is refuse.
func (c *Call) Turn() admission.Turn {
	if c.Query().Get("busy") == "refuse" {
		return admission.Refuse
	}
	return admission.Queue
}
