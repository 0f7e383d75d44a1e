// The rehearsals of clusters' snapshots.

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/server/records"

	"github.com/drover-project/drover/server/state"
)

// rehearsals collects when the last good ones were, of clusters that have or had any. Every server of a store has the same.
type rehearsals struct{ state *state.State }

var rehearsed = prometheus.NewDesc("drover_rehearsal_last_success_timestamp_seconds",
	"Time of the last rehearsal of a snapshot of the cluster that was restored and read; 0 for none, of clusters with a schedule.", []string{"cluster"}, nil)

// Describe is of prometheus.Collector.
func (*rehearsals) Describe(to chan<- *prometheus.Desc) { to <- rehearsed }

// Collect is of prometheus.Collector.
func (r *rehearsals) Collect(to chan<- prometheus.Metric) {
	for _, d := range r.state.Rehearsals.List() {
		at := 0.0
		if d.Value.Good != nil {
			at = float64(d.Value.Good.At.Unix())
		}
		if _, there := r.state.Clusters.Get(d.Key); there && (at > 0 || d.Value.Every > 0) {
			to <- prometheus.MustNewConstMetric(rehearsed, prometheus.GaugeValue, at, d.Key)
		}
	}
}

// kept collects how many objects there are for rights in each cluster, of the server that leads.
type kept struct {
	objects func() map[records.ClusterKey]int
}

var rightsObjects = prometheus.NewDesc("drover_rights_objects",
	"Cluster roles, bindings and copies of projects' secrets that are kept in the cluster.", []string{"cluster"}, nil)

// Describe is of prometheus.Collector.
func (*kept) Describe(to chan<- *prometheus.Desc) { to <- rightsObjects }

// Collect is of prometheus.Collector.
func (k *kept) Collect(to chan<- prometheus.Metric) {
	for key, n := range k.objects() {
		to <- prometheus.MustNewConstMetric(rightsObjects, prometheus.GaugeValue, float64(n), string(key))
	}
}
