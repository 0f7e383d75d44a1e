// Lists that go on: each thing as it is, and again whenever it changes, a line each.

package native

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

// followCheck is how often a follower's token is looked at while nothing happens, and an
// empty line is sent, by which a reader that is gone is found.
const followCheck = 2 * time.Second

// followMachines sends machines as lines of JSON until the caller goes or may not see them
// any more. Who falls too far behind gets all of them anew.
func (a *API) followMachines(c *route.Call) (route.Answer, error) {
	cluster := c.Query().Get("cluster")
	c.W.Header().Set("Content-Type", "application/x-ndjson")
	norman.Uncached(c.W.Header())
	c.W.WriteHeader(http.StatusOK)
	control, lines := http.NewResponseController(c.W), json.NewEncoder(c.W)
	send := func(d store.Document[records.Machine]) bool {
		return cluster != "" && d.Value.ClusterID != cluster || lines.Encode(views.OfMachine(d)) == nil
	}
	flush := func() bool {
		_ = control.SetWriteDeadline(time.Now().Add(liveWrite)) // a connection without deadlines ends by itself
		return control.Flush() == nil
	}
	check := time.NewTicker(followCheck)
	defer check.Stop()
	for {
		cursor := a.Changes.Now()
		for _, d := range a.State.Machines.List() {
			if !send(d) {
				return route.Answer{}, nil
			}
		}
		for behind := false; !behind; {
			changes, after, _, more, ok := a.Changes.Next(cursor)
			cursor, behind = after, !ok
			for _, change := range changes {
				if d, exists := a.State.Machines.Get(change.Key); exists && change.Collection == subscribe.Machines && !send(d) {
					return route.Answer{}, nil
				}
			}
			if !flush() || c.StillAdmitted() != nil {
				return route.Answer{}, nil
			}
			if behind || len(changes) > 0 {
				continue
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
}
