// How the rehearsals of a cluster's snapshots stand, as people read it.

package clustertree

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/apitypes"
)

// Rehearsals gives the rows of a table about the rehearsals of a cluster at a time. ago is how long ago something was, in words.
func Rehearsals(row func(cells ...string), cluster string, r apitypes.Rehearsals, now time.Time, ago func(time.Time) string) {
	switch {
	case r.Every == "":
		row("schedule", "none: drover clusters rehearsals "+cluster+" --every 24h --fleet FLEET has its snapshots rehearsed")
	default:
		row("schedule", fmt.Sprintf("every %s on fleet %s", r.Every, r.Fleet))
	}
	switch {
	case r.Operation != "":
		row("under way", r.Operation)
	case r.Waits != "":
		row("next", "was due "+ago(r.Next)+" ago: "+r.Waits)
	case r.Next.After(now):
		row("next", "in "+r.Next.Sub(now).Round(time.Minute).String())
	case !r.Next.IsZero():
		row("next", "now")
	}
	if r.Last != nil {
		row("last", ended(*r.Last, ago))
	}
	if r.Good != nil && (r.Last == nil || r.Last.Operation != r.Good.Operation) {
		row("last good", ended(*r.Good, ago))
	}
}

// rehearsed is the last rehearsal of a cluster in a row, with the last good one where that is another.
func rehearsed(r apitypes.Rehearsals, ago func(time.Time) string) string {
	text := ended(*r.Last, ago)
	switch {
	case r.Last.Counted != "":
	case r.Good == nil:
		text += "; none was good"
	default:
		text += "; good " + ended(*r.Good, ago)
	}
	return text
}

// ended is how a rehearsal ended, and when.
func ended(e apitypes.RehearsalEnd, ago func(time.Time) string) string {
	text := fmt.Sprintf("%s ago, snapshot %s on %s: ", ago(e.At), e.Snapshot, e.Machine)
	switch {
	case e.Counted == "":
		return text + e.State + ": " + e.Cause
	case e.Cause != "":
		return text + "ok (" + e.Counted + "), and " + e.Cause
	}
	return text + "ok (" + e.Counted + ")"
}
