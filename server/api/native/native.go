// Package native is /v1-drover, drover's own API: applying documents whole or not at all,
// everything that is known of clusters, machines, tokens and tunnels in the shapes of
// package views, and what the agent on a host reports this moment.
package native

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/state"
)

// API is /v1-drover, a part for each kind of thing.
type API struct {
	Clusters   Clusters
	Machines   Machines
	Fleets     Fleets
	Operations Operations
	Snapshots  Snapshots
	Joining    Joining
	Why        Why
	Events     Events
	Objects    Objects
	Versions   Versions
	Servers    Servers
	Backups    Backups
	Audit      Audit
}

// Common is what the parts share.
type Common struct {
	State *state.State
	// Changes are what followers of lists see.
	Changes *subscribe.Feed
	Now     func() time.Time
	Logger  *slog.Logger
}

// maxAsked is the largest body of a request that asks for something, in bytes.
const maxAsked = 64 << 10

// readAsked reads a JSON body whose fields are all known. Form says what it is.
func readAsked(c *route.Call, into any, form string) error {
	return readBody(c, maxAsked, into, form, false)
}

// readBody reads a JSON body of at most so many bytes, whose fields are all known.
func readBody(c *route.Call, limit int64, into any, form string, mayBeEmpty bool) error {
	text, err := norman.ReadBody(c.W, c.R, limit)
	if err != nil || mayBeEmpty && len(bytes.TrimSpace(text)) == 0 {
		return err
	}
	if err := decode(text, into); err != nil {
		return norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "the body is not %s: %.200s", form, err.Error()) // which repeats the names of fields
	}
	return nil
}

// decode reads one JSON value whose fields are all known, and nothing after it.
func decode(text []byte, into any) error {
	read := json.NewDecoder(bytes.NewReader(text))
	read.DisallowUnknownFields()
	if err := read.Decode(into); err != nil {
		return err
	}
	if _, err := read.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows after the end of the value")
	}
	return nil
}

// VerbHandlers are what the server does for verbs (apitypes/verbs), by where those are.
func (a API) VerbHandlers() map[string]route.Handler {
	of, on, fleets, long := a.Clusters, a.Machines, a.Fleets, a.Operations
	return map[string]route.Handler{
		"clusters/export":         route.Of(of.Find, of.Export),
		"clusters/rehearsals/set": route.Of(of.Find, of.SetRehearsals),
		"clusters/agent/forget":   route.Of(of.Find, a.Joining.ForgetAgent),
		"clusters/token":          route.Of(of.Find, a.Joining.Reveal),
		"clusters/token/add":      route.Of(of.Find, a.Joining.AddToken),
		"machines/remove":         route.Of(on.Find, on.Remove),
		"clusters/pause":          route.Of(of.Find, of.Pause),
		"clusters/upgrade":        route.Of(of.Find, of.Upgrade),
		"machines/labels":         route.Of(on.Find, on.Label),
		"clusters/resume":         route.Of(of.Find, of.Resume),
		"clusters/window/set":     route.Of(of.Find, of.SetWindow),
		"clusters/operations":     route.Of(of.Find, long.Begin),
		"clusters/agents/pin":     route.Of(of.Find, on.PinOfCluster),
		"fleets/operations":       route.Of(fleets.Find, fleets.Begin),
		"fleets/agents/pin":       route.Of(fleets.Find, on.PinOfFleet),
		"fleets/remove":           route.Of(fleets.Find, fleets.Remove),
		"machines/rejoin":         route.Of(on.Find, on.AllowRejoin),
		"operations/abort":        route.Of(long.Find, long.Abort),
		"operations/retry":        route.Of(long.Find, long.Retry),
		"operations/hurry":        route.Of(long.Find, long.Hurry),
	}
}
