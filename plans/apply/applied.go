// What the history of applied plans gets of a delivery.

package apply

import (
	"strings"

	"github.com/drover-project/drover/plans/apply/history"
)

// remember adds the delivery to the history once its outcome is known. No fault here may
// hold the plan up.
func (w *work) remember(o outcome) {
	if w.AppliedDir == "" {
		return
	}
	l := w.ledger
	err := history.Add(w.AppliedDir, fileKey(l.Source), history.Entry{
		Plan: w.d.Plan, Checksum: l.Checksum, Source: l.Source, ID: l.ID,
		Began: l.Begun, Ended: o.Ended, Succeeded: o.Succeeded, Reason: o.Reason,
	})
	if err != nil {
		w.log.Error("applied plan is not added to the history", "directory", w.AppliedDir, "error", err)
	}
}

// Past is how a delivery ended that is older than the ledger's, by the history of applied plans:
// the last of those with that ID, or with it and a number after a dot, and that checksum. Nil:
// the history does not have it, or there is none. A history that cannot be read has nothing.
func (e *Engine) Past(source, id, checksum string) *Ending {
	if e.AppliedDir == "" {
		return nil
	}
	found, ok := history.Find(e.AppliedDir, fileKey(source), func(a history.Entry) bool {
		base, _, _ := strings.Cut(a.ID, ".")
		return a.Source == source && base == id && a.Checksum == checksum
	})
	if !ok {
		return nil
	}
	return &Ending{Succeeded: found.Succeeded, Reason: found.Reason, At: found.Ended}
}
