// When the agents of a cluster are updated by themselves: a function of what is known.

package agents

import (
	"fmt"
	"maps"
	"slices"

	"github.com/drover-project/drover/server/operations"
)

// situation is what a decision is made of.
type situation struct {
	// Behind says that the cluster has agents of another release than To, that of this server; Servers are those of all servers.
	Behind  bool
	To      string
	Servers []string
	// Held is why nothing begins on the cluster now: its pin, a pause, its window, an operation; empty for none.
	Held string
	// Updates are those of all clusters, of agents to To.
	Updates []operations.Operation
}

// decide says whether the update begins now, or why one that is due does not.
func decide(s situation) (why string, now bool) {
	if !s.Behind {
		return "", false
	}
	if i := slices.IndexFunc(s.Servers, func(release string) bool { return release != s.To }); i >= 0 {
		return fmt.Sprintf("a server of %s runs beside this one of %s", s.Servers[i], s.To), false
	}
	for _, o := range s.Updates {
		switch {
		case !o.State.Ended():
			return fmt.Sprintf("operation %s updates those of %s first", o.ID, o.Subject), false
		case o.State != operations.Succeeded:
			return fmt.Sprintf("operation %s, which updated those of %s to %s, has ended as %s; drover operations retry %s, or a further one by drover agents update, goes on with it", o.ID, o.Subject, s.To, o.State, o.ID), false
		}
	}
	return s.Held, s.Held == ""
}

// latest leaves of the updates of each cluster the one that was asked for last: what failed before it was tried again.
func latest(all []operations.Operation) []operations.Operation {
	last := map[string]operations.Operation{}
	older := func(a, b operations.Operation) int { return a.Created.Compare(b.Created) }
	for _, o := range slices.SortedFunc(slices.Values(all), older) {
		last[o.Subject] = o
	}
	return slices.SortedFunc(maps.Values(last), older)
}
