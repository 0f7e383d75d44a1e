// How clusters, machines, rehearsals and backups stand, looked up when metrics are asked for.

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/backup"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
)

var (
	machineStates = prometheus.NewDesc("drover_machines", "Machines of all clusters and fleets by their state.", []string{"state"}, nil)
	clusterStates = prometheus.NewDesc("drover_clusters", "Clusters by their state.", []string{"state"}, nil)
)

// standing counts what is in the store. Every server of a store counts the same.
type standing struct{ state *state.State }

// Describe implements prometheus.Collector.
func (*standing) Describe(out chan<- *prometheus.Desc) {
	out <- machineStates
	out <- clusterStates
}

// Collect implements prometheus.Collector. A state in which nothing is has the value 0: a series that
// came and went would have alerts miss its end.
func (s *standing) Collect(out chan<- prometheus.Metric) {
	machines, clusters := map[string]int{}, map[string]int{}
	for _, state := range records.MachineStates() {
		machines[string(state)] = 0
	}
	for _, state := range records.ClusterStates() {
		clusters[string(state)] = 0
	}
	for _, d := range s.state.Machines.List() {
		machines[string(k8sobjects.MachineState(&d.Value))]++
	}
	for _, d := range s.state.Clusters.List() {
		clusters[k8sobjects.ClusterSummary(d.Value).State]++
	}
	for desc, counts := range map[*prometheus.Desc]map[string]int{machineStates: machines, clusterStates: clusters} {
		for state, n := range counts {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), state)
		}
	}
}

// backups collects how they stand. Without a schedule there is nothing.
type backups struct{ status func() backup.Status }

var (
	backupsMade = prometheus.NewDesc("drover_backups_total", "Attempts at scheduled backups of the server since it started.", []string{"outcome"}, nil)
	backupLast  = prometheus.NewDesc("drover_backup_last_success_timestamp_seconds", "Time of the newest scheduled backup in its directory; 0 for none.", nil, nil)
	backupFault = prometheus.NewDesc("drover_backup_last_failure_timestamp_seconds", "Time of the last attempt at a scheduled backup if it failed; else 0.", nil, nil)
	backupSize  = prometheus.NewDesc("drover_backup_size_bytes", "Size of the newest scheduled backup.", nil, nil)
)

// Describe is of prometheus.Collector.
func (*backups) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{backupsMade, backupLast, backupFault, backupSize} {
		to <- d
	}
}

// Collect is of prometheus.Collector.
func (b *backups) Collect(to chan<- prometheus.Metric) {
	s := b.status()
	if s.Dir == "" {
		return
	}
	value := func(d *prometheus.Desc, v float64) { to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	to <- prometheus.MustNewConstMetric(backupsMade, prometheus.CounterValue, float64(s.Succeeded), string(operations.Succeeded))
	to <- prometheus.MustNewConstMetric(backupsMade, prometheus.CounterValue, float64(s.Failed), string(operations.Failed))
	newest, failed, size := 0.0, 0.0, 0.0
	if len(s.Files) > 0 {
		newest, size = float64(s.Files[0].Made.Unix()), float64(s.Files[0].Size)
	}
	if s.Failure != "" {
		failed = float64(s.FailedAt.Unix())
	}
	value(backupLast, newest)
	value(backupFault, failed)
	value(backupSize, size)
}

// ofClusters collects of each cluster when the last good rehearsal was, where it has or had any, and when its first certificate ends.
// Every server of a store has the same.
type ofClusters struct{ state *state.State }

var (
	rehearsed = prometheus.NewDesc("drover_rehearsal_last_success_timestamp_seconds",
		"Time of the last rehearsal of a snapshot of the cluster that was restored and read; 0 for none, of clusters with a schedule.", []string{"cluster"}, nil)
	certificateEnd = prometheus.NewDesc("drover_certificate_end_timestamp_seconds",
		"Time at which the certificate of the cluster ends that ends first; of clusters of which that is known.", []string{"cluster"}, nil)
)

// Describe is of prometheus.Collector.
func (*ofClusters) Describe(to chan<- *prometheus.Desc) { to <- rehearsed; to <- certificateEnd }

// Collect is of prometheus.Collector.
func (c *ofClusters) Collect(to chan<- prometheus.Metric) {
	for _, d := range c.state.Rehearsals.List() {
		at := 0.0
		if d.Value.Good != nil {
			at = float64(d.Value.Good.At.Unix())
		}
		if _, there := c.state.Clusters.Get(d.Key); there && (at > 0 || d.Value.Every > 0) {
			to <- prometheus.MustNewConstMetric(rehearsed, prometheus.GaugeValue, at, d.Key)
		}
	}
	for _, d := range c.state.Clusters.List() {
		key := records.ClusterKey(d.Key)
		if first := c.state.FirstCertificate(key, c.state.MachinesByCluster.Find(key)); !first.End.IsZero() {
			to <- prometheus.MustNewConstMetric(certificateEnd, prometheus.GaugeValue, float64(first.End.Unix()), d.Key)
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
