// The servers, with the tunnels that end at them and their workers.

package views

import (
	"time"

	"github.com/drover-project/drover/server/hosts/relay"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
)

// Tunnel is one open tunnel of a host.
type Tunnel struct {
	Subject     string    `json:"subject"`
	Kind        string    `json:"kind"`
	Machine     string    `json:"machine"` // <namespace>/<name>
	Host        string    `json:"host"`
	Cluster     string    `json:"cluster"`
	Server      string    `json:"server"` // URL of the server that it ends at
	Remote      string    `json:"remote"`
	Agent       string    `json:"agent,omitempty"` // release of drover; absent when it is not known
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

// OfTunnels shows the tunnels of one server; machine finds the machine of a tunnel.
func OfTunnels(server relay.Held, machine func(key string) (records.Machine, bool)) []Tunnel {
	tunnels := make([]Tunnel, 0, len(server.Value))
	for _, s := range server.Value {
		t := Tunnel{
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

// Tunnels is the answer with all tunnels; Silent says of servers that did not answer why.
type Tunnels struct {
	Data   []Tunnel          `json:"data"`
	Silent map[string]string `json:"silent"`
}

// Worker is what a worker does on one server.
type Worker struct {
	// Server is its URL.
	Server string `json:"server"`
	reconcile.Status
}

// Workers is the answer with the workers of all servers; Silent says of servers that did not answer why.
type Workers struct {
	Data   []Worker          `json:"data"`
	Silent map[string]string `json:"silent"`
}
