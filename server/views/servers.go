// The servers, with the tunnels that end at them and their workers.

package views

import (
	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/records"
)

// OfTunnels shows the tunnels of one server; machine finds the machine of a tunnel.
func OfTunnels(server hosts.HeldTunnels, machine func(key string) (records.Machine, bool)) []apitypes.Tunnel {
	tunnels := make([]apitypes.Tunnel, 0, len(server.Value))
	for _, s := range server.Value {
		t := apitypes.Tunnel{
			Subject: s.Subject, Kind: s.Kind, Server: server.Server, Remote: s.Remote, Agent: s.Agent, Protocol: s.Protocol, Since: s.Since, LastHeard: s.LastHeard,
			Healthy: s.Healthy, Connections: s.Connections, Paused: s.Paused, Dials: s.Dials, Failures: s.Failures, BytesIn: s.BytesIn, BytesOut: s.BytesOut,
		}
		t.Machine = string(records.Subject(s.Subject).Machine())
		if m, ok := machine(t.Machine); ok {
			t.Host, t.Cluster = m.NodeName, m.ClusterName
		}
		tunnels = append(tunnels, t)
	}
	return tunnels
}
