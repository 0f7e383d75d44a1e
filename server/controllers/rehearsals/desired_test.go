package rehearsals

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/records"
)

var midday = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// ago is a time before midday.
func ago(d time.Duration) time.Time { return midday.Add(-d) }

// TestDecide: when one is due, of which snapshot and where, and what keeps it from beginning.
func TestDecide(t *testing.T) {
	const day = 24 * time.Hour
	daily := func(change func(*records.Rehearsals)) records.Rehearsals {
		k := records.Rehearsals{Every: day, Fleet: "spare", Since: ago(90 * day)}
		if change != nil {
			change(&k)
		}
		return k
	}
	last := func(at time.Time) records.Rehearsals {
		return daily(func(k *records.Rehearsals) { k.Last = &records.RehearsalEnd{At: at} })
	}
	snapshots := []candidate{{Name: "old", Taken: ago(3 * day)}, {Name: "new", Taken: ago(time.Hour)}, {Name: "older", Taken: ago(5 * day)}}
	machines := []candidate{{Name: "s1", Why: "its agent is away"}, {Name: "s2"}, {Name: "s3"}}
	begin := decision{Snapshot: "new", Machine: "s2"}
	due := func(at time.Time, d decision) decision { d.Due = at; return d }
	for _, c := range []struct {
		name   string
		kept   records.Rehearsals
		change func(*situation)
		want   decision
	}{
		{"no schedule", records.Rehearsals{Last: &records.RehearsalEnd{At: ago(90 * day)}}, nil, decision{}},
		{"the first", daily(func(k *records.Rehearsals) { k.Since = midday }), nil, due(midday, begin)},
		{"not due", last(ago(day - time.Second)), nil, due(midday.Add(time.Second), decision{})},
		{"due", last(ago(day)), nil, due(midday, begin)},
		{"many were missed, and one is made up for", last(ago(9 * day)), nil, due(ago(8*day), begin)},
		{"one has just ended", last(midday), nil, due(midday.Add(day), decision{})},
		{"the last is of a clock that was ahead", last(midday.Add(9 * day)), nil, due(ago(90*day), begin)},
		{"one is under way", last(ago(9 * day)), func(s *situation) { s.Running = "op-1" }, due(ago(8*day), decision{})},
		{"another operation", last(ago(day + time.Hour - time.Second)), func(s *situation) { s.Busy = "op-2 is under way" }, due(ago(time.Hour-time.Second), decision{Why: "op-2 is under way"})},
		{"another operation, for long", last(ago(day + time.Hour)), func(s *situation) { s.Busy = "op-2 is under way" }, due(ago(time.Hour), decision{Why: "op-2 is under way", Held: true})},
		{"a fault", last(ago(day)), func(s *situation) { s.Fault = "there is no fleet" }, due(midday, decision{Why: "there is no fleet", Held: true})},
		{"the newest cannot be had", last(ago(day)), func(s *situation) { s.Snapshots[1].Why = "its host is off" }, due(midday, decision{Snapshot: "old", Machine: "s2"})},
		{"none can be had", last(ago(day)), func(s *situation) {
			s.Snapshots = []candidate{{Name: "a", Taken: ago(day), Why: "x"}, {Name: "b", Taken: midday, Why: "its host is off"}}
		},
			due(midday, decision{Why: "none of the snapshots of cluster harbour can be had; the newest, b: its host is off", Held: true})},
		{"there is none", last(ago(day)), func(s *situation) { s.Snapshots = nil }, due(midday, decision{Why: "cluster harbour has no snapshot", Held: true})},
		{"no machine is free", last(ago(day)), func(s *situation) { s.Machines = s.Machines[:1] }, due(midday, decision{Why: "no machine of fleet spare can rehearse now: its agent is away", Held: true})},
		{"there is no machine", last(ago(day)), func(s *situation) { s.Machines = nil },
			due(midday, decision{Why: "fleet spare has no machines; run on a host what drover fleets join-command spare prints", Held: true})},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := situation{Now: midday, Kept: c.kept, Cluster: "harbour", Snapshots: append([]candidate{}, snapshots...), Machines: append([]candidate{}, machines...)}
			if c.change != nil {
				c.change(&s)
			}
			if diff := cmp.Diff(c.want, decide(s)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEnded: what ended last counts, whatever order it is heard of in, and the last good one stays beside one that failed.
func TestEnded(t *testing.T) {
	good := records.RehearsalEnd{Operation: "op-good", At: ago(2 * time.Hour), Counted: "3 nodes"}
	bad := records.RehearsalEnd{Operation: "op-bad", At: ago(time.Hour), Cause: "it was cut"}
	kept, news := ended(records.Rehearsals{Every: time.Hour, Held: &records.HeldRehearsal{Why: "x"}}, good, midday)
	if diff := cmp.Diff(records.Rehearsals{Every: time.Hour, Last: &good, Good: &good}, kept); diff != "" || !news {
		t.Error(news, diff)
	}
	kept, news = ended(kept, bad, midday)
	if diff := cmp.Diff(records.Rehearsals{Every: time.Hour, Last: &bad, Good: &good}, kept); diff != "" || !news {
		t.Error(news, diff)
	}
	for name, again := range map[string]records.RehearsalEnd{"the same": bad, "one before": good, "of a clock that was ahead": {Operation: "op-late", At: midday.Add(time.Hour), Counted: "9 nodes"}} {
		if next, news := ended(kept, again, midday); news || cmp.Diff(kept, next) != "" {
			t.Errorf("%s: %v, %+v", name, news, next)
		}
	}
	kept.Last = &records.RehearsalEnd{Operation: "op-late", At: midday.Add(time.Hour)}
	if next, news := ended(kept, good, midday); !news || next.Last.Operation != "op-good" {
		t.Errorf("after one of a clock that was ahead: %v, %+v", news, next)
	}
}

// TestHeld: people hear of a reason once, and of another one after a while.
func TestHeld(t *testing.T) {
	kept, news := held(records.Rehearsals{}, "one", midday)
	if !news || kept.Held == nil || kept.Held.Why != "one" || !kept.Held.At.Equal(midday) {
		t.Errorf("%v, %+v", news, kept.Held)
	}
	for _, c := range []struct {
		why   string
		after time.Duration
		news  bool
	}{{"one", 99 * time.Hour, false}, {"two", time.Hour - time.Second, false}, {"two", time.Hour, true}} {
		if next, news := held(kept, c.why, midday.Add(c.after)); news != c.news || news && next.Held.Why != c.why {
			t.Errorf("%s after %s: %v, %+v", c.why, c.after, news, next.Held)
		}
	}
}

func TestCheck(t *testing.T) {
	for every, ok := range map[time.Duration]bool{0: false, time.Second: false, time.Minute: true, mostEvery: true, mostEvery + 1: false} {
		if err := checkEvery(every); (err == nil) != ok {
			t.Errorf("%s: %v", every, err)
		}
	}
}
