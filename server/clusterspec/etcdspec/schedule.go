// The schedule of snapshots, as the distribution reads it.

package etcdspec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/plans/forms"
)

// cronField is what one of the five fields takes: numbers from lowest to highest, and names for those from lowest on.
type cronField struct {
	lowest, highest int
	names           []string
}

// cronFields are minute, hour, day of the month, month and day of the week. Source: github.com/robfig/cron/v3, ParseStandard,
// by which k3s and RKE2 read a schedule.
var cronFields = []cronField{
	{0, 59, nil}, {0, 23, nil}, {1, 31, nil},
	{1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{0, 6, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// schedule says whether the distribution can read a schedule.
func schedule(text string) bool {
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		zone, rest, _ := strings.Cut(text, " ")
		if _, name, _ := strings.Cut(zone, "="); name == "" {
			return false
		}
		text = strings.TrimSpace(rest)
	}
	if every, ok := strings.CutPrefix(text, "@every "); ok {
		_, reason := forms.Duration(every)
		return reason == ""
	}
	if strings.HasPrefix(text, "@") {
		return slices.Contains([]string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}, text)
	}
	fields := strings.Fields(text)
	if len(fields) != len(cronFields) {
		return false
	}
	for i, field := range fields {
		for part := range strings.SplitSeq(field, ",") {
			if !cronFields[i].takes(part) {
				return false
			}
		}
	}
	return true
}

// takes says whether a field takes one of its parts: *, 5, 1-5, each with /2 behind it.
func (f cronField) takes(part string) bool {
	span, step, stepped := strings.Cut(part, "/")
	if n, err := strconv.Atoi(step); stepped && (err != nil || n < 1) {
		return false
	}
	if span == "*" || span == "?" {
		return true
	}
	first, last, isSpan := strings.Cut(span, "-")
	begin, ok := f.number(first)
	if !ok || !isSpan {
		return ok
	}
	end, ok := f.number(last)
	return ok && begin <= end
}

func (f cronField) number(text string) (int, bool) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.lowest + i, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= f.lowest && n <= f.highest
}
