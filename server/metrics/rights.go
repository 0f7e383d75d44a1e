// What is kept of people's rights in clusters.

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/server/records"
)

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
