// How clusters and machines are asked to go, in the query of a DELETE.

package route

import "github.com/drover-project/drover/server/records"

// Leave reads force, uninstall and agent, each true or absent, from the query of a removal.
func (c *Call) Leave() records.Leave {
	is := func(name string) bool { return c.Query().Get(name) == "true" }
	return records.Leave{By: c.Who.UserID, Force: is("force"), Uninstall: is("uninstall"), Agent: is("agent")}
}
