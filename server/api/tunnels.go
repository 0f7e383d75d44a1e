// The open tunnels of all servers, for people who look for a host.

package api

import (
	"net/http"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/relay"
)

// tunnelDocument is one open tunnel.
type tunnelDocument struct {
	Subject     string    `json:"subject"`
	Kind        string    `json:"kind"`
	Machine     string    `json:"machine"` // <namespace>/<name>
	Host        string    `json:"host"`
	Cluster     string    `json:"cluster"`
	Server      string    `json:"server"` // URL of the server that it ends at
	Remote      string    `json:"remote"`
	Protocol    string    `json:"protocol"`
	Since       time.Time `json:"since"`
	LastHeard   time.Time `json:"lastHeard"`
	Healthy     bool      `json:"healthy"`
	Connections int       `json:"connections"`
	Paused      int       `json:"paused"`
	Dials       int64     `json:"dials"`
	Failures    int64     `json:"failures"`
	BytesIn     int64     `json:"bytesIn"`
	BytesOut    int64     `json:"bytesOut"`
}

// listTunnels is GET /v1-drover/tunnels. Servers that do not answer are named.
func (a *API) listTunnels(c *call) (answer, error) {
	tunnels := []tunnelDocument{}
	silent := map[string]string{}
	if a.Tunnels != nil && c.who.Admin {
		for _, one := range a.Tunnels(c.ctx()) {
			if one.Fault != "" {
				silent[one.Server] = one.Fault
			}
			tunnels = append(tunnels, a.tunnelsOf(one)...)
		}
	}
	return answer{status: http.StatusOK, body: map[string]any{"data": tunnels, "silent": silent}}, nil
}

func (a *API) tunnelsOf(server relay.Held) []tunnelDocument {
	var list []tunnelDocument
	for _, s := range server.Sessions {
		doc := tunnelDocument{
			Subject: s.Subject, Kind: s.Kind, Server: server.Server, Remote: s.Remote, Protocol: s.Protocol, Since: s.Since, LastHeard: s.LastHeard,
			Healthy: s.Healthy, Connections: s.Connections, Paused: s.Paused, Dials: s.Dials, Failures: s.Failures, BytesIn: s.BytesIn, BytesOut: s.BytesOut,
		}
		doc.Machine = records.MachineOfSubject(s.Subject)
		if d, ok := a.State.Machines.Get(doc.Machine); ok {
			doc.Host, doc.Cluster = d.Value.NodeName, d.Value.ClusterName
		}
		list = append(list, doc)
	}
	return list
}
