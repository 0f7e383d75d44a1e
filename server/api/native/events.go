// Events: what changed its state, and what does so from now on.

package native

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/drover-project/drover/server/api/follow"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/views"
)

// ListEvents is GET /v1-drover/events?cluster=<id>&since=<duration>&follow=true.
func (a *API) ListEvents(c *route.Call) (route.Answer, error) {
	cluster, after := c.Query().Get("cluster"), time.Time{}
	if given := c.Query().Get("since"); given != "" {
		since, err := time.ParseDuration(given)
		if err != nil || since < 0 {
			return route.Answer{}, norman.Invalid(norman.InvalidFormat, "since", "%.40q is not a duration, as in 90m or 1h", given)
		}
		after = a.Now().Add(-since)
	}
	if c.Query().Get("follow") == "true" {
		return a.followEvents(c, cluster, after)
	}
	seen := slices.DeleteFunc(a.eventsFrom(cluster, 0, after), func(e records.Event) bool { return !seesEvent(c, e) })
	return route.Page(c, seen, records.Event.ID, a.showEvent)
}

// eventsFrom are the events of a cluster, or of all, from a revision on and not before a time.
func (a *API) eventsFrom(cluster string, revision int64, after time.Time) []records.Event {
	if a.Events == nil {
		return nil
	}
	return slices.DeleteFunc(a.Events.From(cluster, revision), func(e records.Event) bool { return e.At.Before(after) })
}

func seesEvent(c *route.Call, e records.Event) bool {
	return auth.May(c.Who, auth.Get, auth.In(e.ClusterID, auth.Event))
}

func (a *API) showEvent(e records.Event) views.Event {
	name := ""
	if d, ok := a.State.ClustersByID.First(e.ClusterID); ok {
		name = d.Value.Name
	} else if d, ok := a.State.FleetsByID.First(e.ClusterID); ok {
		name = d.Value.Name
	}
	return views.OfEvent(e, name)
}

// followEvents sends events as lines of JSON until the caller goes or may not see them any more. Who is
// so slow that events are dropped meanwhile misses them, as somebody does who asks later.
func (a *API) followEvents(c *route.Call, cluster string, after time.Time) (route.Answer, error) {
	if a.Events == nil {
		return route.NotFound(c)
	}
	c.W.Header().Set("Content-Type", "application/x-ndjson")
	norman.Uncached(c.W.Header())
	c.W.WriteHeader(http.StatusOK)
	control, lines := http.NewResponseController(c.W), json.NewEncoder(c.W)
	patient := func() { _ = control.SetWriteDeadline(time.Now().Add(follow.Patience)) } // a connection without deadlines ends by itself
	check := time.NewTicker(follow.Check)
	defer check.Stop()
	var revision int64
	sent := map[string]bool{} // of that revision, of which more may come
	for {
		more := a.Events.More()
		for _, e := range a.eventsFrom(cluster, revision, after) {
			if e.Revision > revision {
				revision = e.Revision
				clear(sent)
			}
			if sent[e.ID()] || !seesEvent(c, e) {
				continue
			}
			sent[e.ID()] = true
			patient()
			if lines.Encode(a.showEvent(e)) != nil {
				return route.Answer{}, nil
			}
		}
		patient()
		if control.Flush() != nil || c.StillAdmitted() != nil {
			return route.Answer{}, nil
		}
		select {
		case <-c.Ctx().Done():
			return route.Answer{}, nil
		case <-more:
		case <-check.C:
			if _, err := c.W.Write([]byte{'\n'}); err != nil {
				return route.Answer{}, nil
			}
		}
	}
}
