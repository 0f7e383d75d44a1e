package backups

import (
	"time"

	"github.com/drover-project/drover/server/backup"
)

// retry is how soon a backup that failed is tried again, at most.
const retry = 5 * time.Minute

// due is when the next backup is due. newest is nil when there is none, or when the bucket lacks it; failed is when the last attempt
// failed, zero when it did not.
func due(newest *backup.Kept, failed time.Time, every time.Duration, now time.Time) time.Time {
	at := now
	if newest != nil {
		at = dueAfter(*newest, every, now)
	}
	if again := failed.Add(min(retry, every)); !failed.IsZero() && again.After(at) {
		at = again
	}
	return at
}

// dueAfter is when the backup after the newest is due, at the earliest now.
func dueAfter(newest backup.Kept, every time.Duration, now time.Time) time.Time {
	at := newest.Made.Add(every)
	if latest := now.Add(every); at.After(latest) { // the file is of a clock that was ahead
		return latest
	}
	if at.Before(now) {
		return now
	}
	return at
}
