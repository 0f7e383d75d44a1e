// What the history of applied plans gets of a delivery.

package apply

import "github.com/drover-project/drover/plans/apply/history"

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
