// Package metrics shows Prometheus what the server knows: of its tunnels, of how clusters and
// machines stand, and of the controller's work. No label holds a target's address, of which there is
// no end, and only administrators may read any of it. docs/reference/metrics.md lists all; a test holds that page.
package metrics

import (
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/drover-project/drover/server/backup"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
)

// Options are what is measured.
type Options struct {
	Tunnels Tunnels
	State   *state.State
	// Work is that of the controller of clusters.
	Work *Work
	// Workers are how the workers of this server stand; nil measures none.
	Workers func() []reconcile.Status
	// Backups is how scheduled backups stand; nil measures none.
	Backups func() backup.Status
	// Rights are how many objects are kept for people's rights in each cluster; nil measures none.
	Rights func() map[records.ClusterKey]int
	// Audit is how many entries of the audit log were written and how many were lost; nil measures none.
	Audit func() (written, lost int64)
	Now   func() time.Time
}

// Metrics are all measures of a server.
type Metrics struct {
	registry *prometheus.Registry
}

// New makes the measures. Counts begin at zero with each start of a server.
func New(o Options) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(&collector{o.Tunnels, o.Now}, &standing{o.State}, &ofClusters{o.State}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(o.Work.all()...)
	if o.Workers != nil {
		m.registry.MustRegister(&workers{o.Workers})
	}
	if o.Backups != nil {
		m.registry.MustRegister(&backups{o.Backups})
	}
	if o.Rights != nil {
		m.registry.MustRegister(&kept{o.Rights})
	}
	if o.Audit != nil {
		m.registry.MustRegister(
			prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "drover_audit_entries_total", Help: "Lines written to the audit log of this server."}, func() float64 {
				written, _ := o.Audit()
				return float64(written)
			}),
			prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "drover_audit_entries_lost_total", Help: "Entries that could not be written to the audit log."}, func() float64 {
				_, lost := o.Audit()
				return float64(lost)
			}))
	}
	return m
}

// Handler serves /metrics: all measures, the Go runtime and the process.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.Gatherers{m.registry, prometheus.GathererFunc(ofStore)}, promhttp.HandlerOpts{})
}

// ofStore are the size of the embedded etcd's file and what it may have, under the names that etcd gives them.
func ofStore() ([]*dto.MetricFamily, error) {
	all, _ := prometheus.DefaultGatherer.Gather() // a fault of another measure of libraries is not ours, and these two are there with it
	names := []string{"etcd_mvcc_db_total_size_in_bytes", "etcd_server_quota_backend_bytes"}
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool { return !slices.Contains(names, f.GetName()) }), nil
}
