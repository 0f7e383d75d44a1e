// The schedule of snapshots, as the distribution reads it.

package clusterspec

import (
	"slices"
	"strings"

	"github.com/robfig/cron/v3"

	"github.com/drover-project/drover/plans/forms"
)

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
