package clusterspec

import (
	"strings"
	"testing"
	"time"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	found, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAt(t *testing.T) {
	const saturday = "Sat 22:00-04:00 Europe/Berlin"
	for _, c := range []struct {
		name, windows, now string
		open               bool
		change             string // empty: none
	}{
		{"before it, in winter", saturday, "2026-11-23T12:00:00Z", false, "2026-11-28T21:00:00Z"},
		{"the moment it opens", saturday, "2026-11-28T21:00:00Z", true, "2026-11-29T03:00:00Z"},
		{"the moment before", saturday, "2026-11-28T20:59:59Z", false, "2026-11-28T21:00:00Z"},
		{"after midnight", saturday, "2026-11-29T01:00:00Z", true, "2026-11-29T03:00:00Z"},
		{"the moment it closes", saturday, "2026-11-29T03:00:00Z", false, "2026-12-05T21:00:00Z"},
		{"in summer", saturday, "2026-07-01T00:00:00Z", false, "2026-07-04T20:00:00Z"},
		// 02:00 becomes 03:00 in the night to 2026-03-29, and 03:00 becomes 02:00 in that to 2026-10-25.
		{"the short night", saturday, "2026-03-28T21:00:00Z", true, "2026-03-29T02:00:00Z"},
		{"the long night", saturday, "2026-10-24T20:00:00Z", true, "2026-10-25T03:00:00Z"},
		{"opens in the hour that is left out", "Sun 02:30-05:00 Europe/Berlin", "2026-03-29T00:00:00Z", false, "2026-03-29T01:00:00Z"},
		{"closes in the hour that is left out", "Sun 01:00-02:30 Europe/Berlin", "2026-03-29T00:30:00Z", true, "2026-03-29T01:00:00Z"},
		{"lies in the hour that is left out", "Sun 02:15-02:45 Europe/Berlin", "2026-03-28T12:00:00Z", false, "2026-04-05T00:15:00Z"},
		{"opens in the hour that comes twice", "Sun 02:30-05:00 Europe/Berlin", "2026-10-25T00:00:00Z", false, "2026-10-25T00:30:00Z"},
		{"closes in the hour that comes twice", "Sun 01:00-02:30 Europe/Berlin", "2026-10-25T00:00:00Z", true, "2026-10-25T00:30:00Z"},
		{"west of Greenwich", "Sun 01:30-05:00 America/New_York", "2026-11-01T00:00:00Z", false, "2026-11-01T05:30:00Z"},
		{"a change of half an hour", "Sun 01:45-03:00 Australia/Lord_Howe", "2026-04-04T00:00:00Z", false, "2026-04-04T14:45:00Z"},
		{"weekdays", "Mon-Fri 01:00-02:00 UTC", "2026-11-27T03:00:00Z", false, "2026-11-30T01:00:00Z"},
		{"over the end of the week", "Sat-Sun 01:00-02:00 UTC", "2026-11-28T03:00:00Z", false, "2026-11-29T01:00:00Z"},
		{"some days", "Mon,Wed,Fri 01:00-02:00 UTC", "2026-11-24T00:00:00Z", false, "2026-11-25T01:00:00Z"},
		{"the nearer of two", saturday + "; Tue 10:00-11:00 UTC", "2026-11-23T12:00:00Z", false, "2026-11-24T10:00:00Z"},
		{"two that overlap", "Sat 20:00-23:00 UTC; Sat 22:00-02:00 UTC", "2026-11-28T20:30:00Z", true, "2026-11-29T02:00:00Z"},
		{"two that meet", "Sat 20:00-24:00 UTC; Sun 00:00-02:00 UTC", "2026-11-28T20:30:00Z", true, "2026-11-29T02:00:00Z"},
		{"one within the other", "Sat 20:00-04:00 UTC; Sat 22:00-23:00 UTC", "2026-11-28T22:30:00Z", true, "2026-11-29T04:00:00Z"},
		{"day and night", "daily 00:00-24:00 UTC", "2026-11-28T22:30:00Z", true, ""},
		{"until the same minute", "daily 22:00-21:59 UTC", "2026-11-28T21:59:30Z", false, "2026-11-28T22:00:00Z"},
		{"another day in the zone", "Sun 08:00-09:00 Pacific/Auckland", "2026-11-28T18:30:00Z", false, "2026-11-28T19:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := ParseWindows(c.windows)
			if err != nil {
				t.Fatal(err)
			}
			s := w.At(at(t, c.now))
			got := ""
			if !s.Change.IsZero() {
				got = s.Change.UTC().Format(time.RFC3339)
			}
			if s.Open != c.open || got != c.change {
				t.Errorf("open %v, changes at %q; want %v, %q", s.Open, got, c.open, c.change)
			}
		})
	}
}

