// Warnings that repeat, summed: a server that is away for a night leaves a few lines and not
// thousands. The first of a row is logged, then again at growing distances with their number.

package backoff

import (
	"log/slog"
	"time"
)

const (
	// repeatMin is the distance after which the same warning is logged again; it doubles up to repeatMax.
	repeatMin = time.Minute
	repeatMax = time.Hour
)

// Warning is a trouble that is tried again.
type Warning struct {
	Message string
	Err     error
	Since   time.Time     // when it began
	Next    time.Duration // the pause before the next attempt
}

// Warnings are those under way, by message. Its owner guards it.
type Warnings struct {
	rows map[string]*repeated
}

// repeated is one trouble that goes on.
type repeated struct {
	text   string
	unsaid int // times since it was logged
	at     time.Time
	pause  time.Duration
}

// Log logs a warning when it is another than the last of its message, or it is time again,
// and says whether it did; otherwise it is there for who debugs only.
func (w *Warnings) Log(log *slog.Logger, one Warning, now time.Time) bool {
	r := w.rows[one.Message]
	if r == nil || r.text != one.Err.Error() {
		if w.rows == nil {
			w.rows = map[string]*repeated{}
		}
		r = &repeated{text: one.Err.Error(), at: now, pause: repeatMin}
		w.rows[one.Message] = r
	} else if r.unsaid++; now.Sub(r.at) < r.pause {
		log.Debug(one.Message, "error", one.Err, "next", one.Next.Round(time.Millisecond))
		return false
	} else {
		log = log.With("times", r.unsaid)
		r.unsaid, r.at, r.pause = 0, now, min(2*r.pause, repeatMax)
	}
	log.Warn(one.Message, "error", one.Err, "since", one.Since.UTC(), "next", one.Next.Round(time.Millisecond))
	return true
}

// Over ends a row: the next warning of this message is logged.
func (w *Warnings) Over(message string) { delete(w.rows, message) }
