//go:build e2e

package e2e

// Whose time it takes until a cluster is Active: that of the installers, of the distribution, and what is left, in which
// drover alone works. It is logged and not asserted, as it depends on the machine that the tests run on.

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"
)

// span is a time in which work is done.
type span struct{ from, to time.Time }

// covered is how much of a span others cover, counted once.
func (s span) covered(by []span) (sum time.Duration) {
	at := s.from
	for _, one := range slices.SortedFunc(slices.Values(by), func(a, b span) int { return a.from.Compare(b.from) }) {
		from, to := one.from, one.to
		if from.Before(at) {
			from = at
		}
		if to.After(s.to) {
			to = s.to
		}
		if to.After(from) {
			sum, at = sum+to.Sub(from), to
		}
	}
	return sum
}

var (
	staged  = regexp.MustCompile(`(?m)^(\S+) .*: image staged .* took=(\S+)`)
	install = regexp.MustCompile(`(?m)^(\S+) .*: instruction ended .* instruction=install .* took=(\S+)`)
	well    = regexp.MustCompile(`(?m)^(\S+) .*: no longer: probe fails`)
)

// journalTime is how a journal's lines begin.
const journalTime = "2006-01-02T15:04:05.999999-0700"

// ended are the works that lines of a journal report with their end and how long they took.
func (f *fleet) ended(journal string, lines *regexp.Regexp) (spans []span) {
	f.Helper()
	for _, found := range lines.FindAllStringSubmatch(journal, -1) {
		at, err := time.Parse(journalTime, found[1])
		must(f.T, err)
		took, err := time.ParseDuration(found[2])
		must(f.T, err)
		spans = append(spans, span{at.Add(-took), at})
	}
	return spans
}

// shares logs whose time it took from the end of the last join line until the machines were Active, and the one that was
// so first. Of the distribution are the times from the start of a unit until its node is Ready and its probes are
// healthy, and until its member votes where another one waits for that. Kubernetes' times are in whole seconds: what is
// drover's is between two bounds.
func (f *fleet) shares(began time.Time, active map[string]time.Time) {
	f.Helper()
	nodes := f.nodes()
	var starts []time.Time
	for _, s := range *f.ships {
		starts = append(starts, f.starts(s)[0])
	}
	var fetching, working, longest []span
	for i, s := range *f.ships {
		journal, err := s.Journal(f.ctx, "rancher-system-agent")
		must(f.T, err)
		fetching = append(fetching, f.ended(journal, staged)...)
		installing := f.ended(journal, install)
		until := nodes[s.Name()].since("Ready")
		for _, found := range well.FindAllStringSubmatch(journal, -1) {
			at, err := time.Parse(journalTime, found[1])
			must(f.T, err)
			// It was well up to a second sooner, which is drover's.
			if at = at.Add(-time.Second); at.After(until) && at.Before(active[s.Name()]) {
				until = at
			}
		}
		votes := nodes[s.Name()].since("EtcdIsVoter")
		if waited := slices.ContainsFunc(starts, votes.Before); waited && votes.After(until) {
			until = votes
		}
		working = append(append(working, installing...), span{starts[i], until})
		longest = append(append(longest, installing...), span{starts[i], until.Add(time.Second)})
	}
	for _, to := range []struct {
		what string
		at   time.Time
	}{
		{"the first machine was Active", slices.MinFunc(slices.Collect(maps.Values(active)), time.Time.Compare)},
		{fmt.Sprintf("all %d were", len(active)), slices.MaxFunc(slices.Collect(maps.Values(active)), time.Time.Compare)},
	} {
		all := span{began, to.at}
		total := to.at.Sub(began)
		most, least := total-all.covered(working), total-all.covered(longest)
		waits := total - all.covered(slices.Concat(working, fetching))
		f.Logf("from the last join line until %s: %s, of which installers and %s took all but %s to %s (%.1f to %.1f %%); without the fetching of installers at most %s (%.1f %%)", to.what,
			total.Round(100*time.Millisecond), f.name, least.Round(100*time.Millisecond), most.Round(100*time.Millisecond), percent(least, total), percent(most, total),
			waits.Round(100*time.Millisecond), percent(waits, total))
	}
}

func percent(part, of time.Duration) float64 { return 100 * part.Seconds() / of.Seconds() }

func TestCoveredSpans(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, test := range []struct {
		by   []span
		want time.Duration
	}{
		{nil, 0},
		{[]span{{at(12), at(15)}}, 3 * time.Second},
		{[]span{{at(14), at(16)}, {at(12), at(15)}, {at(13), at(14)}}, 4 * time.Second},
		{[]span{{at(5), at(11)}, {at(18), at(30)}, {at(2), at(4)}, {at(40), at(50)}}, 3 * time.Second},
		{[]span{{at(15), time.Time{}}}, 0},
		{[]span{{at(0), at(100)}}, 10 * time.Second},
	} {
		if got := (span{at(10), at(20)}).covered(test.by); got != test.want {
			t.Errorf("%v cover %s, want %s", test.by, got, test.want)
		}
	}
}
