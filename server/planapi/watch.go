// WATCH: where a stream begins.

package planapi

import (
	"net/http"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/planapi/fanout"
)

// watch opens a stream. On HTTP/1.1 the handler returns and leaves it running.
func (a *API) watch(w http.ResponseWriter, r *http.Request, who auth.Identity, o listOptions) error {
	from := fanout.Start(o.Begin(a.state.Store.Revision()))
	if a.tooOld(o.scope, from) {
		return expired("too old resource version: %d: what was removed since then is not known any more; list again", from.Since)
	}
	a.hub.Serve(w, r, fanout.Watch{
		Scope: o.scope, Start: from, Bookmarks: o.Bookmarks, Machine: who.PlanSecret != "", Duration: o.Duration(),
		Until: func(end func()) func() { return a.until(r, end) },
	})
	return nil
}

// tooOld says whether a watch would miss removals; found out here, it is an HTTP status.
func (a *API) tooOld(s fanout.Scope, from fanout.Start) bool {
	if from.Initial {
		return false
	}
	if s.Key != "" {
		if _, ok := a.state.PlanSecrets.Get(s.Key); ok {
			return false // its present state is all that a watch of one Secret needs
		}
	}
	return !a.hub.Remembers(from.Since)
}
