// When a snapshot of a cluster is rehearsed by itself, which one, and on which machine: a function of what is known.

package rehearsals

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/server/records"
)

// Bounds of the time from one rehearsal to the next.
const (
	leastEvery = time.Minute
	mostEvery  = 366 * 24 * time.Hour
)

// patience is how long a rehearsal that is due waits for other operations before people hear of it, and how often they hear of
// another reason.
const patience = time.Hour

// checkEvery says what is wrong with the time from one rehearsal to the next.
func checkEvery(every time.Duration) error {
	if every < leastEvery || every > mostEvery {
		return fmt.Errorf("a rehearsal every %s is not possible: it is between %s and %s", every, leastEvery, mostEvery)
	}
	return nil
}

// candidate is a snapshot or a machine that a rehearsal could take.
type candidate struct {
	Name string
	// Taken is when a snapshot was taken; zero of a machine.
	Taken time.Time
	// Why is why it cannot be had now; empty when it can.
	Why string
}

// situation is what a decision is made of.
type situation struct {
	Now  time.Time
	Kept records.Rehearsals
	// Cluster is the name of the cluster.
	Cluster string
	// Running is the ID of a rehearsal of the cluster that has not ended, and Busy a sentence about another operation that is waited for,
	// of the cluster or the fleet. Empty for none.
	Running, Busy string
	// Fault is why nothing of the cluster can be rehearsed on the fleet; empty when something may.
	Fault string
	// Snapshots are those of the cluster, Machines those of the fleet, in the order in which they are taken.
	Snapshots, Machines []candidate
}

// decision is what is to be done. The zero value is nothing, as there is no schedule.
type decision struct {
	// Due is when the next rehearsal is due; zero for none. It may be over.
	Due time.Time
	// Snapshot is the name of the one to rehearse now, and Machine where; empty while none begins.
	Snapshot, Machine string
	// Why is why one that is due does not begin, and Held says that people hear of it.
	Why  string
	Held bool
}

// Due is when the next rehearsal is due, zero without a schedule. However many were missed, one is.
func Due(kept records.Rehearsals, now time.Time) time.Time {
	switch {
	case kept.Every == 0:
		return time.Time{}
	case kept.Last == nil || kept.Last.At.After(now): // the latter is of a clock that was ahead
		return kept.Since
	}
	return kept.Last.At.Add(kept.Every)
}

// decide decides what is to be done for a cluster now.
func decide(s situation) decision {
	d := decision{Due: Due(s.Kept, s.Now)}
	if d.Due.IsZero() || d.Due.After(s.Now) || s.Running != "" {
		return d
	}
	if s.Busy != "" {
		d.Why, d.Held = s.Busy, !s.Now.Before(d.Due.Add(patience))
		return d
	}
	if d.Why = s.Fault; d.Why == "" {
		d.Snapshot, d.Why = newest(s)
	}
	if d.Why == "" {
		d.Machine, d.Why = free(s)
	}
	if d.Why != "" {
		d.Snapshot, d.Held = "", true
	}
	return d
}

// newest is the newest snapshot that can be had.
func newest(s situation) (name, why string) {
	all := slices.Clone(s.Snapshots)
	slices.SortStableFunc(all, func(a, b candidate) int { return b.Taken.Compare(a.Taken) })
	for _, one := range all {
		if one.Why == "" {
			return one.Name, ""
		}
	}
	if len(all) == 0 {
		return "", fmt.Sprintf("cluster %s has no snapshot", s.Cluster)
	}
	return "", fmt.Sprintf("none of the snapshots of cluster %s can be had; the newest, %s: %s", s.Cluster, all[0].Name, all[0].Why)
}

// free is the first machine that is free.
func free(s situation) (name, why string) {
	for _, one := range s.Machines {
		if one.Why == "" {
			return one.Name, ""
		}
	}
	if len(s.Machines) == 0 {
		return "", fmt.Sprintf("fleet %s has no machines; run on a host what drover fleets join-command %s prints", s.Kept.Fleet, s.Kept.Fleet)
	}
	return "", fmt.Sprintf("no machine of fleet %s can rehearse now: %s", s.Kept.Fleet, s.Machines[0].Why)
}

// ended is what is kept once a rehearsal has ended, and whether that is another one than the last, which ended before.
func ended(kept records.Rehearsals, end records.RehearsalEnd, now time.Time) (next records.Rehearsals, news bool) {
	last := kept.Last
	if last != nil && last.At.After(now) { // of a clock that was ahead
		last = nil
	}
	if end.At.After(now) || last != nil && !end.At.After(last.At) {
		return kept, false
	}
	kept.Last, kept.Held = &end, nil
	if end.Counted != "" {
		kept.Good = &end
	}
	return kept, true
}

// held is what is kept of a reason why a rehearsal has not begun, and whether that is news: each reason is noted once, and another
// one not before the one before has stood for a while.
func held(kept records.Rehearsals, why string, now time.Time) (next records.Rehearsals, news bool) {
	if h := kept.Held; h != nil && (h.Why == why || now.Before(h.At.Add(patience))) {
		return kept, false
	}
	kept.Held = &records.HeldRehearsal{Why: why, At: now}
	return kept, true
}
