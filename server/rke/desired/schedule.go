// Snapshots by schedule: when the next one is due, and which of those before are not kept. The server takes them itself,
// each like one that a user asks for, with the cluster's state in it. A cluster that has the container etcd-rolling-snapshots,
// because a command line made it or its document says snapshot: true, keeps that one, and the server takes none besides.

package desired

import (
	"slices"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/server/records"
)

const (
	// firstWithin is how soon after a cluster came about it has its first snapshot, unless its interval is shorter.
	firstWithin = time.Hour
	// afterFailure is how soon a snapshot that failed is tried again, unless the interval is shorter.
	afterFailure = 10 * time.Minute
	// MaxSnapshots is how many snapshots the server remembers of a cluster.
	MaxSnapshots = 200
)

// Schedule is when snapshots are taken and how many are kept.
type Schedule struct {
	Every time.Duration
	Keep  int
}

// backups sets what a config leaves open about regular snapshots: the server takes them, and not a container.
func backups(c *config.Cluster, deployed *config.Cluster) {
	e := &c.Services.Etcd
	if len(e.ExternalURLs) > 0 {
		return
	}
	has := deployed != nil && (deployed.Services.Etcd.Snapshot == nil || *deployed.Services.Etcd.Snapshot)
	if e.Snapshot != nil || has {
		return // as the document says, or as it was
	}
	none := false
	e.Snapshot = &none
	if e.BackupConfig == nil {
		yes := true
		every := duration(e.Creation, 12*time.Hour)
		e.BackupConfig = &config.BackupConfig{
			Enabled: &yes, IntervalHours: max(int(every/time.Hour), 1), Retention: max(int(duration(e.Retention, 6*every)/every), 1),
		}
	}
}

func duration(text string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	return otherwise
}

// ScheduleOf is the schedule of a cluster; not ok where the server takes no snapshots by itself.
func ScheduleOf(in Input) (Schedule, bool) {
	c, err := in.written()
	if err != nil || len(c.Services.Etcd.ExternalURLs) > 0 {
		return Schedule{}, false
	}
	b := c.Services.Etcd.BackupConfig
	if b == nil || b.Enabled != nil && !*b.Enabled || c.Services.Etcd.Snapshot == nil || *c.Services.Etcd.Snapshot {
		return Schedule{}, false
	}
	s := Schedule{Every: 12 * time.Hour, Keep: 6}
	if b.IntervalHours > 0 {
		s.Every = time.Duration(b.IntervalHours) * time.Hour
	}
	if b.Retention > 0 {
		s.Keep = b.Retention
	}
	return s, true
}

// due is how long it is until the next snapshot; not more than zero when it is to be taken now.
func (s Schedule) due(r records.RKEState, now time.Time) time.Duration {
	last, found := records.RKESnapshot{}, false
	for _, one := range r.Snapshots {
		if one.Scheduled && !one.At.Before(last.At) {
			last, found = one, true
		}
	}
	next := r.Since.Add(min(s.Every, firstWithin))
	switch {
	case found && last.Failure != "":
		next = last.At.Add(min(s.Every, afterFailure))
	case found:
		next = last.At.Add(s.Every)
	}
	return next.Sub(now)
}

// Noted is what is remembered of a cluster's snapshots when there is one more, and which of the scheduled ones are to be removed from
// hosts and bucket. Keep is how many of those are kept, 0 being all. Tries that failed are remembered until one works.
func Noted(before []records.RKESnapshot, one records.RKESnapshot, keep int) (all, gone []records.RKESnapshot) {
	all = slices.DeleteFunc(slices.Clone(before), func(other records.RKESnapshot) bool {
		return other.ID == one.ID || other.Scheduled && one.Scheduled && other.Failure != ""
	})
	all = append(all, one)
	scheduled := 0
	for _, s := range all {
		if s.Scheduled && s.Failure == "" {
			scheduled++
		}
	}
	all = slices.DeleteFunc(all, func(s records.RKESnapshot) bool {
		if keep == 0 || scheduled <= keep || !s.Scheduled || s.Failure != "" {
			return false
		}
		scheduled--
		gone = append(gone, s)
		return true
	})
	return all[max(0, len(all)-MaxSnapshots):], gone
}