// TestWhatHoldsUntilItChanges: through two years of summers and winters, what At says of a moment holds until the change
// that it names.
func TestWhatHoldsUntilItChanges(t *testing.T) {
	w, err := ParseWindows("Sat 22:00-04:00 Europe/Berlin; Sun 02:30-02:45 Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now, end := at(t, "2026-01-01T00:00:00Z"), at(t, "2028-01-01T00:00:00Z")
	opened := 0
	for now.Before(end) {
		s := w.At(now)
		if !s.Change.After(now) {
			t.Fatalf("at %s it changes at %s", now, s.Change)
		}
		middle := now.Add(s.Change.Sub(now) / 2)
		if again := w.At(middle); again.Open != s.Open || !again.Change.Equal(s.Change) {
			t.Fatalf("at %s it is %+v, and at %s %+v", now, s, middle, again)
		}
		if after := w.At(s.Change); after.Open == s.Open {
			t.Fatalf("at %s it was to change", s.Change)
		}
		if s.Open {
			opened++
		}
		now = s.Change
	}
	if opened != 104 { // as often as there are Saturdays
		t.Errorf("it opened %d times", opened)
	}
}

func TestParseWindowsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "is not of the form",
		"Sat 22:00-04:00":                   `"Sat 22:00-04:00" is not of the form "Sat 22:00-04:00 Europe/Berlin"`,
		"Sat 22:00-04:00 Europe/Berlin;":    `"" is not of the form`,
		"Saturday 22:00-04:00 UTC":          `"Saturday" is not a day of the week`,
		"sat 22:00-04:00 UTC":               `"sat" is not a day of the week`,
		"Sat- 22:00-04:00 UTC":              `"Sat-" is not a day of the week`,
		"Sat 22-04 UTC":                     `"22-04" is not of the form 22:00-04:00`,
		"Sat 29:00-04:00 UTC":               "opens at 23:59 at the latest",
		"Sat 24:00-04:00 UTC":               "opens at 23:59 at the latest",
		"Sat 22:00-24:01 UTC":               "a day ends at 24:00",
		"Sat 22:00-22:00 UTC":               "is no time at all",
		"Sat 22:00-04:00 CEST":              `"CEST" is not a zone`,
		"Sat 22:00-04:00 Local":             `"Local" is not a zone`,
		"Sat 22:00-04:00 ../../etc/passwd":  "is not a zone",
		strings.Repeat("Sat 1 UTC;", 20):    "there are 21 windows",
		strings.Repeat("Sat ", maxText/4+1): "at most 1024 are read",
	} {
		if _, err := ParseWindows(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q", text, err, want)
		}
	}
}

func FuzzParseWindows(f *testing.F) {
	f.Add("Sat 22:00-04:00 Europe/Berlin; daily 01:00-24:00 UTC", int64(1795435200))
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		w, err := ParseWindows(text)
		if err != nil {
			return
		}
		now := time.Unix(unix%(1<<33), 0)
		if s := w.At(now); !s.Change.IsZero() && !s.Change.After(now) {
			t.Errorf("%q: at %s it changes at %s", text, now, s.Change)
		}
		if again, err := ParseWindows(w.String()); err != nil || again.String() != w.String() {
			t.Errorf("%q is written as %q: %v", text, w, err)
		}
	})
}
