// The tunnels, as they are when asked.

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/tunnel"
)

// Tunnels are what is shown of the ways to hosts.
type Tunnels interface {
	Sessions() []tunnel.SessionInfo
	Stats() tunnel.Stats
}

type collector struct {
	tunnels Tunnels
	now     func() time.Time
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("drover_tunnel_"+name, help, labels, nil)
}

var (
	sessions    = desc("sessions", "Open tunnels.", "kind")
	connections = desc("connections", "Open connections through the tunnels of one host or cluster.", "subject", "kind")
	paused      = desc("paused_connections", "Connections whose host asked to be sent nothing.", "subject", "kind")
	heard       = desc("last_heard_seconds", "Time since anything was heard of a host or cluster, of its tunnels the latest.", "subject", "kind")
	opened      = desc("opened_total", "Tunnels opened.")
	reconnects  = desc("reconnects_total", "Tunnels opened by a host that had one before.")
	ended       = desc("ended_total", "Tunnels that have ended.")
	dials       = desc("dials_total", "Dials through tunnels.")
	failures    = desc("dial_failures_total", "Dials that came to nothing.", "reason")
	latency     = desc("dial_seconds", "Time from a dial to the first byte of the answer.")
	traffic     = desc("bytes_total", "Payload through tunnels, seen from the server.", "direction")
)

// Describe implements prometheus.Collector.
func (*collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sessions, connections, paused, heard, opened, reconnects, ended, dials, failures, latency, traffic} {
		out <- d
	}
}

// peer is one subject's tunnels of one kind, taken together.
type peer struct{ subject, kind string }

type together struct {
	connections, paused int
	heard               time.Time
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	byKind, byPeer := map[string]int{}, map[peer]together{}
	for _, one := range c.tunnels.Sessions() {
		byKind[one.Kind]++
		key := peer{one.Subject, one.Kind}
		sum := byPeer[key]
		sum.connections += one.Connections
		sum.paused += one.Paused
		if one.LastHeard.After(sum.heard) {
			sum.heard = one.LastHeard
		}
		byPeer[key] = sum
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for kind, n := range byKind {
		gauge(sessions, float64(n), kind)
	}
	now := c.now()
	for key, sum := range byPeer {
		gauge(connections, float64(sum.connections), key.subject, key.kind)
		gauge(paused, float64(sum.paused), key.subject, key.kind)
		gauge(heard, now.Sub(sum.heard).Seconds(), key.subject, key.kind)
	}
	c.totals(out)
}

func (c *collector) totals(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	all := c.tunnels.Stats()
	counter(opened, all.Opened)
	counter(reconnects, all.Reconnects)
	counter(ended, all.Ended)
	counter(dials, all.Dials)
	for reason, n := range all.Failures {
		counter(failures, n, reason)
	}
	counter(traffic, all.BytesIn, "in")
	counter(traffic, all.BytesOut, "out")
	out <- prometheus.MustNewConstHistogram(latency, all.Latency.Count, all.Latency.Sum, all.Latency.Buckets)
}
