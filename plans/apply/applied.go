// What the history of applied plans gets of a delivery.

package apply

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/apply/history"
	"github.com/drover-project/drover/plans/durable"
)

// remember has the delivery added to the history, a moment after its outcome is in the ledger: the report of the outcome does not wait
// for it, and the next delivery does.
func (w *work) remember() {
	l := w.ledger
	entry := entryOf(l)
	entry.Plan = w.d.Plan
	w.past.after(reportFirst, func() { w.addToHistory(l.Source, entry) })
}

func entryOf(l *ledger) history.Entry {
	return history.Entry{
		Checksum: l.Checksum, Source: l.Source, ID: l.ID,
		Began: l.Begun, Ended: l.Outcome.Ended, Succeeded: l.Outcome.Succeeded, Reason: l.Outcome.Reason,
	}
}

// addToHistory adds an entry unless the history has it. No fault here may hold a plan up.
func (e *Engine) addToHistory(source string, entry history.Entry) {
	if e.AppliedDir == "" {
		return
	}
	if err := history.Add(e.AppliedDir, fileKey(source), entry); err != nil {
		e.Logger.Error("applied plan is not added to the history", "directory", e.AppliedDir, "error", err)
	}
}

// recallPast makes durable what an earlier life wrote into its ledgers, which must not be written over before that, and adds to
// the history what that life ended and died before adding; the plan itself is not known any more.
func (e *Engine) recallPast() error {
	paths, err := filepath.Glob(filepath.Join(e.LedgerDir, "*.json"))
	if err != nil {
		return fmt.Errorf("look for ledgers: %w", err)
	}
	for _, path := range paths {
		if err := durable.SyncFile(path); err != nil {
			return fmt.Errorf("sync the ledger %s: %w", path, err)
		}
		if l, err := readLedger(path); err == nil && l.Outcome != nil {
			e.addToHistory(l.Source, entryOf(l))
		}
	}
	return durable.SyncDir(e.LedgerDir)
}

// later is what is done in a moment, by one caller at a time.
type later struct {
	mu    sync.Mutex
	timer *time.Timer
	do    func() // nil: nothing is due
}

// after has something done after a while, and what was to be done before at once.
func (l *later) after(d time.Duration, do func()) {
	l.finish()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.do, l.timer = do, time.AfterFunc(d, l.finish)
}

// finish does what is due, and returns once it is done.
func (l *later) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.do == nil {
		return
	}
	l.timer.Stop()
	l.do()
	l.do = nil
}

// Past is how a delivery ended that is older than the ledger's, by the history of applied plans:
// the last of those with that ID, or with it and a number after a dot, and that checksum. Nil:
// the history does not have it, or there is none. A history that cannot be read has nothing.
func (e *Engine) Past(source, id, checksum string) *Ending {
	if e.AppliedDir == "" {
		return nil
	}
	e.past.finish()
	found, ok := history.Find(e.AppliedDir, fileKey(source), func(a history.Entry) bool {
		base, _, _ := strings.Cut(a.ID, ".")
		return a.Source == source && base == id && a.Checksum == checksum
	})
	if !ok {
		return nil
	}
	return &Ending{Succeeded: found.Succeeded, Reason: found.Reason, At: found.Ended}
}
