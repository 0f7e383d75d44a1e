// The controllers' work, counted as it happens, and what the workers of this server do, of which most run on the server that leads.

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
)

// Work is what the controller of this server has done. Of several servers only the one that leads does any.
type Work struct {
	deliveries, retries, failures prometheus.Counter
	passes                        prometheus.Histogram
	operations                    *prometheus.HistogramVec
}

// NewWork makes Work; counts begin at zero.
func NewWork() *Work {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &Work{
		deliveries: counter("drover_plan_deliveries_total", "Plans written for machines, retries too."),
		retries:    counter("drover_plan_retries_total", "Plans written again for machines on which they had failed."),
		failures:   counter("drover_plan_failures_total", "Plans that a host could not carry out."),
		passes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "drover_reconcile_duration_seconds", Help: "Time of one look of the controller at one cluster, with its writes.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14), // to 8 s
		}),
		operations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drover_operation_duration_seconds", Help: "Time from the begin of an operation to its end; of those that never began there is none.",
			Buckets: []float64{10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400},
		}, []string{"kind", "outcome"}),
	}
}

func (w *Work) all() []prometheus.Collector {
	return []prometheus.Collector{w.deliveries, w.retries, w.failures, w.passes, w.operations}
}

// Passed is one look of the controller at one cluster; these four are what the controller of clusters says to its observer.
func (w *Work) Passed(took time.Duration) { w.passes.Observe(took.Seconds()) }

// Delivered is a plan that was written for a machine.
func (w *Work) Delivered(retry bool) {
	w.deliveries.Inc()
	if retry {
		w.retries.Inc()
	}
}

// Failed is a plan that a host could not carry out.
func (w *Work) Failed() { w.failures.Inc() }

// Ended is an operation that has ended.
func (w *Work) Ended(o operations.Operation) {
	if !o.Started.IsZero() {
		w.operations.WithLabelValues(string(o.Kind), string(o.State)).Observe(o.Ended.Sub(o.Started).Seconds())
	}
}

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
