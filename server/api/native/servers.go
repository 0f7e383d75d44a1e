// The servers: which tunnels end at them, and what their workers do.

package native

import (
	"context"
	"net/http"
	"slices"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/views"
	"github.com/drover-project/drover/tunnel"
)

// Servers serves what is known of the servers of a store.
type Servers struct {
	State *state.State
	// Peers asks all servers; nil has nothing to say.
	Peers Peers
	// Workers are those of this server.
	Workers func() []reconcile.Status
}

// Peers is what all servers say of themselves.
type Peers interface {
	OpenTunnels(context.Context) []hosts.HeldTunnels
	Workers(ctx context.Context, own []reconcile.Status) []hosts.Said[[]reconcile.Status]
}

// ListTunnels is GET /v1-drover/tunnels. Servers that do not answer are named.
func (a *Servers) ListTunnels(c *route.Call) (route.Answer, error) {
	answer := apitypes.Tunnels{Data: []apitypes.Tunnel{}, Silent: map[string]string{}}
	if a.Peers != nil {
		for _, one := range a.Peers.OpenTunnels(c.Ctx()) {
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
	answer := apitypes.Workers{Data: []apitypes.Worker{}, Silent: map[string]string{}}
	if a.Peers != nil {
		for _, one := range a.Peers.Workers(c.Ctx(), a.Workers()) {
			if one.Fault != "" {
				answer.Silent[one.Server] = one.Fault
			}
			for _, w := range one.Value {
				answer.Data = append(answer.Data, apitypes.Worker{Server: one.Server, WorkerStatus: w})
			}
		}
	}
	return route.Answer{Status: http.StatusOK, Body: answer}, nil
}
