// WATCH: where a stream begins.

package planapi

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/planapi/fanout"
)

// A watch whose client does not say how long it wants it ends after 30 to 60 minutes,
// and none is longer than that.
const maxWatch = time.Hour

// begin is Kubernetes' rule: a streamed list sends everything and marks its end; a
// watch from nowhere sends everything; one from a version sends what came after it.
func (o listOptions) begin(current int64) fanout.Start {
	switch {
	case o.initial != nil && *o.initial:
		return fanout.Start{Initial: true, Mark: true}
	case o.known:
		return fanout.Start{Since: o.version}
	case o.initial != nil:
		return fanout.Start{Since: current}
	}
	return fanout.Start{Initial: true}
}

func (o listOptions) duration() time.Duration {
	if o.timeout <= 0 || o.timeout > maxWatch {
		return maxWatch/2 + rand.N(maxWatch/2) //nolint:gosec // spreads load, nothing secret
	}
	// A little early, so that the end is ours and in order: the client's own limit is the same.
	return o.timeout - min(o.timeout/10, 2*time.Second)
}

// watch opens a stream. On HTTP/1.1 the handler returns and leaves it running.
func (a *API) watch(w http.ResponseWriter, r *http.Request, who auth.Identity, o listOptions) error {
	from := o.begin(a.state.Store.Revision())
	if a.tooOld(o.scope, from) {
		return expired("too old resource version: %d: what was removed since then is not known any more; list again", from.Since)
	}
	a.hub.Serve(w, r, fanout.Watch{
		Scope: o.scope, Start: from, Bookmarks: o.bookmarks, Machine: who.PlanSecret != "", Duration: o.duration(),
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
