// The servers: which tunnels end at them, and what their workers do.

package native

import (
	"context"
	"net/http"
	"slices"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/hosts/relay"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/views"
	"github.com/drover-project/drover/tunnel"
)

// Servers serves what is known of the servers of a store.
type Servers struct {
	State *state.State
	// OpenTunnels are the tunnels of all servers; nil is none.
	OpenTunnels func(context.Context) []relay.Held
	// Workers are those of all servers; nil is none.
	Workers func(context.Context) []relay.Said[[]reconcile.Status]
}

// ListTunnels is GET /v1-drover/tunnels. Servers that do not answer are named.
func (a *Servers) ListTunnels(c *route.Call) (route.Answer, error) {
	answer := views.Tunnels{Data: []views.Tunnel{}, Silent: map[string]string{}}
	if a.OpenTunnels != nil {
		for _, one := range a.OpenTunnels(c.Ctx()) {
			if one.Fault != "" && auth.May(c.Who, auth.ListAll, auth.Object{Kind: auth.Tunnel}) {
				answer.Silent[one.Server] = one.Fault
			}
			seen := slices.DeleteFunc(slices.Clone(one.Value), func(s tunnel.SessionInfo) bool {
				id, ofCluster := records.Subject(s.Subject).ClusterID()
				if !ofCluster {
					d, _ := a.State.Machines.Get(string(records.Subject(s.Subject).Machine()))
					id = d.Value.ClusterID
				}
				return !auth.May(c.Who, auth.ListAll, auth.In(id, auth.Tunnel))
			})
			one.Value = seen
			answer.Data = append(answer.Data, views.OfTunnels(one, func(key string) (records.Machine, bool) {
				d, ok := a.State.Machines.Get(key)
				return d.Value, ok
			})...)
		}
	}
	return route.Answer{Status: http.StatusOK, Body: answer}, nil
}

// ListWorkers is GET /v1-drover/workers. Servers that do not answer are named.
func (a *Servers) ListWorkers(c *route.Call) (route.Answer, error) {
	answer := views.Workers{Data: []views.Worker{}, Silent: map[string]string{}}
	if a.Workers != nil {
		for _, one := range a.Workers(c.Ctx()) {
			if one.Fault != "" {
				answer.Silent[one.Server] = one.Fault
			}
			for _, w := range one.Value {
				answer.Data = append(answer.Data, views.Worker{Server: one.Server, Status: w})
			}
		}
	}
	return route.Answer{Status: http.StatusOK, Body: answer}, nil
}
