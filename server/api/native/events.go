// Events: what changed its state, and what does so from now on.

package native

import (
	"slices"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/controllers/events"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/views"
)

// Events serves changes of states.
type Events struct {
	*Common
	// Log has them; nil has none.
	Log *events.Log
}

// List is GET /v1-drover/events?cluster=<id>&since=<duration>&follow=true.
func (a Events) List(c *route.Call) (route.Answer, error) {
	cluster := c.Query().Get("cluster")
	after, err := route.Since(c, a.Now())
	if err != nil {
		return route.Answer{}, err
	}
	if c.Query().Get("follow") == "true" {
		return a.follow(c, cluster, after)
	}
	seen := slices.DeleteFunc(a.from(cluster, 0, after), func(e records.Event) bool { return !seesEvent(c, e) })
	return route.Page(c, seen, records.Event.ID, a.show)
}

// from are the events of a cluster, or of all, from a revision on and not before a time.
func (a Events) from(cluster string, revision int64, after time.Time) []records.Event {
	if a.Log == nil {
		return nil
	}
	return slices.DeleteFunc(a.Log.From(cluster, revision), func(e records.Event) bool { return e.At.Before(after) })
}

func seesEvent(c *route.Call, e records.Event) bool {
	return auth.May(c.Who, auth.Get, auth.In(e.ClusterID, auth.Event))
}

func (a Events) show(e records.Event) apitypes.Event {
	name := ""
	if d, ok := a.State.ClustersByID.First(e.ClusterID); ok {
		name = d.Value.Name
	} else if d, ok := a.State.FleetsByID.First(e.ClusterID); ok {
		name = d.Value.Name
	}
	return views.OfEvent(e, name)
}

// follow sends events as lines of JSON until the caller goes or may not see them any more. Who is
// so slow that events are dropped meanwhile misses them, as a client does that asks later.
func (a Events) follow(c *route.Call, cluster string, after time.Time) (route.Answer, error) {
	if a.Log == nil {
		return route.NotFound(c)
	}
	lines := beginFollow(c)
	defer lines.End()
	var revision int64
	sent := map[string]bool{} // of that revision, of which more may come
	for {
		more := a.Log.More()
		for _, e := range a.from(cluster, revision, after) {
			if e.Revision > revision {
				revision = e.Revision
				clear(sent)
			}
			if sent[e.ID()] || !seesEvent(c, e) {
				continue
			}
			sent[e.ID()] = true
			if !lines.Send(a.show(e)) {
				return route.Answer{}, nil
			}
		}
		if !lines.Wait(more) {
			return route.Answer{}, nil
		}
	}
}
