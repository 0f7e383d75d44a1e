// The times at which a cluster may be disturbed, as its owner writes them down: on which days of the
// week, from when until when, and in which zone's clock. It is a function of the text and of the time; the program that embeds it
// says where the rules of the zones come from. And the schedule of snapshots, as the distribution reads it.

package clusterspec

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/forms"

	"github.com/robfig/cron/v3"
)

// Bounds of what is read.
const (
	maxText    = 1 << 10
	maxWindows = 16
)

// Windows are the times of one cluster. The zero value has none, and is never open.
type Windows struct {
	text string
	all  []one
}

// one is a time on some days of the week. From and to are minutes of the day by the zone's clock; to is 24*60 at most, and
// not after from where the window goes over midnight.
type one struct {
	days     [7]bool // from Sunday
	from, to int
	zone     *time.Location
}

// forms of a part of the text.
var (
	times = regexp.MustCompile(`^([0-2][0-9]):([0-5][0-9])-([0-2][0-9]):([0-5][0-9])$`)
	names = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}
)

// ParseWindows reads windows such as "Sat 22:00-04:00 Europe/Berlin", several with semicolons between them. Days are "Sat",
// "Mon-Fri", "Mon,Wed,Fri" or "daily", and those on which the window opens; the zone is a name of the IANA's database, or
// UTC. The error says which part is wrong, and what is expected.
func ParseWindows(text string) (Windows, error) {
	w := Windows{text: strings.Join(strings.Fields(text), " ")}
	if len(text) > maxText {
		return Windows{}, fmt.Errorf("the text of the windows has %d bytes, and at most %d are read", len(text), maxText)
	}
	parts := strings.Split(text, ";")
	if len(parts) > maxWindows {
		return Windows{}, fmt.Errorf("there are %d windows, and a cluster has at most %d", len(parts), maxWindows)
	}
	for _, part := range parts {
		next, err := parse(part)
		if err != nil {
			return Windows{}, err
		}
		w.all = append(w.all, next)
	}
	return w, nil
}

func parse(text string) (one, error) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return one{}, fmt.Errorf("%.80q is not of the form \"Sat 22:00-04:00 Europe/Berlin\": days, from-until, zone", strings.TrimSpace(text))
	}
	w := one{}
	var err error
	if w.days, err = days(fields[0]); err != nil {
		return one{}, err
	}
	found := times.FindStringSubmatch(fields[1])
	if found == nil {
		return one{}, fmt.Errorf("%.40q is not of the form 22:00-04:00", fields[1])
	}
	w.from, w.to = minutes(found[1], found[2]), minutes(found[3], found[4])
	switch {
	case w.from >= 24*60:
		return one{}, fmt.Errorf("%q: a window opens at 23:59 at the latest", fields[1])
	case w.to > 24*60:
		return one{}, fmt.Errorf("%q: a day ends at 24:00", fields[1])
	case w.from == w.to:
		return one{}, fmt.Errorf("%q is no time at all; the whole day is 00:00-24:00", fields[1])
	}
	// An empty name would be UTC, and Local that of the server's host.
	if w.zone, err = time.LoadLocation(fields[2]); err != nil || fields[2] == "Local" {
		return one{}, fmt.Errorf("%.60q is not a zone that the server knows; zones are Europe/Berlin, America/New_York, UTC and so on", fields[2])
	}
	return w, nil
}

func minutes(hours, rest string) int {
	h, _ := strconv.Atoi(hours) // two digits, by the form
	m, _ := strconv.Atoi(rest)
	return h*60 + m
}

func days(text string) (found [7]bool, err error) {
	if text == "daily" {
		return [7]bool{true, true, true, true, true, true, true}, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, span := strings.Cut(part, "-")
		if !span {
			last = first
		}
		from, to := slices.Index(names, first), slices.Index(names, last)
		if from < 0 || to < 0 {
			return found, fmt.Errorf("%.40q is not a day of the week; days are %s, Mon-Fri and daily", part, strings.Join(names, ", "))
		}
		for day := from; ; day = (day + 1) % 7 {
			found[day] = true
			if day == to {
				break
			}
		}
	}
	return found, nil
}

