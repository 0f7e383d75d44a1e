// What the server's workers do, of this server. Most of them run on the server that leads.

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/server/reconcile"
)

// workers collects how they stand.
type workers struct{ status func() []reconcile.Status }

// measure is one number of a worker.
type measure struct {
	*prometheus.Desc
	kind prometheus.ValueType
	of   func(reconcile.Status) float64
}

func ofWorkers(name, help string, kind prometheus.ValueType, of func(reconcile.Status) float64) measure {
	return measure{prometheus.NewDesc("drover_worker_"+name, help, []string{"worker"}, nil), kind, of}
}

var (
	clustersQueued = prometheus.NewDesc("drover_reconcile_queue_length", "Clusters that wait for the controller to look at them.", nil, nil)

	measures = []measure{
		ofWorkers("running", "Whether the worker runs on this server: 1 or 0.", prometheus.GaugeValue, func(s reconcile.Status) float64 {
			if s.Running {
				return 1
			}
			return 0
		}),
		ofWorkers("queue_length", "Keys that wait for their turn.", prometheus.GaugeValue, func(s reconcile.Status) float64 { return float64(s.Queued) }),
		ofWorkers("waiting", "Keys that wait for something else, such as an API that does not answer.", prometheus.GaugeValue, func(s reconcile.Status) float64 { return float64(s.Waiting) }),
		ofWorkers("failing", "Keys whose last look failed.", prometheus.GaugeValue, func(s reconcile.Status) float64 { return float64(s.Failing) }),
		ofWorkers("queue_seconds_total", "Time for which keys have waited for their turn.", prometheus.CounterValue, func(s reconcile.Status) float64 { return s.Latency.Seconds() }),
		ofWorkers("successes_total", "Looks at a key that did not fail.", prometheus.CounterValue, func(s reconcile.Status) float64 { return float64(s.Succeeded) }),
		ofWorkers("failures_total", "Looks at a key that failed.", prometheus.CounterValue, func(s reconcile.Status) float64 { return float64(s.Failed) }),
		ofWorkers("retries_total", "Looks at a key that are repeated: after failures, waits and conflicts of writes.", prometheus.CounterValue, func(s reconcile.Status) float64 { return float64(s.Retries) }),
		ofWorkers("last_success_timestamp_seconds", "Time of the last look that did not fail; 0 for none.", prometheus.GaugeValue, func(s reconcile.Status) float64 { return unix(s.LastSuccess) }),
	}
)

func unix(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.Unix())
}

// Describe is of prometheus.Collector.
func (*workers) Describe(to chan<- *prometheus.Desc) {
	to <- clustersQueued
	for _, m := range measures {
		to <- m.Desc
	}
}

// Collect is of prometheus.Collector.
func (w *workers) Collect(to chan<- prometheus.Metric) {
	for _, s := range w.status() {
		if s.Name == "clusters" {
			to <- prometheus.MustNewConstMetric(clustersQueued, prometheus.GaugeValue, float64(s.Queued))
		}
		for _, m := range measures {
			to <- prometheus.MustNewConstMetric(m.Desc, m.kind, m.of(s), s.Name)
		}
	}
}
