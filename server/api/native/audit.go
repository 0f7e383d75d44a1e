// The audit log of the server that is asked. Each server has a log of its own.

package native

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/audit"
)

const (
	usualEntries = 200
	mostEntries  = 5000
)

// Audit serves the log.
type Audit struct {
	// Log is the log; nil answers 503.
	Log *audit.Log
	Now func() time.Time
}

// List is GET /v1-drover/audit?user=&verb=&kind=&object=&since=<duration>&limit=&follow=true.
func (a Audit) List(c *route.Call) (route.Answer, error) {
	if a.Log == nil {
		return route.Answer{}, norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "this server keeps no audit log")
	}
	q := c.Query()
	since, err := route.Since(c, a.Now())
	if err != nil {
		return route.Answer{}, err
	}
	wanted := audit.Query{User: q.Get("user"), Verb: q.Get("verb"), Kind: q.Get("kind"), Object: q.Get("object"), Since: since}
	limit := usualEntries
	if given := q.Get("limit"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > mostEntries {
			return route.Answer{}, norman.Invalid(norman.InvalidOption, "limit", "%.40q is not a number from 1 to %d", given, mostEntries)
		}
		limit = n
	}
	found, err := a.Log.Newest(c.Ctx(), wanted, limit)
	if err != nil {
		return route.Answer{}, err
	}
	if q.Get("follow") == "true" {
		return a.follow(c, wanted, found)
	}
	answer := apitypes.Audit{Server: a.Log.Server, Level: int(a.Log.Level()), Data: []audit.Entry{}, More: found.More, Torn: found.Torn}
	_, answer.Lost = a.Log.Totals()
	answer.Data = append(answer.Data, found.Entries...)
	return route.Answer{Status: http.StatusOK, Body: answer}, nil
}

// errGone ends a follower who does not read.
var errGone = errors.New("the client is gone")

// follow sends what was found, and what comes, as lines of JSON until the caller goes or may not see it any more.
func (a Audit) follow(c *route.Call, wanted audit.Query, found audit.Found) (route.Answer, error) {
	lines := beginFollow(c)
	defer lines.End()
	send := func(e audit.Entry) error {
		if !lines.Send(e) {
			return errGone
		}
		return nil
	}
	for _, e := range found.Entries {
		if send(e) != nil {
			return route.Answer{}, nil
		}
	}
	for place := found.End; ; {
		more := a.Log.More()
		var err error
		if place, err = a.Log.From(c.Ctx(), place, wanted, send); err != nil || !lines.Wait(more) {
			return route.Answer{}, nil
		}
	}
}