// String is the text, with single blanks.
func (w Windows) String() string { return w.text }

// WindowState is how windows are at a time.
type WindowState struct {
	Open bool
	// Change is when they close, or open next, by the clock of the window's zone; zero when that is weeks away.
	Change time.Time
}

// WindowOpens is when windows open that are closed, as the rest of a sentence; text is theirs.
func WindowOpens(text string, s WindowState) string {
	if s.Change.IsZero() {
		return "the maintenance window " + text + " does not open within two weeks"
	}
	return fmt.Sprintf("it waits for the maintenance window %s, which opens %s", text, s.Change.Format("Mon 2006-01-02 15:04 MST"))
}

// horizon is for how many days windows are looked at: a window that opens once a week may be left out in one, when clocks
// are put forward over it.
const horizon = 16

// At is how the windows are at a time.
func (w Windows) At(now time.Time) WindowState {
	var spans []span
	for _, one := range w.all {
		local := now.In(one.zone)
		for day := -2; day <= horizon; day++ {
			year, month, date := local.AddDate(0, 0, day).Date()
			if s := one.on(year, month, date); s.to.After(s.from) {
				spans = append(spans, s)
			}
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	state := WindowState{}
	for _, s := range spans {
		switch {
		case !s.to.After(now):
		case !state.Open && s.from.After(now):
			return WindowState{Change: s.from}
		case !state.Open:
			state = WindowState{Open: true, Change: s.to}
		case s.from.After(state.Change):
			return state
		case s.to.After(state.Change): // one window goes over into the next
			state.Change = s.to
		}
	}
	if state.Change.Sub(now) > (horizon-3)*24*time.Hour {
		state.Change = time.Time{} // it is open day and night
	}
	return state
}

// span is from a moment until another.
type span struct{ from, to time.Time }

// on is the window that opens on a date; empty on other days.
func (w one) on(year int, month time.Month, date int) span {
	noon := time.Date(year, month, date, 12, 0, 0, 0, time.UTC)
	if !w.days[noon.Weekday()] {
		return span{}
	}
	ends := date
	if w.to <= w.from {
		ends++
	}
	return span{moment(year, month, date, w.from, w.zone), moment(year, month, ends, w.to, w.zone)}
}

// moment is when the clock of a zone shows a time: for the first time, where clocks are put back over it, and when they
// are put forward, where they leave it out.
func moment(year int, month time.Month, date, minute int, zone *time.Location) time.Time {
	// The clock's time as if it were that of UTC, less what the zone is ahead, before and after a change.
	face := time.Date(year, month, date, 0, minute, 0, 0, time.UTC)
	_, before := face.Add(-24 * time.Hour).In(zone).Zone()
	_, after := face.Add(24 * time.Hour).In(zone).Zone()
	first, second := face.Add(-time.Duration(before)*time.Second).In(zone), face.Add(-time.Duration(after)*time.Second).In(zone)
	shown := func(t time.Time) bool {
		y, m, d := t.Date()
		return time.Date(y, m, d, t.Hour(), t.Minute(), 0, 0, time.UTC).Equal(face)
	}
	switch {
	case shown(first) && shown(second) && second.Before(first):
		return second
	case shown(first):
		return first
	case shown(second):
		return second
	}
	forward, _ := first.ZoneBounds()
	return forward
}

// schedule says whether the distribution can read a schedule, by the library with which k3s and RKE2 read it.
func schedule(text string) bool {
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		// Which zones there are is the host's to know; the library panics where nothing is behind the zone.
		zone, rest, _ := strings.Cut(text, " ")
		text = strings.TrimSpace(rest)
		if _, name, _ := strings.Cut(zone, "="); name == "" || strings.Contains(text, "TZ=") {
			return false
		}
	}
	if every, ok := strings.CutPrefix(text, "@every "); ok {
		_, reason := forms.Duration(every) // the library takes 0s and -5m for 1s
		return reason == ""
	}
	for field := range strings.FieldsSeq(text) {
		if slices.Contains(strings.Split(field, ","), "") { // which the library takes for never
			return false
		}
	}
	_, err := cron.ParseStandard(text)
	return err == nil
}
