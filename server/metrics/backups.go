// The scheduled backups of the server itself.

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/server/backup"
)

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
	to <- prometheus.MustNewConstMetric(backupsMade, prometheus.CounterValue, float64(s.Succeeded), "succeeded")
	to <- prometheus.MustNewConstMetric(backupsMade, prometheus.CounterValue, float64(s.Failed), "failed")
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
