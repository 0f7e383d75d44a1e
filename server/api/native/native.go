// Package native is /v1-drover, drover's own API: applying documents whole or not at all,
// everything that is known of clusters, machines, tokens and tunnels in the shapes of
// package views, and what the agent on a host reports this moment.
package native

import (
	"log/slog"
	"time"

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
