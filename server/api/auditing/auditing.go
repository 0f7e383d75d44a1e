// Package auditing shows the audit log of the server that is asked. Each server has a log of its own.
package auditing

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/views"
)

const (
	defaultLimit = 200
	maxLimit     = 5000
	// check is how often a follower's token is looked at while nothing happens, and an empty line is sent.
	check = 2 * time.Second
	// accept is how long a follower may take to take in what it is sent.
	accept = 30 * time.Second
)

// API serves the log.
type API struct {
	// Log is the log; nil answers 503.
	Log *audit.Log
	Now func() time.Time
}

// List is GET /v1-drover/audit?user=&verb=&kind=&object=&since=<duration>&limit=&follow=true.
func (a *API) List(c *route.Call) (route.Answer, error) {
	if a.Log == nil {
		return route.Answer{}, norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "this server keeps no audit log")
	}
	q := c.Query()
	wanted := audit.Query{User: q.Get("user"), Verb: q.Get("verb"), Kind: q.Get("kind"), Object: q.Get("object")}
	if given := q.Get("since"); given != "" {
		since, err := time.ParseDuration(given)
		if err != nil || since < 0 {
			return route.Answer{}, norman.Invalid(norman.InvalidFormat, "since", "%.40q is not a duration, as in 90m or 1h", given)
		}
		wanted.Since = a.Now().Add(-since)
	}
	limit := defaultLimit
	if given := q.Get("limit"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > maxLimit {
			return route.Answer{}, norman.Invalid(norman.InvalidOption, "limit", "%.40q is not a number from 1 to %d", given, maxLimit)
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
	answer := views.Audit{Server: a.Log.Server, Level: int(a.Log.Level()), Data: []audit.Entry{}, More: found.More, Torn: found.Torn}
	_, answer.Lost = a.Log.Totals()
	answer.Data = append(answer.Data, found.Entries...)
	return route.Answer{Status: http.StatusOK, Body: answer}, nil
}

// errGone ends a follower who does not read.
var errGone = errors.New("the client is gone")

// follow sends what was found, and what comes, as lines of JSON until the caller goes or may not see it any more.
func (a *API) follow(c *route.Call, wanted audit.Query, found audit.Found) (route.Answer, error) {
	c.W.Header().Set("Content-Type", "application/x-ndjson")
	norman.Uncached(c.W.Header())
	c.W.WriteHeader(http.StatusOK)
	control, lines := http.NewResponseController(c.W), json.NewEncoder(c.W)
	patient := func() { _ = control.SetWriteDeadline(time.Now().Add(accept)) } // a connection without deadlines ends by itself
	send := func(e audit.Entry) error {
		patient()
		if lines.Encode(e) != nil {
			return errGone
		}
		return nil
	}
	for _, e := range found.Entries {
		if send(e) != nil {
			return route.Answer{}, nil
		}
	}
	tick := time.NewTicker(check)
	defer tick.Stop()
	for place := found.End; ; {
		more := a.Log.More()
		var err error
		if place, err = a.Log.From(c.Ctx(), place, wanted, send); err != nil {
			return route.Answer{}, nil
		}
		patient()
		if control.Flush() != nil || c.StillAdmitted() != nil {
			return route.Answer{}, nil
		}
		select {
		case <-c.Ctx().Done():
			return route.Answer{}, nil
		case <-more:
		case <-tick.C:
			if _, err := c.W.Write([]byte{'\n'}); err != nil {
				return route.Answer{}, nil
			}
		}
	}
}
