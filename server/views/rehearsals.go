// How the rehearsals of a cluster's snapshots are shown.

package views

import (
	"time"

	"github.com/drover-project/drover/server/controllers/rehearsals"
	"github.com/drover-project/drover/server/records"
)

// AskedRehearsals is the body of POST /v1-drover/clusters/{namespace}/{name}/rehearsals/set; an empty Every ends the schedule.
type AskedRehearsals struct {
	// Every is the time from the end of one to the next, as in 24h.
	Every string `json:"every"`
	// Fleet is the name of the one on whose machines they are done.
	Fleet string `json:"fleet,omitempty"`
}

// Rehearsals is how the rehearsals of a cluster's snapshots stand.
type Rehearsals struct {
	Type string `json:"type"` // rehearsals
	// Every and Fleet are the schedule, By the ID of the user who set it, and Since when; absent without one.
	Every string    `json:"every,omitempty"`
	Fleet string    `json:"fleet,omitempty"`
	By    string    `json:"by,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Next is when the next one is due, and Waits why one that is due has not begun. Operation is the ID of one that is under way.
	Next      time.Time `json:"next,omitzero"`
	Waits     string    `json:"waits,omitempty"`
	Operation string    `json:"operation,omitempty"`
	// Last is the one that ended last, and Good the last one whose snapshot was restored and read; absent for none. Those that people
	// asked for count, too.
	Last *records.RehearsalEnd `json:"last,omitempty"`
	Good *records.RehearsalEnd `json:"good,omitempty"`
}

// OfRehearsals shows how the rehearsals of a cluster stand.
func OfRehearsals(s rehearsals.Standing) Rehearsals {
	shown := Rehearsals{Type: "rehearsals", Fleet: s.Fleet, By: s.By, Since: s.Since, Next: s.Next, Waits: s.Waits, Operation: s.Running, Last: s.Last, Good: s.Good}
	if s.Every > 0 {
		shown.Every = s.Every.String()
	}
	return shown
}
