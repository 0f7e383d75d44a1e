// Warnings that repeat, summed: a server that is away for a night leaves a few lines and not
// thousands. The first of a row is logged, then again at growing distances with their number.

package remote

import (
	"log/slog"
	"time"
)

const (
	// repeatMin is the distance after which the same warning is logged again; it doubles up to repeatMax.
	repeatMin = time.Minute
	repeatMax = time.Hour
)

// warning is a trouble that is tried again.
type warning struct {
	message string
	err     error
	since   time.Time // when it began
	next    time.Duration
}

// warnings are those under way, by message. Its owner guards it.
type warnings struct {
	rows map[string]*row
}

// row is one trouble that goes on.
type row struct {
	text   string
	unsaid int // times since it was logged
	at     time.Time
	pause  time.Duration
}

// log logs a warning when it is another than the last of its message, or it is time again,
// and says whether it did; otherwise it is there for who debugs only.
func (w *warnings) log(log *slog.Logger, one warning, now time.Time) bool {
	r := w.rows[one.message]
	if r == nil || r.text != one.err.Error() {
		if w.rows == nil {
			w.rows = map[string]*row{}
		}
		r = &row{text: one.err.Error(), at: now, pause: repeatMin}
		w.rows[one.message] = r
	} else if r.unsaid++; now.Sub(r.at) < r.pause {
		log.Debug(one.message, "error", one.err, "next", one.next.Round(time.Millisecond))
		return false
	} else {
		log = log.With("times", r.unsaid)
		r.unsaid, r.at, r.pause = 0, now, min(2*r.pause, repeatMax)
	}
	log.Warn(one.message, "error", one.err, "since", one.since.UTC(), "next", one.next.Round(time.Millisecond))
	return true
}

// over ends a row: the next warning of this message is logged.
func (w *warnings) over(message string) { delete(w.rows, message) }
