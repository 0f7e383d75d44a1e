// The controller's work, counted as it happens.

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/server/operations"
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
