// How clusters and machines are asked to go, in the query of a DELETE.

package route

import (
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/turns"
)

// Leave reads force, uninstall and agent, each true or absent, from the query of a removal.
func (c *Call) Leave() records.Leave {
	is := func(name string) bool { return c.Query().Get(name) == "true" }
	return records.Leave{By: c.Who.UserID, Force: is("force"), Uninstall: is("uninstall"), Agent: is("agent")}
}

// Turn is what becomes of a removal while another operation is under way: it waits, as clients of Rancher's API know of
// no refusal there, unless busy is refuse.
func (c *Call) Turn() turns.Turn {
	if c.Query().Get("busy") == "refuse" {
		return turns.Refuse
	}
	return turns.Queue
}
